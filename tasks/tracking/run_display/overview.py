"""The first screen of a run: score, problems, stages, cost, comparison with the run before; at most 40 lines."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

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
)
from tasks.documents.model import Block, Column, Document, Sentence, Span, Table, plain
from tasks.scoring.cost import by_endpoint, calls_in_words
from tasks.scoring.metrics.turns import curve_in_words, turn_lines
from tasks.scoring.report import StageScore
from tasks.settings.evaluation import labels_in_words
from tasks.tracking.comparison.run_comparison import RunComparison
from tasks.tracking.run_display.problems import problems
from tasks.tracking.run_record import RunRecord

MOST_STAGES, MOST_SENTENCES, MOST_VARIANTS = 6, 4, 2
LINE, TWO_LINES, FOUR_LINES = 98, 190, 380
"""Characters of a text that is to fit so many lines of 100 columns, with its mark."""
BAR = 40
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
    if rest := and_more(variants, MOST_VARIANTS, noun="scores"):
        yield Sentence(rest, "note")
    for translated in record.translations:
        yield Sentence(_cut(translated, LINE), "score")


def _problems(record: RunRecord) -> Iterator[Block]:
    """Yield what is wrong, then what else a reader must know; all of it is in the full document."""
    wrong = problems(record)
    found = [*wrong, *(Sentence(f"· {note}") for note in record.notes)]
    for place, each in enumerate(found[:MOST_SENTENCES]):
        yield Sentence(_cut(plain(each.text), TWO_LINES if place else FOUR_LINES), each.level)
    if rest := and_more(found, MOST_SENTENCES, noun="remarks"):
        yield Sentence(f"· {rest}", "note")
    if not wrong and record.scored:
        yield Sentence(
            (Span("✓", "good"), f" {counted(record.scored, 'question')} answered; no stage fell back")
        )


def _waterfall(record: RunRecord) -> Iterator[Block]:
    """Yield what each stage gained and broke, where there are several."""
    stages = record.stages
    if len(stages) < 2:
        return
    rows = tuple(
        (
            stage.name,
            percent(stage),
            counts(stage),
            "" if not stage.fixed else signed(stage.fixed),
            "" if not stage.broken else signed(-stage.broken),
            bar(stage),
        )
        for stage in stages[:MOST_STAGES]
    )
    yield Sentence("")
    headers = ("stage", "EX", "right", "fixed", "broken", Column("█ kept  + fixed  × broken", "text"))
    yield Table("", headers, rows, and_more(stages, MOST_STAGES, noun="stages"))


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
    """Return what was paid and what the same answers cost from scratch, with the calls, and how long it took."""
    cost = record.cost
    if cost.calls is None:
        parts = ["cost unknown: the answers were made elsewhere"]
    else:
        usd = f"paid {money(cost.cost_usd)}, {money(cost.from_scratch_usd)} from scratch"
        parts = [f"{usd} ({calls_in_words(cost)})"]
        parts += by_endpoint(cost)
    if record.seconds is not None:
        parts.append(
            f"{duration(record.seconds)} answering" + (f", {seconds:.1f} s total" if seconds else "")
        )
    return "; ".join(parts)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
