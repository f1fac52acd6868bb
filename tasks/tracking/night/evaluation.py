"""One evaluation of a nightly run on its page: the comparison, the trend, stages, causes and questions."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tasks.core.wording import DASH, counted, counts, number, percent, signed
from tasks.documents.charts import Line, LinePoint, Lines
from tasks.documents.model import (
    Block,
    Bullets,
    Code,
    Column,
    Columns,
    Figure,
    Inline,
    Questions,
    Section,
    Sentence,
    Span,
    Table,
    Tone,
)
from tasks.scoring.score import CONFIDENCE
from tasks.tracking.comparison.flips import FLIP_FILTERS, question_item, settings_table
from tasks.tracking.night import sentences as words
from tasks.tracking.night.detail import Detail
from tasks.tracking.night.entry import WORSE, Entry, NightVerdict, Past

BROKEN_SHOWN, FIXED_SHOWN, UNANSWERED_SHOWN = 20, 10, 10
"""Questions of one evaluation that the page shows at most; a command shows all of them."""
DENSE = 30
"""Scores of a trend beyond which its chart is wide, with a band instead of an interval each."""
IN_WORDS = 14
"""Scores of a trend that its description names at most."""
_TONES: dict[NightVerdict, Tone] = {
    "regression": "bad", "infrastructure": "bad", "possibly worse": "doubt", "declining": "doubt", "degraded": "doubt",
    "better": "better", "no worse": "good", "no baseline": "quiet", "not ranked": "quiet",
}  # fmt: skip


def badge(entry: Entry) -> Span:
    """Return the verdict of an evaluation."""
    return Span(entry.verdict or "", _TONES[entry.verdict] if entry.verdict else "", "badge")


def kind(entry: Entry) -> str:
    """Return how charts draw an evaluation."""
    return "worse" if entry.verdict == "regression" else "doubt" if entry.colour == "Amber" else "now"


def trend_in_words(trend: Sequence[Past]) -> str:
    """Return the last scores in words."""
    if len(trend) <= IN_WORDS:
        scores = ", ".join(f"{past.started:%d %b} {percent(past.ex)}" for past in trend)
        return f"the last {len(trend)} scores: {scores}"
    first, last = (f"{past.started:%d %b %Y} {percent(past.ex)}" for past in (trend[0], trend[-1]))
    low, *_, high = sorted(trend, key=lambda past: past.ex.ex or 0.0)
    ends = f"lowest {percent(low.ex)}, highest {percent(high.ex)}"
    return f"the last {len(trend)} scores, from {first} to {last}; {ends}"


def evaluation_section(number: int, detail: Detail) -> Section:
    """Return everything about one evaluation."""
    entry = detail.entry
    names = (
        entry.pipeline,
        Span(" with ", "quiet"),
        entry.backbone,
        Span(" on ", "quiet"),
        f"{entry.benchmark} ",
    )
    return Section((*names, badge(entry)), tuple(_blocks(detail)), f"evaluation-{number}")


def _blocks(detail: Detail) -> Iterator[Block]:
    entry, found = detail.entry, detail.entry.comparison
    if found:
        verdict = replace(found, name_a="the baseline", name_b="this run").verdict
        yield Sentence(verdict[:1].upper() + verdict[1:])
    elif entry.not_ranked:
        yield Sentence(f"It {entry.not_ranked}, so it is compared with nothing.")
    elif entry.run_id:
        yield Sentence("There is no earlier complete run of the same questions to compare it with.")
    for score in entry.variants.values():
        differ = score.differs.in_words()
        yield Sentence(
            f"{score.title} {percent(score)} ({counts(score)}), official {percent(entry.ex)} ({counts(entry.ex)})"
            + (f"; they differ: {differ}." if differ else ".")
        )
    yield Sentence(_runs(entry), "note")
    if entry.noise:
        yield Sentence(words.noise(entry), "note")
    if entry.decline:
        yield Sentence(f"Trend: {words.decline(entry)}.", "note")
    if detail.missing:
        yield Sentence(f"Questions, stages and causes are not shown: {detail.missing}", "message")
    warnings = detail.comparison.warnings if detail.comparison else ()
    about: tuple[Inline, ...] = tuple(
        (each, Span(" (A: baseline, B: this run)", "quiet")) for each in warnings
    )
    yield Bullets((*(Span(each, "strong") for each in entry.degradation), *entry.notes, *about))
    yield Columns(tuple(_panels(detail)))
    if detail.unanswered:
        yield _unanswered(detail)
    yield from _changes(detail)


def _runs(entry: Entry) -> Inline:
    if entry.run_id is None:
        return "no run was made"
    rule = (", rule ", Span(entry.rule, "code")) if entry.rule else ()
    baseline = (", baseline ", Span(entry.baseline, "code")) if entry.baseline else ()
    return "run ", Span(entry.run_id, "code"), *rule, *baseline, f", {entry.pinned}" if entry.pinned else ""


def _panels(detail: Detail) -> Iterator[Block]:
    entry, both = detail.entry, detail.comparison is not None
    arrow = ": baseline → this run" if both else ""
    if len(entry.trend) > 2:
        remark = "; hollow and dashed: the baseline" if entry.baseline else ""
        caption = f"The last {len(entry.trend)} complete runs, with {100 * CONFIDENCE:g} % intervals{remark}"
        yield Figure(caption, _trend_chart(entry), len(entry.trend) > DENSE)
    if len(detail.stages) > 1:
        rows = tuple(
            (
                each.name.replace("_", " "),
                _change(percent(each.before), percent(each.now), both),
                counts(each.now),
                _change(
                    _count(each.before.fixed if each.before else None),
                    _count(each.now.fixed if each.now else None),
                    both,
                ),
                _change(
                    _count(each.before.broken if each.before else None),
                    _count(each.now.broken if each.now else None),
                    both,
                ),
            )
            for each in detail.stages
        )
        yield Table(
            f"What each stage did{arrow}",
            ("after", "EX", Column("right", under=True), "put right", "made wrong"),
            rows,
        )
    if detail.causes:
        causes = tuple(
            (
                each.name.replace("_", " "),
                _change(_count(each.before), f"{each.now:,}", each.before is not None),
                signed(each.now - each.before) if each.before not in (None, each.now) else "",
            )
            for each in detail.causes
        )
        remark = "A wrong answer can have several causes."
        yield Table(
            f"Why answers are wrong{arrow}", ("cause", "questions", "change" if both else ""), causes, remark
        )
    if detail.comparison and detail.comparison.settings:
        yield settings_table(detail.comparison.settings, ("baseline", "this run"))


def _change(before: str, now: str, both: bool) -> Inline:
    return (Span(f"{before} → ", "quiet"), now) if both else now


def _count(value: int | None) -> str:
    return DASH if value is None else f"{value:,}"


def _trend_chart(entry: Entry) -> Lines:
    trend, shapes = entry.trend, []
    for place, past in enumerate(trend, 1):
        last = place == len(trend)
        shape = kind(entry) if last else "before" if past.run_id == entry.baseline else "past"
        low, high = (100 * end for end in past.ex.interval or (0.0, 1.0))
        tip = f"{past.started:%Y-%m-%d %H:%M} UTC: {percent(past.ex)}, {counts(past.ex)}"
        value = 100 * (past.ex.ex or 0.0)
        shapes.append(LinePoint(past.started.timestamp(), value, low, high, shape, tip, emphasised=last))
    level = next((each for each in shapes if each.kind == "before"), None)
    dense = len(trend) > DENSE
    ticks = tuple((moment.timestamp(), f"{moment:%d %b}") for moment in _dates(trend, 7 if dense else 2))
    return Lines((Line(tuple(shapes), "trend"),), trend_in_words(trend), ticks, level=level, dense=dense)


def _dates(trend: Sequence[Past], wanted: int) -> list[datetime.datetime]:
    """Return moments from the first score to the last, evenly."""
    first, whole = trend[0].started, trend[-1].started - trend[0].started
    return [first + whole * place / (wanted - 1) for place in range(wanted)]


def _unanswered(detail: Detail) -> Section:
    rows = detail.unanswered
    items: list[Inline] = [
        (
            Span(row.question.id, "strong"), Span(f" {row.question.database_id} ", "quiet"),
            f"{row.question.text}: {row.outcome.failure.message if row.outcome.failure else ''}",
        )
        for row in rows[:UNANSWERED_SHOWN]
    ]  # fmt: skip
    if len(rows) > UNANSWERED_SHOWN:
        sql = (
            "SELECT question_id, question, failure FROM questions "
            f"WHERE run_id = '{detail.entry.run_id}' AND failure IS NOT NULL"
        )
        items.append(
            (f"and {len(rows) - UNANSWERED_SHOWN:,} more: ", Span(f'crosscheck query "{sql}"', "code"))
        )
    title = f"{counted(len(rows), 'question')} without an answer"
    return Section(title, (Bullets(tuple(items)),), fold="closed")


def _changes(detail: Detail) -> Iterator[Block]:
    entry, found = detail.entry, detail.entry.comparison
    if found is None or not found.differing:
        return
    shown = (*detail.broken[:BROKEN_SHOWN], *detail.fixed[:FIXED_SHOWN])
    questions = Questions(
        tuple(question_item(flip, ("baseline", "this run"), fold=True) for flip in shown), FLIP_FILTERS
    )
    rest = len(found.broken) + len(found.fixed) - len(shown)
    more = f"{rest:,} more are not shown. " if rest else ""
    title = f"{counted(len(found.broken), 'question')} broken, {number(len(found.fixed))} fixed"
    blocks = (
        *((questions,) if shown else ()),
        Sentence(f"{more}All of them, also by stage, difficulty and database:", "note"),
        Code(words.compare_command(entry)),
    )
    yield Section(title, blocks, fold="open" if entry.verdict in WORSE else "closed")
