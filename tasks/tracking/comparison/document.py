"""A comparison as a document: the verdict, the numbers behind it, and the questions."""

from collections.abc import Iterator, Sequence

from tasks.core.wording import (
    MINUS,
    counted,
    counts,
    number,
    p_value,
    percent,
    points,
)
from tasks.documents.charts import TwoSided
from tasks.documents.fold import folded
from tasks.documents.model import (
    Block,
    Bullets,
    Card,
    Cards,
    Code,
    Column,
    Columns,
    Document,
    Medium,
    Only,
    Questions,
    Section,
    Sentence,
    Span,
    Table,
)
from tasks.scoring.score import Accuracy
from tasks.scoring.significance import PairedTest
from tasks.tracking.comparison.figures import candidate_figures, comparison_figures
from tasks.tracking.comparison.flips import FLIP_FILTERS, question_item, settings_table
from tasks.tracking.comparison.metric_rows import as_table
from tasks.tracking.comparison.run_comparison import (
    Contrast,
    RunComparison,
)
from tasks.tracking.comparison.score_plots import AXIS, score_plot
from tasks.tracking.comparison.sides import (
    RANGE,
    TONES,
    bill,
    interval_in_words,
    side_card,
    sides_table,
)

_TEXT: tuple[Medium, ...] = ("terminal", "markdown")


def comparison_document(found: RunComparison, shown: int | None = None) -> Document:
    """Return the document; a terminal shows the first flipped questions, None for all."""
    result, confidence = found.result, f"{100 * found.result.confidence:g} %"
    names = f"{found.a.name} (A) against {found.b.name} (B)"
    return Document(
        result.headline,
        tuple(_blocks(found, shown)),
        (
            Span("Crosscheck · ", "quiet"),
            Span(found.benchmark, "strong"),
            f", revision {found.revision} · rule {found.rule} · {counted(result.questions, 'question')}",
        ),
        result.reason,
        TONES[result.better],
        (
            Section(
                "How to read this",
                (
                    Sentence(
                        "Both runs are paired question by question. A question is fixed where A is wrong and B is "
                        "right, and broken the other way round. p is the exact two-sided McNemar test: how likely "
                        "chance alone would split the flipped questions this unevenly or more. The interval of the "
                        f"difference ({confidence}) is drawn by bootstrap over questions. In a table, p is adjusted "
                        "for the number of its rows (Holm), since among many tests a small p occurs by chance. A "
                        "question without an answer counts as wrong."
                    ),
                    Sentence(
                        (
                            "Question file sha256 ",
                            Span(found.question_sha256, "code"),
                            f"; {' and '.join(dict.fromkeys((found.a.engine, found.b.engine)))}.",
                        )
                    ),
                ),
            ),
        ),
        f"{result.headline}: {names} on {found.benchmark}",
    )


def _blocks(found: RunComparison, shown: int | None) -> Iterator[Block]:
    yield from _gate(found)
    yield Only(_TEXT, (sides_table((found.a, found.b)), Sentence(_ways(found), "note")))
    yield Columns(tuple(comparison_figures(found)))
    yield _glance(found)
    for each in found.variants.values():
        yield Sentence(f"{each.title}: {each.result.verdict if each.result else each.problem}")
        sides: dict[str, list[str]] = {}
        for letter, score in (("A", each.a), ("B", each.b)):
            if score and score.differs.count:
                sides.setdefault(score.differs.in_words(), []).append(letter)
        for differs, letters in sides.items():
            yield Sentence(f"{each.title}, the verdict differs in {' and '.join(letters)}: {differs}", "note")
    if notes := (*found.left_out, *found.warnings):
        yield Section("Before you trust these numbers", (Bullets(notes, "warning"),), notes=True)
    yield Only(("page",), (_flipped(found, shown),))
    yield from _tables(found)
    if found.flips:
        yield Only(_TEXT, (_flipped(found, shown),))


def _tables(found: RunComparison) -> Iterator[Block]:
    result, sides = found.result, (found.a, found.b)
    yield from candidate_figures(found)
    if found.variants:
        yield _variants(found)
    yield from map(folded, _contrasts("By stage", found.stages if len(found.stages) > 1 else (), result))
    yield from _contrasts("By difficulty", found.by_difficulty, result)
    yield from _contrasts("By database", found.by_database if len(found.by_database) > 1 else (), result)
    yield bill(sides)
    if found.settings:
        yield settings_table(found.settings, ("A", "B"))
    if result.only_a or result.only_b:
        yield Sentence(
            "Metrics: left out. Each run has them over all its scored questions, and the runs scored different ones.",
            "note",
        )
    metrics = as_table(found.metrics, equal=False)
    if metrics.rows:
        yield metrics
    elif found.metrics:
        yield Sentence(f"Metrics: {counted(len(found.metrics), 'value')} equal in both", "note")


