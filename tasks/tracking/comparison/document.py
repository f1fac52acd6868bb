"""A comparison as a document: the verdict, the numbers behind it, and the questions."""

from collections.abc import Iterator, Mapping, Sequence

from tasks.core.wording import (
    DASH,
    MINUS,
    counted,
    counts,
    interval,
    money,
    number,
    p_value,
    percent,
    points,
    seconds,
    signed,
)
from tasks.documents.charts import Intervals, Parts, Point, Points, TwoSided
from tasks.documents.model import (
    Answer,
    Block,
    Bullets,
    Card,
    Cards,
    Column,
    Columns,
    Document,
    Figure,
    Inline,
    Legend,
    Only,
    QuestionItem,
    Questions,
    Section,
    Sentence,
    Span,
    Table,
    Tone,
)
from tasks.scoring.score import Accuracy
from tasks.scoring.significance import CONFIDENCE, PairedTest
from tasks.settings.evaluation import labels_in_words
from tasks.tracking.comparison.metric_rows import as_table
from tasks.tracking.comparison.run_comparison import Answered, Contrast, Flip, RunComparison, SettingChange, Side
from tasks.tracking.pages.candidate_curve import candidate_chart

SETTINGS_SHOWN = 12
"""Settings that a terminal shows at most."""
_TONES: Mapping[str | None, Tone] = {"A": "bad", "B": "better", None: "doubt"}
_AXIS = (0.0, 100.0)


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
        _TONES[result.better],
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
    result, sides = found.result, (found.a, found.b)
    yield _glance(found)
    yield Only(("terminal", "markdown"), (_sides(sides), Sentence(_ways(found), "note")))
    yield Cards(tuple(map(_side, sides)), large=True)
    for each in found.variants:
        yield Sentence(f"{each.title}: {each.result.verdict if each.result else each.problem}")
        for side, score in (("A", each.a), ("B", each.b)):
            if score and score.differs.count:
                yield Sentence(f"{each.title}, the verdict differs in {side}: {score.differs.in_words()}", "note")
    yield Bullets((*found.left_out, *found.warnings), "Before you trust these numbers", "warning")
    yield Columns(tuple(_figures(found)))
    if found.variants:
        yield _variants(found)
    yield from _contrasts("By stage", found.stages if len(found.stages) > 1 else (), result)
    yield from _contrasts("By difficulty", found.by_difficulty, result)
    yield from _contrasts("By database", found.by_database if len(found.by_database) > 1 else (), result)
    yield _bill(sides)
    if found.settings:
        yield settings_table(found.settings, ("A", "B"))
    metrics = as_table(found.metrics, equal=False)
    if metrics.rows:
        yield metrics
    elif found.metrics:
        yield Sentence(f"Metrics: {counted(len(found.metrics), 'value')} equal in both", "note")
    questions = Questions(
        tuple(question_item(flip, ("A", "B"), " by B") for flip in found.flips),
        {"change": "Change", "database": "Database", "difficulty": "Difficulty"},
        shown,
        " flipped questions; --all prints the others, --html writes a page to search in",
        "Marked: where the SQL of one run is not that of the other.",
    )
    if found.flips:
        yield Section("Flipped questions", (questions,), "flipped")
    else:
        yield Only(
            ("page",),
            (Section("Flipped questions", (Sentence("There are none: wherever one run is right, the other is."),)),),
        )


def _glance(found: RunComparison) -> Cards:
    result, b = found.result, found.b
    difference = (
        f": {points(result.difference)} points, p = {p_value(result.p_value)}" if result.differing else ""
    )
    flips = f"{number(len(result.broken))} broken, {number(len(result.fixed))} fixed"
    todo: Inline = ("Rank all runs: ", Span("crosscheck leaderboard", "code"))
    if result.broken:
        todo = ("See a broken question: ", Span(f"crosscheck show {b.run_id} {result.broken[0]}", "code"))
    return Cards((
        Card("Is B better?", (Sentence((Span(result.headline, "strong"), difference)),)),
        Card("What broke?", (Sentence(Span(flips, "strong", link="#flipped" if found.flips else "")),)),
        Card("What did it cost?", tuple(map(_price, (found.a, b)))),
        Card("What do I do?", (Sentence(todo),)),
    ))  # fmt: skip


