"""A comparison as a document: the verdict, the numbers behind it, and the questions."""

import shlex
from collections.abc import Iterator, Sequence

from tasks.core.wording import MINUS, counted, counts, money, number, p_value, percent, points, seconds
from tasks.documents.model import (
    AnswerBlock,
    Block,
    Card,
    Cards,
    Code,
    Column,
    Columns,
    Document,
    Figure,
    Inline,
    Intervals,
    Legend,
    Only,
    Parts,
    QuestionItem,
    Questions,
    Section,
    Sentence,
    Span,
    Table,
    Tone,
    TwoSided,
    reading,
)
from tasks.documents.text import folded
from tasks.pages.repeats import SEVERAL_RUNS_TEST, cautions, repeated_blocks
from tasks.pages.scores import (
    AXIS,
    RANGE,
    TEXT,
    TONES,
    accuracy_table,
    difference_figure,
    in_words,
    interval_in_words,
    point,
    score_plot,
)
from tasks.results.comparison import (
    ComparedAnswer,
    Comparison,
    Contrast,
    Flip,
    SettingChange,
    Side,
    VariantContrast,
    as_table,
)
from tasks.results.curves import candidate_chart
from tasks.scoring.repeated import RepeatedTest
from tasks.scoring.scores import CONFIDENCE, Accuracy
from tasks.scoring.significance import PairedTest
from tasks.settings.choices import labels_in_words

MAX_SETTINGS = 12
"""Settings that a terminal shows at most."""
FLIP_FILTERS = {"change": "Change", "database": "Database", "difficulty": "Difficulty"}


def settings_table(changes: Sequence[SettingChange], names: tuple[str, str]) -> Table:
    """Return what differs in the settings of two runs."""
    unset = Span("not set", "quiet")
    rows = tuple(
        (
            Span(change.key, "code"),
            *(unset if value is None else Span(value, "code") for value in (change.a, change.b)),
        )
        for change in changes
    )
    headers = (Column("", "text"), *(Column(name, "text") for name in names))
    return Table("What differs in the settings", headers, rows, first=MAX_SETTINGS)


def question_item(
    flip: Flip, names: tuple[str, str], by: str = "", *, fold: bool = False, gold: bool = True
) -> QuestionItem:
    """Return a flipped question with both answers and the gold, which a page may `fold`.

    `names` are the names of the two runs. If they are not "A" and "B", the first one has no colour. The badge says
    "fixed" or "broken", followed by `by`.
    """

    def answer(name: str, tone: Tone, own: ComparedAnswer, other: ComparedAnswer) -> AnswerBlock:
        return AnswerBlock((Span(name, tone, "letter"), f" {own.in_words}"), own.sql, other.sql, own.stages)

    return QuestionItem(
        id=flip.question_id,
        badge=Span(f"{flip.change}{by}", "better" if flip.change == "fixed" else "bad", "badge"),
        about=" · ".join(part for part in (flip.database, flip.difficulty) if part),
        text=flip.question,
        evidence=flip.evidence,
        answers=(
            answer(names[0], "bad" if names[0] == "A" else "quiet", flip.a, flip.b),
            answer(names[1], "better", flip.b, flip.a),
            *([AnswerBlock("gold", flip.gold_sql, fold=fold)] if gold else ()),
        ),
        keys={"change": flip.change, "database": flip.database, "difficulty": flip.difficulty or ""},
    )


def _letter(side: Side) -> Span:
    return Span(side.letter, TONES[side.letter], "letter")


def _labels(side: Side) -> tuple[Span, ...]:
    """Return what the user wrote on a run, and which settings differ from the defaults."""
    labels = (Span(labels_in_words(side.tags), "quiet"), Span(side.tags.get("changed", ""), "code"))
    return tuple(label for label in labels if label.text)


def _sides_table(sides: Sequence[Side]) -> Table:
    headers = (
        Column("", "text"), Column("backbone | pipeline", "text"), Column("run", "text"), Column("EX"), Column("right"),
        Column(RANGE),
    )  # fmt: skip
    rows = tuple(
        (
            _letter(side),
            (side.name, *(span for label in _labels(side) for span in ("\n", label))),
            Span(side.run_id, "quiet"),
            Span(percent(side.ex), "strong"),
            counts(side.ex),
            interval_in_words(side.ex),
        )
        for side in sides
    )
    return Table("", headers, rows)


