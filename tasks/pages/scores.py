"""Scores in words, in charts and beside their intervals."""

from collections.abc import Iterable
from math import ceil, floor

from tasks.core.wording import DASH, MINUS, Share, counts, interval, percent, points
from tasks.documents.model import Column, Figure, Intervals, Medium, Point, Points, Table, Tone
from tasks.scoring.repeated import RepeatedTest
from tasks.scoring.scores import CONFIDENCE, Accuracy
from tasks.scoring.significance import PairedTest

TONES: dict[str | None, Tone] = {"A": "bad", "B": "better", None: "doubt"}
"""Tone of a side of a comparison, and of a verdict in its favour."""
RANGE = f"{100 * CONFIDENCE:g} % interval"
TEXT: tuple[Medium, ...] = ("terminal", "markdown")
"""Media without charts and cards."""
AXIS = (0.0, 100.0)
"""Axis of scores that may be anywhere."""


def score_plot(*scores: tuple[str, Accuracy | None, str]) -> Points | str:
    """Return scores below each other, each as what it is of, the score, and its kind; "" if none has a question."""
    counted = [(name, ex, kind) for name, ex, kind in scores if ex and ex.total]
    label = ", ".join(f"{name} {in_words(ex)}".lstrip() for name, ex, _ in counted)
    return Points(tuple(point(ex, kind) for _, ex, kind in counted), label) if counted else ""


def point(ex: Accuracy, kind: str, label: str = "") -> Point:
    """Return a score as a point of a chart."""
    value, low, high = (100 * (share or 0.0) for share in (ex.ex, ex.low, ex.high))
    return Point(value, low, high, kind, label, percent(ex))


def axis_around(scores: Iterable[Accuracy | None]) -> tuple[float, float]:
    """Return an axis from whole tens to whole tens around the intervals of scores, at least ten points long."""
    ends = [100 * end for ex in scores if ex for end in ex.interval or ()]
    low = floor(min(ends, default=0) / 10) * 10
    return low, max(ceil(max(ends, default=100) / 10) * 10, low + 10)


def in_words(share: Share | None, missing: str = "") -> str:
    """Return a share with its counts; `missing` of nothing."""
    return f"{percent(share)} ({counts(share)})" if share else missing


def interval_in_words(ex: Accuracy | None, missing: str = DASH) -> str:
    """Return the interval of a score; `missing` of nothing."""
    return interval(*ex.interval) if ex and ex.interval else missing


def accuracy_table(title: str, scores: Iterable[tuple[str, str, Accuracy | None]]) -> Table:
    """Return a table of scores, given as the letter of the run ("" if there is only one), a name, and the score."""
    rows = (
        (
            f"{letter}  {name}" if letter else name,
            percent(ex),
            counts(ex),
            interval_in_words(ex),
            score_plot((letter, ex, letter.lower() or "b")),
        )
        for letter, name, ex in scores
    )
    headers = (
        "", "EX", Column("right", under=True), Column(RANGE, text_only=True),
        Column(f"with its {RANGE}", "plot", axis=AXIS),
    )  # fmt: skip
    return Table(title, headers, tuple(rows))


def difference_figure(test: PairedTest | RepeatedTest, band: float | None) -> Figure:
    """Return the chart of a difference and its interval.

    Differences of up to `band` points are not significant; None: none is, 0: no such limit is known.
    """
    wide = f"{100 * test.confidence:g} % interval"
    value, low, high = points(test.difference), points(test.low), points(test.high)
    shares = (100 * test.difference, 100 * test.low, 100 * test.high)
    grey_band = "" if band == 0 else f"; grey band: not significant (p ≥ {test.level})"
    return Figure(
        f"Difference B {MINUS} A in points, with its {wide}{grey_band}",
        Intervals(
            points=(Point(*shares, "a" if test.difference < 0 else "b", "", value),),
            label=f"B minus A: {value} points, {wide} {low} to {high}",
            sides=("A is better", "B is better"),
            band=band,
        ),
    )
