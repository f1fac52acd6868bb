"""A nightly run as a document: the verdict, failures, scores, costs, and what changed in each evaluation."""

import shlex
from collections.abc import Iterator, Sequence
from math import ceil

from tasks.core.wording import (
    DASH,
    and_more,
    counted,
    counts,
    duration,
    money,
    number,
    p_value,
    percent,
    points,
    seconds,
    shorten,
)
from tasks.documents.model import (
    Block,
    Bullets,
    Card,
    Cards,
    Cell,
    Code,
    Column,
    Document,
    Facts,
    Inline,
    Legend,
    Only,
    Point,
    Points,
    Questions,
    Section,
    Sentence,
    Span,
    Sparkline,
    Table,
    Tone,
    reading,
)
from tasks.pages import night_evaluation as words
from tasks.pages.comparison import question_item
from tasks.pages.night_evaluation import badge, evaluation_section, kind, trend_in_words
from tasks.pages.scores import RANGE, TEXT, axis_around, in_words, interval_in_words, score_plot
from tasks.results.night import Colour, Night, NightEntry
from tasks.results.night_baseline import Detail, details
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.metric import headlines
from tasks.scoring.scores import CONFIDENCE


def scores_table(night: Night) -> Table:
    """Return the score of every evaluation and its comparison with the baseline."""
    axis = axis_around(ex for entry in night.entries for ex in (entry.ex, entry.before))
    titles = {name: score.title for entry in night.entries for name, score in entry.variants.items()}
    headers = (
        *_NAMES, Column("verdict", "text", brief=True), Column("EX", brief=True), Column("right", under=True),
        Column(RANGE, under=True, brief=True),
        *(Column(title, under=True, help=title) for title in titles.values()),
        Column("Baseline and this run", "plot", axis=axis), Column("difference"),
        Column(f"{100 * (1 - night.gate.level):g} % interval", under=True),
        Column("difference in points", "plot", axis=_around_zero(night.entries)), Column("broken"),
        Column("fixed", under=True, help="fixed"),
        Column("p (Holm)", help="p of the gate's test, adjusted for the number of comparisons of the night (Holm)"),
        Column("trend", "plot"), Column("baseline", "text", text_only=True),
    )  # fmt: skip
    rows = tuple(
        (
            Span(entry.pipeline, link=f"#evaluation-{position}"), entry.backbone, entry.benchmark, badge(entry),
            percent(entry.ex), counts(entry.ex),
            interval_in_words(entry.ex, ""),
            *(in_words(entry.variants.get(name)) for name in titles),
            score_plot(("baseline", entry.before, "before"), ("this run", entry.ex, kind(entry))),
            *_difference_cells(entry, night.gate.level), _trend_plot(entry), entry.baseline or "none",
        )
        for position, entry in night.worst_first
    )  # fmt: skip
    return Table("Scores", headers, rows, keep=7, wide=True)


_NAMES = (
    Column("pipeline", "text"),
    Column("backbone", "text", under=True),
    Column("benchmark", "text", under=True),
)


def _difference_cells(entry: NightEntry, level: float) -> tuple[Cell, ...]:
    """Return the cells of difference, interval, its plot, broken, fixed and p."""
    comparison = entry.comparison
    if not comparison:
        return DASH, "", "", DASH, "", DASH
    flipped = number(len(comparison.broken)), number(len(comparison.fixed))
    proven = entry.adjusted_p is not None and entry.adjusted_p < level
    p = Span(
        p_value(entry.adjusted_p), "strong" if proven else "", help=f"{p_value(comparison.p_value)} alone"
    )
    low, high = points(comparison.low), points(comparison.high)
    shares = (100 * comparison.difference, 100 * comparison.low, 100 * comparison.high)
    plot = Points((Point(*shares, kind(entry)),), f"{points(comparison.difference)} points, {low} to {high}")
    return points(comparison.difference), f"{low} to {high}", plot, *flipped, p


def _around_zero(entries: Sequence[NightEntry]) -> tuple[float, float]:
    """Return an axis of points to both sides of 0 that has the intervals of all differences."""
    comparisons = [entry.comparison for entry in entries if entry.comparison]
    ends = [100 * max(abs(comparison.low), abs(comparison.high)) for comparison in comparisons]
    reach = max(5, 5 * ceil(max(ends, default=0) / 5))
    return -reach, reach


def _trend_plot(entry: NightEntry) -> Sparkline | str:
    if len(entry.trend) < 2:
        return ""
    values = tuple(100 * (past.ex.ex or 0.0) for past in entry.trend)
    return Sparkline(values, kind(entry), trend_in_words(entry.trend))