def _side_card(side: Side) -> Card:
    status = (", ", Span(side.status, "strong")) if side.status != "complete" else ()
    started = (f", {side.started:%Y-%m-%d %H:%M} UTC", *status)
    cost = "cost unknown: predictions made elsewhere"
    if side.cost.calls is not None:
        scratch, paid = money(side.cost.from_scratch_usd), money(side.cost.cost_usd)
        cost = f"{scratch} from scratch, {paid} paid for {counted(side.cost.calls, 'call')}"
    return Card(
        (_letter(side), " ", side.pipeline, Span(" with ", "quiet"), side.backbone),
        (
            *(Sentence(label) for label in _labels(side)),
            Sentence(percent(side.ex), "score"),
            Sentence(f"{counts(side.ex)} right, {RANGE} {interval_in_words(side.ex)}"),
            Sentence(("run ", Span(side.run_id, "code"), *started, f"; {cost}"), "note"),
        ),
    )


def _bill(sides: Sequence[Side]) -> Table | Sentence:
    if all(side.cost.calls is None for side in sides):
        return Sentence("Cost unknown: the answers of both runs were made elsewhere.", "note")
    headers = (
        "", "calls paid", "from cache", "retries", "tokens in", "tokens out", "paid", "from scratch", "p50", "p95"
    )  # fmt: skip
    rows: tuple[tuple[Inline, ...], ...] = tuple(
        (
            (_letter(side), f"  {side.name}"),
            number(side.cost.calls),
            number(side.cost.cached_calls),
            number(side.cost.retries),
            number(side.input_tokens),
            number(side.output_tokens),
            money(side.cost.cost_usd),
            money(side.cost.from_scratch_usd),
            seconds(side.cost.p50_s),
            seconds(side.cost.p95_s),
        )
        for side in sides
    )
    remark = (
        "tokens: including cached replies; paid: cost of this run; from scratch: cost with an empty cache"
    )
    return Table("Cost of these questions", headers, rows, remark)


def _figures(comparison: Comparison, result: PairedTest) -> Iterator[Figure]:
    sides = (comparison.a, comparison.b)
    intervals = tuple(
        point(side.ex, side.letter.lower(), side.letter) for side in sides if side.ex and side.ex.total
    )
    label = "Execution accuracy. " + "; ".join(f"{side.letter}: {in_words(side.ex)}" for side in sides)
    title = f"Execution accuracy, with {100 * CONFIDENCE:g} % intervals (Wilson)"
    yield Figure(title, Intervals(intervals, label))
    yield difference_figure(
        result,
        None if result.needed_net is None else 100 * result.needed_net / result.questions,
    )
    parts = (
        ("right in both", result.both_right, "both-right"), ("fixed by B", len(result.fixed), "b"),
        ("broken by B", len(result.broken), "a"), ("wrong in both", result.both_wrong, "both-wrong"),
    )  # fmt: skip
    legend = ((kind, (f"{name} ", Span(f"{count:,}", "strong"))) for name, count, kind in parts)
    same_sql = f"{comparison.same_sql:,} answered with the same SQL"
    yield Figure(
        f"All {counted(result.questions, 'question')}; only those that flipped can tell the runs apart",
        Parts(parts, ", ".join(f"{name}: {count:,}" for name, count, _ in parts)),
        wide=True,
        legend=Legend((*legend, ("", same_sql))),
    )


def comparison_document(comparison: Comparison, first: int | None = None) -> Document:
    """Return the document; a terminal shows the `first` questions that differ, or all."""
    result = comparison.result
    names = f"{comparison.a.name} (A) against {comparison.b.name} (B)"
    heading = (
        f", revision {comparison.revision} · rule {comparison.rule} · {counted(result.questions, 'question')}"
    )
    if isinstance(result, RepeatedTest):
        heading += f" · {counted(result.runs_a, 'run')} of A, {result.runs_b} of B"
    return Document(
        title=result.headline,
        blocks=tuple(_blocks(comparison, first)),
        kicker=(Span("Crosscheck · ", "quiet"), Span(comparison.benchmark, "strong"), heading),
        lead=result.reason,
        tone=TONES[result.better],
        footer=reading(*_explanation(comparison)),
        name=f"{result.headline}: {names} on {comparison.benchmark}",
    )