def _price(side: Side) -> Sentence:
    calls = "(predictions made elsewhere)" if side.cost.calls is None else f"for {counted(side.cost.calls, 'paid call')}"
    scratch = Span(money(side.cost.from_scratch_usd), "strong")
    return Sentence((f"{side.letter} ", scratch, f" from scratch, {money(side.cost.cost_usd)} {calls}"))


def _letter(side: Side) -> Span:
    return Span(side.letter, _TONES[side.letter], "letter")


def _labels(side: Side) -> tuple[Span, ...]:
    """Return what the user wrote on a run, and which settings differ from the defaults."""
    labels = (Span(labels_in_words(side.tags), "quiet"), Span(side.tags.get("changed", ""), "code"))
    return tuple(label for label in labels if label.text)


def _sides(sides: Sequence[Side]) -> Table:
    headers = (
        Column("", "text"), Column("backbone | pipeline", "text"), Column("run", "text"), Column("EX"), Column("right"),
        Column(f"{100 * CONFIDENCE:g} % interval"),
    )  # fmt: skip
    rows = tuple(
        (
            _letter(side),
            tuple(part for label in (Span(side.name), *_labels(side)) for part in (label, "\n"))[:-1],
            Span(side.run_id, "quiet"),
            Span(percent(side.ex), "strong"),
            counts(side.ex),
            _interval(side.ex),
        )
        for side in sides
    )
    return Table("", headers, rows)


def _side(side: Side) -> Card:
    status = (", ", Span(side.status, "strong")) if side.status != "complete" else ()
    return Card(
        (_letter(side), " ", side.pipeline, Span(" with ", "quiet"), side.backbone),
        (
            *(Sentence(label) for label in _labels(side)),
            Sentence(percent(side.ex), "score"),
            Sentence(f"{counts(side.ex)} right, {100 * CONFIDENCE:g} % interval {_interval(side.ex)}"),
            Sentence(
                ("run ", Span(side.run_id, "code"), f", {side.started:%Y-%m-%d %H:%M} UTC", *status), "note"
            ),
        ),
    )


def _interval(ex: Accuracy) -> str:
    return interval(*ex.interval) if ex.interval else DASH


def _ways(found: RunComparison) -> str:
    result = found.result
    return (
        f"{result.both_right:,} right in both · {len(result.fixed):,} fixed by B · {len(result.broken):,} broken "
        f"by B · {result.both_wrong:,} wrong in both · {found.same_sql:,} answered with the same SQL"
    )