def scores_legend(night: Night) -> Legend:
    """Return what the kinds of points mean."""
    return Legend((
        ("before", "baseline, on the questions that both runs have an answer to"),
        ("now", "this run"),
        ("doubt", "this run, amber"),
        ("worse", "this run, a regression"),
        ("", f"EX with {100 * CONFIDENCE:g} % intervals (Wilson); differences in points with "
             f"{100 * (1 - night.gate.level):g} % intervals"),
    ))  # fmt: skip


def costs_table(night: Night) -> Table:
    """Return the calls, the money and the time of every evaluation, and the headlines of its metrics."""
    figures = [headlines(entry.run.metrics) if entry.run else {} for entry in night.entries]
    titles = tuple(dict.fromkeys(title for of_entry in figures for title in of_entry))
    headers = (
        *_NAMES, Column("calls paid"), Column("cached calls"), Column("paid", brief=True),
        Column("from scratch", help="what the same answers cost without cached replies"),
        Column("forecast", help="estimated before the first question, without cached replies"),
        Column("median", help="median seconds of a paid call"),
        Column("p95", help="95 of 100 paid calls took no longer"),
        Column("took"), Column("without an answer", "text"), *map(Column, titles),
    )  # fmt: skip
    rows: list[tuple[Inline, ...] | None] = [
        (
            entry.pipeline, entry.backbone, entry.benchmark,
            *(number(calls, missing=DASH) for calls in (entry.cost.calls, entry.cost.cached_calls)),
            *(DASH if entry.cost.calls is None else money(usd)
              for usd in (entry.cost.cost_usd, entry.cost.from_scratch_usd)),
            DASH if entry.cost.calls is None or entry.cost.from_scratch_usd == 0 else money(entry.forecast_usd),
            seconds(entry.cost.p50_s), seconds(entry.cost.p95_s), duration(entry.run.seconds if entry.run else None),
            words.failures(entry), *(of_entry.get(title, DASH) for title in titles),
        )
        for entry, of_entry in zip(night.entries, figures, strict=True)
    ]  # fmt: skip
    if len(rows) > 1:
        cost = night.cost
        total = ("all", "", "", number(cost.calls), number(cost.cached_calls), money(cost.cost_usd),
                 money(cost.from_scratch_usd), money(night.forecast_usd))  # fmt: skip
        rows += [None, (*total, *[""] * (len(headers) - len(total)))]
    remark = "Cached calls were answered by the cache or by an earlier run. Seconds are of paid calls."
    remark += "".join(f" {note}." for note in words.notes_on_money(night))
    return Table("Cost and failures", headers, tuple(rows), remark, keep=4, wide=True)


MAX_GLANCE, MAX_BROKEN, MAX_IDS = 4, 5, 20
"""Evaluations with broken questions in the card of a page; broken questions and ids of an evaluation in Markdown."""
TONES: dict[Colour, Tone] = {"Red": "bad", "Amber": "doubt", "Green": "good", "No baseline yet": "quiet"}


def night_document(
    night: Night, warehouse: Warehouse | None = None, board: str = "", page: str = ""
) -> Document:
    """Return the document; without a warehouse, which has the runs, it is for a terminal and shows no questions.

    `board` is the address of the leaderboard, relative to the page, and `page` the page's path, which Markdown names.
    """
    evaluations = list(details(night.entries, warehouse) if warehouse else map(Detail, night.entries))
    sections = tuple(evaluation_section(index, evaluations[index - 1]) for index, _ in night.worst_first)
    where = ("Questions, SQL, stages and causes: ", Span(page, "code"), " on the machine that evaluated, or")
    command = f"crosscheck nights show {shlex.quote(night.name)} --html night.html"
    parts = (
        Only(TEXT, (Facts(tuple(words.facts(night))),)),
        *_failures(night),
        scores_table(night),
        scores_legend(night),
        _summary_cards(night, board),
        costs_table(night),
        *_remarks(night),
        *([Only(("page",), sections)] if warehouse else ()),
        *(block for detail in evaluations for block in _changed_questions(detail)),
        *([Only(("markdown",), (Sentence(where), Code(command)))] if page else ()),
    )
    footer = (
        Section("About this nightly run", (Facts(tuple(words.facts(night))),)),
        *reading(
            Facts(tuple(words.rules(night))),
            Sentence(
                "Both runs are paired question by question. A question is fixed where the baseline is wrong and this "
                "run is right, and broken the other way round; marked in the SQL is what the other run does not have. "
                "p is how likely chance alone would split these questions this unevenly or more."
            ),
        ),
    )
    return Document(
        title=night.colour,
        blocks=parts,
        kicker=f"Crosscheck · nightly run {night.name}",
        lead=night.verdict,
        tone=TONES[night.colour],
        footer=footer,
        name=f"{night.colour}: nightly run {night.name}",
    )


