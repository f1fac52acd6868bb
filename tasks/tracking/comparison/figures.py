"""The charts of a comparison."""

from collections.abc import Iterator

from tasks.core.wording import MINUS, counted, counts, percent, points
from tasks.documents.charts import Intervals, Parts, Point
from tasks.documents.model import Figure, Legend, Span
from tasks.scoring.score import CONFIDENCE, Accuracy
from tasks.tracking.candidate_curve import candidate_chart
from tasks.tracking.comparison.run_comparison import RunComparison
from tasks.tracking.comparison.score_plots import point


def comparison_figures(found: RunComparison) -> Iterator[Figure]:
    """Yield the charts: accuracy, difference, and what happened to the questions."""
    result, sides = found.result, (found.a, found.b)
    yield Figure(
        f"Execution accuracy, with {100 * CONFIDENCE:g} % intervals (Wilson)",
        Intervals(
            tuple(point(side.ex, side.letter.lower(), side.letter) for side in sides if side.ex.total),
            "Execution accuracy. " + "; ".join(f"{side.letter}: {in_words(side.ex)}" for side in sides),
        ),
    )
    wide = f"{100 * result.confidence:g} % interval"
    kind = "a" if result.difference < 0 else "b"
    low, high = points(result.low), points(result.high)
    shares = (100 * result.difference, 100 * result.low, 100 * result.high)
    yield Figure(
        f"Difference B {MINUS} A in points, with its {wide} (paired bootstrap); grey band: not significant "
        f"(p ≥ {result.level})",
        Intervals(
            (Point(*shares, kind, "", points(result.difference)),),
            f"B minus A: {points(result.difference)} points, {wide} {low} to {high}",
            ("A is better", "B is better"),
            None if result.needed_net is None else 100 * result.needed_net / result.questions,
        ),
    )

    parts = (
        ("right in both", result.both_right, "both-right"), ("fixed by B", len(result.fixed), "b"),
        ("broken by B", len(result.broken), "a"), ("wrong in both", result.both_wrong, "both-wrong"),
    )  # fmt: skip
    legend = (*((kind, (f"{name} ", Span(f"{count:,}", "strong"))) for name, count, kind in parts),)
    yield Figure(
        f"All {counted(result.questions, 'question')}; only those that flipped can tell the runs apart",
        Parts(parts, ", ".join(f"{name}: {count:,}" for name, count, _ in parts)),
        True,
        Legend((*legend, ("", f"{found.same_sql:,} were answered with the same SQL"))),
    )


def candidate_figures(found: RunComparison) -> Iterator[Figure]:
    """Yield the chart of candidates, where a run has several."""
    if chart := candidate_chart(
        [(letter, letter.upper(), data) for letter, data in found.candidates.items()]
    ):
        yield Figure(
            "Execution accuracy of k candidates against their cost: majority@k (solid, with 95 % intervals) and "
            "pass@k (dashed), over all scored questions of each run",
            chart,
        )


def in_words(ex: Accuracy | None) -> str:
    """Return a score in words."""
    return "does not have this stage" if ex is None else f"{percent(ex)} ({counts(ex)})"
