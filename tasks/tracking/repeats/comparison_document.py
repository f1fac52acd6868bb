"""A comparison of several runs with several others, as a document."""

from collections.abc import Iterator

from tasks.core.wording import DASH, MINUS, counted, counts, percent, points
from tasks.documents.charts import Intervals, Point
from tasks.documents.model import (
    Block,
    Bullets,
    Column,
    Columns,
    Document,
    Figure,
    Section,
    Sentence,
    Span,
    Table,
)
from tasks.tracking.comparison.sides import TONES
from tasks.tracking.repeats.comparison import RepeatedComparison


def repeated_document(found: RepeatedComparison, shown: int | None = None) -> Document:
    """Return the document; a terminal shows the first questions, None for all."""
    result = found.result
    return Document(
        result.headline,
        tuple(_blocks(found, shown)),
        (
            Span("Crosscheck · ", "quiet"),
            Span(found.benchmark, "strong"),
            f", revision {found.revision} · rule {found.rule} · {counted(result.questions, 'question')} · "
            f"{counted(result.runs_a, 'run')} of A, {result.runs_b} of B",
        ),
        result.reason,
        TONES[result.better],
        (
            Section(
                "How to read this",
                (
                    Sentence(
                        "A question counts by how often each side has it right. The test is the exact sign-flip test "
                        "over questions: without a difference between the sides, the difference of a question has "
                        "either sign with the same probability. Of one run on either side it is the exact McNemar "
                        "test. The interval is drawn by bootstrap over questions. Answers of one side to one question "
                        "are not counted as independent."
                    ),
                ),
            ),
        ),
        f"{result.headline}: {found.a.name} (A) against {found.b.name} (B) on {found.benchmark}",
    )


def _blocks(found: RepeatedComparison, shown: int | None) -> Iterator[Block]:
    if found.noninferiority:
        yield Sentence(found.noninferiority.verdict)
    if found.gate:
        word = Span("failed", "bad") if found.gate.failed else Span("passed", "good")
        reason = "" if found.noninferiority else f": {found.gate.reason.removesuffix('.')}"
        yield Sentence((Span("--fail-if worse", "code"), " ", word, f"{reason}."))
    if found.warnings:
        yield Section("Before you trust these numbers", (Bullets(found.warnings, "warning"),), notes=True)
    yield Columns((_figure(found), _sides(found), _runs(found)))
    if found.changes:
        yield _changes(found, shown)


def _sides(found: RepeatedComparison) -> Table:
    means = (found.result.mean_a, found.result.mean_b)
    rows = tuple(
        (
            Span(side.letter, TONES[side.letter], "letter"),
            side.name,
            str(len(side.runs)),
            Span(f"{100 * mean:.2f} %", "strong"),
            DASH if side.sd is None else f"{100 * side.sd:.2f}",
        )
        for side, mean in zip((found.a, found.b), means, strict=True)
    )
    headers = (
        Column("", "text"), Column("backbone | pipeline", "text"), "runs", "mean EX", "standard deviation",
    )  # fmt: skip
    return Table("", headers, rows, "standard deviation between the runs of a side, in points")


def _figure(found: RepeatedComparison) -> Figure:
    result = found.result
    low, high, wide = points(result.low), points(result.high), f"{100 * result.confidence:g} % interval"
    shares = (100 * result.difference, 100 * result.low, 100 * result.high)
    return Figure(
        f"Difference B {MINUS} A in points, with its {wide} (bootstrap over questions)",
        Intervals(
            (Point(*shares, "a" if result.difference < 0 else "b", "", points(result.difference)),),
            f"B minus A: {points(result.difference)} points, {wide} {low} to {high}",
            ("A is better", "B is better"),
            band=0,
        ),
    )


def _runs(found: RepeatedComparison) -> Table:
    rows = tuple(
        (
            side.letter,
            Span(each.run_id, "quiet"),
            percent(each.ex),
            counts(each.ex),
            "" if each.status == "complete" else each.status,
        )
        for side in (found.a, found.b)
        for each in side.runs
    )
    headers = (Column("", "text"), Column("run", "text"), "EX", "right", Column("", "text"))
    return Table("Runs", headers, rows)


def _changes(found: RepeatedComparison, shown: int | None) -> Table:
    rows = tuple(
        (
            each.question_id,
            each.database,
            each.difficulty or "",
            f"{each.right_a} of {len(found.a.runs)}",
            f"{each.right_b} of {len(found.b.runs)}",
            each.question,
        )
        for each in found.changes
    )
    headers = (
        Column("question", "text"), Column("database", "text"), Column("difficulty", "text"),
        Column("right in A", brief=True), Column("right in B", brief=True), Column("text", "text"),
    )  # fmt: skip
    return Table(
        "Questions that differ",
        headers,
        rows,
        "largest difference first",
        wide=True,
        first=shown,
        more="--all, --json or --html",
    )