def nights_table(nights: Sequence[Night]) -> Table:
    """Return the list of nightly runs."""
    headers = (Column("night", "text"), Column("", "text"), Column("paid"), Column("verdict", "text"))
    rows = tuple(
        (night.name, Span(night.colour, TONES[night.colour]), words.paid(night), night.verdict)
        for night in nights
    )
    return Table("", headers, rows, keep=4)


def _summary_cards(night: Night, board: str) -> Cards:
    broken = [
        Sentence((
            Span(counted(len(entry.comparison.broken), "question"), link=f"#evaluation-{position}"),
            f" of {entry.model_and_pipeline}, {number(len(entry.comparison.fixed))} fixed",
        ))
        for position, entry in night.worst_first
        if entry.comparison and entry.comparison.broken
    ]  # fmt: skip
    if rest := and_more(broken, MAX_GLANCE, noun="evaluation"):
        broken[MAX_GLANCE:] = [Sentence(rest, "note")]
    broken = broken or [Sentence("No question that was right is wrong now.")]
    if lost := sum(entry.retryable for entry in night.entries):
        broken.append(Sentence(f"{counted(lost, 'question')} without an answer"))
    if night.missed:
        broken.append(Sentence(f"{counted(len(night.missed), 'nightly run')} missed"))
    cost = night.cost
    took = duration((night.finished - night.started).total_seconds())
    of_budget = "" if night.budget_usd is None else f" of a budget of {money(night.budget_usd)}"
    spent = (Span(money(cost.cost_usd), "strong"), f" for {counted(cost.calls or 0, 'paid call')}{of_budget}")
    todo: list[Sentence | Code] = []
    for line, command in words.todo(night):
        todo += [Sentence(line), *([Code(command)] if command else ())]
    if board:
        todo.append(Sentence(Span("Leaderboard", link=board)))
    return Cards((
        Card("What broke?", tuple(broken)),
        Card(
            "What did it cost?",
            (
                Sentence(spent),
                Sentence(f"{number(cost.cached_calls)} answered by the cache; {took}", "note"),
                *(Sentence(note, "note") for note in words.notes_on_money(night)),
            ),
        ),
        Card("Next", tuple(todo), wide=True),
    ))  # fmt: skip


def _failures(night: Night) -> Iterator[Section]:
    blocks: list[Block] = []
    for entry in night.entries:
        if entry.problem or entry.continue_with:
            blocks.append(Sentence(Span(entry.name, "strong"), "error"))
        if entry.problem:
            blocks.append(Sentence(entry.problem, "message"))
        if entry.continue_with:
            what_it_does = "This evaluates it again; what was paid for is reused:"
            if entry.run_id:
                unanswered = f"{counted(entry.retryable, 'question')} without an answer"
                what_it_does = f"{unanswered}. This sends only those again, and merges the answers:"
            blocks += [Sentence(what_it_does), Code(entry.continue_with)]
    if sum(bool(entry.continue_with) for entry in night.entries) > 1:
        blocks += [Sentence("All of these in one go:"), Code(words.rerun_command(night))]
    if blocks:
        yield Section("Failures", tuple(blocks), notes=True)


def _remarks(night: Night) -> Iterator[Block]:
    lines = [f"{entry.name}: {sentence}" for entry in night.entries for sentence in entry.degradation]
    if lines:
        yield Only(TEXT, (Bullets(tuple(lines), "warning"),))
    yield Only(TEXT, (Bullets(tuple(words.variants(night))),))
    remarks: list[str] = []
    for entry in night.entries:
        pinned = f"baseline {entry.baseline}, {entry.pinned}" if entry.pinned else ""
        decline = words.decline(entry) if entry.verdict == "declining" else ""
        remarks += [f"{entry.name}: {line}" for line in (pinned, words.noise(entry), decline) if line]
    yield Only(TEXT, (Bullets(tuple(remarks)),))
    yield Only(("markdown",), (Facts(tuple(words.rules(night))),))


def _changed_questions(detail: Detail) -> Iterator[Block]:
    entry = detail.entry
    comparison = entry.comparison
    if not comparison or not comparison.differing:
        return
    command = Code(words.compare_command(entry))
    changed = (("broken", comparison.broken), ("fixed", comparison.fixed))
    ids = tuple(f"{name}: {shorten(names, MAX_IDS)}" for name, names in changed if names)
    broken = detail.broken if entry.verdict == "regression" else ()
    items = tuple(question_item(flip, ("baseline", "this run"), gold=False) for flip in broken[:MAX_BROKEN])
    questions = (Questions(items),) if items else ()
    blocks = (Bullets(ids), *questions, Sentence("Both SQLs of each:"), command)
    yield Only(("markdown",), (Section(entry.name, blocks),))
    yield Only(("terminal",), (Sentence(f"Questions that changed in {entry.name}, with both SQLs:"), command))