def _explanation(comparison: Comparison) -> Iterator[Sentence]:
    if isinstance(comparison.result, RepeatedTest):
        yield SEVERAL_RUNS_TEST
        return
    yield Sentence(
        "Both runs are paired question by question. A question is fixed where A is wrong and B is right, and broken "
        "the other way round. p is the exact two-sided McNemar test: how likely chance alone would split the flipped "
        "questions this unevenly or more. The interval of the difference "
        f"({100 * comparison.result.confidence:g} %) is drawn by bootstrap over questions; where every question got "
        "better, every one worse, or none changed, it is Tango's score interval. The p of a verdict is that "
        "of these two runs and one score alone. In a table, p is adjusted for the number of its rows (Holm), since "
        "among many tests a small p occurs by chance. A question without an answer counts as wrong."
    )
    engines = " and ".join(dict.fromkeys((comparison.a.engine, comparison.b.engine)))
    yield Sentence(("Question file sha256 ", Span(comparison.question_sha256, "code"), f"; {engines}."))


def _blocks(comparison: Comparison, first: int | None) -> Iterator[Block]:
    gate = tuple(_gate(comparison))
    yield Only(("page",), gate)
    result = comparison.result
    if isinstance(result, RepeatedTest):
        if comparison.warnings:
            yield cautions(comparison.warnings)
        yield from repeated_blocks(comparison, result, first)
    else:
        yield from _paired_blocks(comparison, result, first)
    yield Only(TEXT, gate)  # last, since the log of a CI job is read from its end


def _paired_blocks(comparison: Comparison, result: PairedTest, first: int | None) -> Iterator[Block]:
    same_sql = f"{comparison.same_sql:,} answered with the same SQL"
    outcomes = (
        f"{result.both_right:,} right in both · {len(result.fixed):,} fixed by B · {len(result.broken):,} broken "
        f"by B · {result.both_wrong:,} wrong in both · {same_sql}"
    )
    sides = (comparison.a, comparison.b)
    yield Only(TEXT, (_sides_table(sides), Sentence(outcomes, "note")))
    if result.better:
        yield Sentence(
            "p is that of these two runs alone. The leaderboard and sweeps adjust p for all pairs of their runs "
            "(Holm): the difference may not be significant there.",
            "note",
        )
    yield Columns(tuple(_figures(comparison, result)))
    yield _summary_cards(comparison, result)
    for variant in comparison.variants.values():
        yield from _variant_sentences(variant)
    if notes := (*comparison.left_out, *comparison.warnings):
        yield cautions(notes)
    # A page has the flipped questions before the tables, a text has them at its end.
    flipped = _flipped(comparison, first)
    yield Only(("page",), (flipped,))
    yield from _tables(comparison, result)
    if comparison.flips:
        yield Only(TEXT, (flipped,))


def _variant_sentences(variant: VariantContrast) -> Iterator[Sentence]:
    yield Sentence(f"{variant.title}: {variant.result.verdict if variant.result else variant.problem}")
    letters: dict[str, list[str]] = {}
    for letter, score in (("A", variant.a), ("B", variant.b)):
        if score and score.differs.count:
            letters.setdefault(score.differs.in_words(), []).append(letter)
    for differs, sides in letters.items():
        yield Sentence(f"{variant.title}, the verdict differs in {' and '.join(sides)}: {differs}", "note")


def _tables(comparison: Comparison, result: PairedTest) -> Iterator[Block]:
    candidates = [(letter, letter.upper(), data) for letter, data in comparison.candidates.items()]
    if chart := candidate_chart(candidates):
        yield Figure(
            "Execution accuracy of k candidates against their cost: majority@k (solid, with 95 % intervals) and "
            "pass@k (dashed), over all scored questions of each run",
            chart,
        )
    if comparison.variants:
        yield _variants(comparison)
    if len(comparison.stages) > 1:
        yield folded(_contrasts("By stage", comparison.stages, result))
    if comparison.by_difficulty:
        yield _contrasts("By difficulty", comparison.by_difficulty, result)
    if len(comparison.by_database) > 1:
        yield _contrasts("By database", comparison.by_database, result)
    yield _bill((comparison.a, comparison.b))
    if comparison.settings:
        yield settings_table(comparison.settings, ("A", "B"))
    if result.only_a or result.only_b:
        yield Sentence(
            "Metrics: left out. Each run has them over all its scored questions, and the runs scored different ones.",
            "note",
        )
    metrics = as_table(comparison.metrics, equal=False)
    if metrics.rows:
        yield metrics
    elif comparison.metrics:
        yield Sentence(f"Metrics: {counted(len(comparison.metrics), 'value')} equal in both", "note")