def _flipped(found: RunComparison, shown: int | None) -> Section:
    questions = Questions(
        tuple(question_item(flip, ("A", "B"), " by B") for flip in found.flips),
        FLIP_FILTERS,
        shown,
        " flipped questions; --all prints the others, --html writes a page to search in",
        "Highlighted: differences between the two queries.",
    )
    none = Sentence("There are none: wherever one run is right, the other is.")
    return Section("Flipped questions", (questions if found.flips else none,), "flipped")


def _glance(found: RunComparison) -> Cards:
    todo = [Code("crosscheck leaderboard  # ranks all runs")]
    if broken := found.result.broken:
        command = f"crosscheck show {found.b.run_id} {broken[0]}  # a broken question, stage by stage"
        todo.insert(0, Code(command))
    sides = (side_card(found.a), side_card(found.b))
    return Cards((*sides, Card("Next", tuple(todo), wide=True)))


def _gate(found: RunComparison) -> Iterator[Sentence]:
    if found.noninferiority:
        yield Sentence(found.noninferiority.verdict)
    if found.gate:
        word = Span("failed", "bad") if found.gate.failed else Span("passed", "good")
        reason = "" if found.noninferiority else f": {found.gate.reason.removesuffix('.')}"
        yield Sentence((Span("--fail-if worse", "code"), " ", word, f"{reason}."))


def _ways(found: RunComparison) -> str:
    result = found.result
    return (
        f"{result.both_right:,} right in both · {len(result.fixed):,} fixed by B · {len(result.broken):,} broken "
        f"by B · {result.both_wrong:,} wrong in both · {found.same_sql:,} answered with the same SQL"
    )


def _variants(found: RunComparison) -> Table:
    scores: list[tuple[str, str, Accuracy]] = [
        (side.letter, "official", side.ex) for side in (found.a, found.b)
    ]
    for each in found.variants.values():
        scores += [(letter, each.title, one) for letter, one in (("A", each.a), ("B", each.b)) if one]
    rows = tuple(
        (
            f"{letter}  {title}",
            percent(ex),
            counts(ex),
            interval_in_words(ex),
            score_plot((letter, ex, letter.lower())),
        )
        for letter, title, ex in scores
    )
    headers = (
        "", "EX", Column("right", under=True), Column(RANGE, text_only=True),
        Column(f"with its {RANGE}", "plot", axis=AXIS),
    )  # fmt: skip
    return Table("Official score and variants", headers, rows)


def _contrasts(title: str, contrasts: Sequence[Contrast], result: PairedTest) -> Iterator[Table]:
    if not contrasts:
        return
    reach = max(max(each.fixed or 0, each.broken or 0) for each in contrasts)
    headers = (
        Column("", "text"), Column("A"), Column("right", under=True), Column("B"), Column("right", under=True),
        Column(f"B {MINUS} A"), Column("Both with intervals", "plot", axis=AXIS), Column("broken | fixed", "plot"),
        Column("fixed", text_only=True), Column("broken", text_only=True), Column("p", help="exact McNemar test"),
        Column("p adj.", help="p, adjusted for the number of rows in this table (Holm)"),
    )  # fmt: skip
    rows = tuple(
        (
            each.name,
            percent(each.a),
            counts(each.a),
            percent(each.b),
            counts(each.b),
            points(each.difference),
            score_plot(("A", each.a, "a"), ("B", each.b, "b")),
            ""
            if each.fixed is None or each.broken is None
            else TwoSided(
                each.broken, each.fixed, reach, f"broken by B {each.broken:,}, fixed by B {each.fixed:,}"
            ),
            number(each.fixed, missing=""),
            number(each.broken, missing=""),
            "" if each.p_value is None else p_value(each.p_value),
            Span(
                "" if each.adjusted_p is None else p_value(each.adjusted_p),
                "strong" if each.adjusted_p is not None and each.adjusted_p < result.level else "",
            ),
        )
        for each in contrasts
    )
    tested = sum(each.p_value is not None for each in contrasts)
    yield Table(
        title,
        headers,
        rows,
        f"p adj.: p adjusted for {counted(tested, 'test')} (Holm)" if tested > 1 else "",
        keep=5,
    )
