"""The first screen of a run: score, problems, stages, cost, comparison with the run before; at most 40 lines."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from tasks.core.wording import (
    and_more,
    counted,
    counts,
    duration,
    interval,
    money,
    percent,
    shorten,
    signed,
    total_time,
)
from tasks.documents.model import Block, Column, Document, Inline, Sentence, Span, Table, Tone, plain
from tasks.scoring.cost import by_endpoint, calls_in_words
from tasks.scoring.metrics.turns import curve_in_words, turn_lines
from tasks.scoring.report import StageScore
from tasks.settings.evaluation import labels_in_words
from tasks.tracking.comparison.run_comparison import RunComparison
from tasks.tracking.run_display.problems import problems
from tasks.tracking.run_record import RunRecord

MOST_ROWS, MOST_SENTENCES, MOST_VARIANTS = 6, 4, 2
LINE, TWO_LINES, FOUR_LINES = 98, 190, 380
"""Characters of a text that is to fit so many lines of 100 columns, with its mark."""
BAR = 30
"""Columns of a bar of 100 %."""


def run_overview(
    record: RunRecord,
    compared: RunComparison | None = None,
    more: Sequence[Block] = (),
    *,
    seconds: float | None = None,
) -> Document:
    """Return the first screen of a run.

    Args:
        record: the run.
        compared: the comparison of the run before (A) with this one (B); None: there is none.
        more: further blocks at the end: what to do next.
        seconds: how long the command took; None: it did not make the run.
    """
    title = f"{record.benchmark} · {record.backbone} · {record.pipeline}"
    blocks = (
        *_head(record),
        *_score(record),
        *_problems(record),
        *_waterfall(record),
        *_turns(record),
        *_end(record, compared, seconds),
    )
    return Document(title, (*blocks, *more))


def score_sentence(record: RunRecord) -> Sentence:
    """Return the score with its rule, numerator, denominator and interval."""
    score = record.score
    range_ = f", 95 % interval {interval(*score.interval)}" if score.interval else ""
    behind = f" ({counts(score)}, rule {record.rule}{range_})"
    return Sentence(("execution accuracy ", Span(percent(score), "strong"), behind))


def _head(record: RunRecord) -> Iterator[Block]:
    labels = labels_in_words(record.tags)
    state = "" if record.status == "complete" else f", {record.status}"
    started = f"run {record.run_id} · started {record.started:%Y-%m-%d %H:%M} UTC"
    yield Sentence(
        (
            started,
            Span(state, "doubt"),
            Span(_cut(f", {labels}", LINE - len(started)) if labels else "", "quiet"),
        )
    )
    if record.changes:
        listed = shorten([_cut(each, 40) for each in record.changes], 3)
        yield Sentence(_cut(f"differs from the defaults: {listed}", LINE), "note")


def _score(record: RunRecord) -> Iterator[Block]:
    yield score_sentence(record)
    variants = list(record.variants.values())
    for each in variants[:MOST_VARIANTS]:
        same = f"; official on the same questions: {counts(each.official)}" if each.official else ""
        yield Sentence(_cut(f"{each.title}: {percent(each)} ({counts(each)}{same})", LINE))
    if rest := and_more(variants, MOST_VARIANTS, noun="score"):
        yield Sentence(rest, "note")
    for translated in record.translations:
        yield Sentence(_cut(translated, LINE), "score")


def _problems(record: RunRecord) -> Iterator[Block]:
    """Yield what is wrong, then what else a reader must know; all of it is in the full document."""
    wrong = problems(record)
    found = [*wrong, *(Sentence(f"· {note}") for note in record.notes)]
    for place, each in enumerate(found[:MOST_SENTENCES]):
        yield Sentence(_cut(plain(each.text), TWO_LINES if place else FOUR_LINES), each.level)
    if rest := and_more(found, MOST_SENTENCES, noun="remark"):
        yield Sentence(f"· {rest}", "note")
    if not wrong and record.scored:
        yield Sentence(
            (Span("✓", "good"), f" {counted(record.scored, 'question')} answered; no stage fell back")
        )


def _waterfall(record: RunRecord) -> Iterator[Block]:
    """Yield what each stage gained and broke, where there are several; of many, the first ones and the last."""
    if len(record.stages) < 2:
        return
    groups = _with_unchanged_together(record.stages)
    if len(groups) > MOST_ROWS:
        left_out = [stage for group in groups[MOST_ROWS - 1 : -1] for stage in group]
        middle = [(and_more(left_out, 0, noun="stage"), "", "", "")]
        rows = [*map(_row, groups[: MOST_ROWS - 1]), *middle, _row(groups[-1])]
    else:
        rows = [*map(_row, groups)]
    yield Sentence("")
    yield Table("", ("stage", "EX", "right", Column("█ kept  + fixed  × broken", "text")), tuple(rows))


def _with_unchanged_together(stages: Sequence[StageScore]) -> list[list[StageScore]]:
    """Group successive stages that neither fixed nor broke a question; any other stage is a group of its own."""
    grouped = groupby(enumerate(stages), lambda each: None if _unchanged(each[1]) else each[0])
    return [[stage for _, stage in group] for _, group in grouped]


def _unchanged(stage: StageScore) -> bool:
    return stage.fixed == 0 and stage.broken == 0


def _row(group: Sequence[StageScore]) -> tuple[Inline, ...]:
    first, last = group[0], group[-1]
    if _unchanged(first):
        name = first.name if first is last else f"{first.name} to {last.name}"
        return (name, "no change", "", "")
    changes: tuple[tuple[int, Tone], ...] = ((first.fixed or 0, "better"), (-(first.broken or 0), "bad"))
    numbers = [Span(f"  {signed(change)}", tone) for change, tone in changes if change]
    return (first.name, percent(first), counts(first), (*bar(first), *numbers))


def _turns(record: RunRecord) -> Iterator[Block]:
    """Yield what stopping an agent earlier would give, and what its tool calls came to."""
    if found := record.metrics.get("turns"):
        yield Sentence("")
        yield from (Sentence(_cut(line, TWO_LINES)) for line in (curve_in_words(found), *turn_lines(found)))


def bar(stage: StageScore) -> tuple[str | Span, ...]:
    """Return the questions that a stage kept right, fixed and broke as parts of a bar of `BAR` columns.

    The whole bar stands for all questions. A part that is not empty takes at least one column.
    """
    fixed, broken = stage.fixed or 0, stage.broken or 0
    return (
        "█" * _columns(stage.correct - fixed, stage.total),
        Span("+" * _columns(fixed, stage.total), "better"),
        Span("×" * _columns(broken, stage.total), "bad"),
    )


def _columns(count: int, total: int) -> int:
    return max(1, round(BAR * count / total)) if count and total else 0


def _end(record: RunRecord, compared: RunComparison | None, seconds: float | None) -> Iterator[Block]:
    yield Sentence("")
    yield Sentence(cost_sentence(record, seconds))
    if compared:
        yield from comparison_sentences(compared)


def comparison_sentences(compared: RunComparison) -> Iterator[Sentence]:
    """Yield what the run before (A) scored, and whether this one (B) is better; no ranking inside the noise."""
    named = replace(compared.result, name_a="the run before", name_b="this run")
    before = f"run before: {compared.a.run_id} ({compared.a.name}), {percent(compared.a.ex)}"
    yield Sentence(_cut(before, LINE))
    yield Sentence(_cut(f"{named.headline[0].upper()}{named.verdict[1:]}", TWO_LINES), "score")
    if compared.warnings:
        listed = counted(len(compared.warnings), "warning")
        yield Sentence(f"`crosscheck compare` has {listed} about this comparison", "warning")


def cost_sentence(record: RunRecord, seconds: float | None = None) -> str:
    """Return what was paid and, where that is another sum, the cost from scratch, with the calls and the time."""
    cost = record.cost
    if cost.calls is None:
        parts = ["cost unknown: the answers were made elsewhere"]
    elif cost.cost_usd == cost.from_scratch_usd == 0:
        parts = [calls_in_words(cost)]
    else:
        same = cost.from_scratch_usd == cost.cost_usd
        scratch = "" if same else f", {money(cost.from_scratch_usd)} from scratch"
        parts = [f"paid {money(cost.cost_usd)}{scratch} ({calls_in_words(cost)})", *by_endpoint(cost)]
    if record.seconds is not None:
        parts.append(
            f"{duration(record.seconds)} answering" + (f", {total_time(seconds)}" if seconds else "")
        )
    return "; ".join(parts)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