def _figures(found: RunComparison) -> Iterator[Figure]:
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
    difference = Point(100 * result.difference, 100 * result.low, 100 * result.high, kind, "", points(result.difference))
    yield Figure(
        f"Difference B {MINUS} A in points, with its {wide} (paired bootstrap); a dot on grey has p ≥ {result.level}",
        Intervals(
            (difference,),
            f"B minus A: {points(result.difference)} points, {wide} {points(result.low)} to {points(result.high)}",
            ("A is better", "B is better"),
            None if result.needed_net is None else 100 * result.needed_net / result.questions,
        ),
    )
    if chart := candidate_chart([(letter, letter.upper(), data) for letter, data in found.candidates.items()]):
        yield Figure(
            "Execution accuracy of k candidates against their cost: majority@k (solid, with 95 % intervals) and "
            "pass@k (dashed), over all scored questions of each run",
            chart,
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


def point(ex: Accuracy, kind: str, label: str = "") -> Point:
    """Return a score as a point of a chart."""
    value, low, high = (100 * (share or 0.0) for share in (ex.ex, ex.low, ex.high))
    return Point(value, low, high, kind, label, percent(ex))


def in_words(ex: Accuracy | None) -> str:
    """Return a score in words."""
    return "does not have this stage" if ex is None else f"{percent(ex)} ({counts(ex)})"


def _variants(found: RunComparison) -> Table:
    official = [(side.letter, "official", side.ex) for side in (found.a, found.b)]
    variants = [
        (letter, each.title, score) for each in found.variants for letter, score in (("A", each.a), ("B", each.b)) if score
    ]
    rows = tuple((f"{letter}  {title}", percent(ex), counts(ex), _interval(ex)) for letter, title, ex in official + variants)
    return Table("Official score and variants", ("", "EX", "right", f"{100 * CONFIDENCE:g} % interval"), rows)


def _contrasts(title: str, contrasts: Sequence[Contrast], result: PairedTest) -> Iterator[Table]:
    if not contrasts:
        return
    reach = max(max(each.fixed or 0, each.broken or 0) for each in contrasts)
    headers = (
        Column("", "text"), Column("A"), Column("right", under=True), Column("B"), Column("right", under=True),
        Column(f"B {MINUS} A"), Column("Both with intervals", "plot", axis=_AXIS), Column("broken | fixed", "plot"),
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
            Points(
                tuple(point(ex, kind) for ex, kind in ((each.a, "a"), (each.b, "b")) if ex and ex.total),
                f"A {in_words(each.a)}, B {in_words(each.b)}",
            ),
            ""
            if each.fixed is None or each.broken is None
            else TwoSided(each.broken, each.fixed, reach, f"broken by B {each.broken:,}, fixed by B {each.fixed:,}"),
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
        title, headers, rows, f"p adj.: p adjusted for {counted(tested, 'test')} (Holm)" if tested > 1 else ""
    )


def _bill(sides: Sequence[Side]) -> Table:
    headers = (
        "", "calls paid", "from cache", "retries", "tokens in", "tokens out", "paid", "from scratch", "p50", "p95"
    )  # fmt: skip
    rows = tuple(
        (
            (_letter(side), f"  {side.name}"),
            *map(
                number,
                (side.cost.calls, side.cost.cached_calls, side.cost.retries, side.input_tokens, side.output_tokens),
            ),
            money(side.cost.cost_usd),
            money(side.cost.from_scratch_usd),
            seconds(side.cost.p50_s),
            seconds(side.cost.p95_s),
        )
        for side in sides
    )
    return Table(
        "Cost of these questions",
        headers,
        rows,
        "tokens: including cached replies; paid: cost of this run; from scratch: cost with an empty cache",
    )


def settings_table(changes: Sequence[SettingChange], names: tuple[str, str]) -> Table:
    """Return what differs in the settings of two runs."""
    rows = tuple((Span(each.key, "code"), _setting(each.a), _setting(each.b)) for each in changes)
    headers = (Column("", "text"), *(Column(name, "text") for name in names))
    return Table("What differs in the settings", headers, rows, first=SETTINGS_SHOWN)


def _setting(value: str | None) -> Span:
    return Span("not set", "quiet") if value is None else Span(value, "code")


def question_item(flip: Flip, names: tuple[str, str], by: str = "", *, fold: bool = False) -> QuestionItem:
    """Return a flipped question with both answers and the gold.

    Args:
        flip: the question.
        names: of the two runs.
        by: end of the badge, which begins with what happened.
        fold: whether a page shows the gold only on demand.
    """

    def answer(name: str, tone: Tone, one: Answered, other: Answered) -> Answer:
        return Answer((Span(name, tone, "letter"), f" {one.in_words}"), one.sql, other.sql, one.stages)

    return QuestionItem(
        flip.question_id,
        Span(f"{flip.change}{by}", "better" if flip.change == "fixed" else "bad", "badge"),
        " · ".join(part for part in (flip.database, flip.difficulty) if part),
        flip.question,
        flip.evidence,
        (
            answer(names[0], "bad" if names[0] == "A" else "quiet", flip.a, flip.b),
            answer(names[1], "better", flip.b, flip.a),
            Answer("gold", flip.gold_sql, fold=fold),
        ),
        {"change": flip.change, "database": flip.database, "difficulty": flip.difficulty or ""},
    )