def _flipped(comparison: Comparison, first: int | None) -> Section:
    questions = Questions(
        items=tuple(question_item(flip, ("A", "B"), " by B") for flip in comparison.flips),
        filters=FLIP_FILTERS,
        first=first,
        rest=" flipped questions; --all prints the others, --html writes a page to search in",
        note="Highlighted: differences between the two queries.",
    )
    none = Sentence("There are none: wherever one run is right, the other is.")
    return Section("Flipped questions", (questions if comparison.flips else none,), "flipped")


def _summary_cards(comparison: Comparison, result: PairedTest) -> Cards:
    todo = [Code("crosscheck leaderboard  # ranks all runs, p adjusted for the number of their pairs")]
    if result.broken:
        show = f"crosscheck show {comparison.b.run_id} {shlex.quote(result.broken[0])}"
        todo.insert(0, Code(f"{show}  # a broken question, stage by stage"))
    return Cards((_side_card(comparison.a), _side_card(comparison.b), Card("Next", tuple(todo), wide=True)))


def _gate(comparison: Comparison) -> Iterator[Sentence]:
    if comparison.gate:
        word = Span("failed", "bad") if comparison.gate.failed else Span("passed", "good")
        yield Sentence(("Gate ", word, f": {comparison.gate.reason}"))
    elif comparison.noninferiority:
        yield Sentence(comparison.noninferiority.verdict)


def _variants(comparison: Comparison) -> Table:
    scores: list[tuple[str, str, Accuracy | None]] = [
        (side.letter, "official", side.ex) for side in (comparison.a, comparison.b)
    ]
    for variant in comparison.variants.values():
        scores += [
            (letter, variant.title, score) for letter, score in (("A", variant.a), ("B", variant.b)) if score
        ]
    return accuracy_table("Official score and variants", scores)


def _contrasts(title: str, contrasts: Sequence[Contrast], result: PairedTest) -> Table:
    longest_bar = max(max(contrast.fixed or 0, contrast.broken or 0) for contrast in contrasts)
    headers = (
        Column("", "text"), Column("A"), Column("right", under=True), Column("B"), Column("right", under=True),
        Column(f"B {MINUS} A"), Column("Both with intervals", "plot", axis=AXIS), Column("broken | fixed", "plot"),
        Column("fixed", text_only=True), Column("broken", text_only=True), Column("p", help="exact McNemar test"),
        Column("p adj.", help="p, adjusted for the number of rows in this table (Holm)"),
    )  # fmt: skip
    rows = tuple(
        (
            contrast.name,
            percent(contrast.a),
            counts(contrast.a),
            percent(contrast.b),
            counts(contrast.b),
            points(contrast.difference),
            score_plot(("A", contrast.a, "a"), ("B", contrast.b, "b")),
            _flip_plot(contrast, longest_bar),
            number(contrast.fixed, missing=""),
            number(contrast.broken, missing=""),
            "" if contrast.p_value is None else p_value(contrast.p_value),
            _adjusted_cell(contrast.adjusted_p, result.level),
        )
        for contrast in contrasts
    )
    tested = sum(contrast.p_value is not None for contrast in contrasts)
    caption = f"p adj.: p adjusted for {counted(tested, 'test')} (Holm)" if tested > 1 else ""
    return Table(title, headers, rows, caption, keep=5)


def _flip_plot(contrast: Contrast, reach: int) -> TwoSided | str:
    broken, fixed = contrast.broken, contrast.fixed
    if broken is None or fixed is None:
        return ""
    return TwoSided(broken, fixed, reach, f"broken by B {broken:,}, fixed by B {fixed:,}")


def _adjusted_cell(p: float | None, level: float) -> Span:
    return Span("") if p is None else Span(p_value(p), "strong" if p < level else "")
