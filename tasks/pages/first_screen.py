"""The document of a run, whose first screen an evaluation and `show` print, and MLflow's description of the run."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from tasks.core.wording import (
    agreeing,
    and_more,
    counted,
    counts,
    duration,
    money,
    percent,
    shorten,
    signed,
    total_time,
)
from tasks.documents.markdown import markdown
from tasks.documents.model import Block, Bullets, Column, Document, Inline, Sentence, Span, Table, Tone, plain
from tasks.pages.run_details import run_tables
from tasks.results.build_record import NO_ANSWER
from tasks.results.comparison import Comparison
from tasks.results.run_record import RunRecord
from tasks.scoring.cost import by_endpoint, calls_in_words
from tasks.scoring.metric import headlines
from tasks.scoring.metrics.turns import curve_in_words, turn_lines
from tasks.scoring.scores import Ratio, Score, StageScore
from tasks.settings.choices import RESERVED_TAGS, labels_in_words

MAX_IDS = 10


def problems(record: RunRecord) -> tuple[Sentence, ...]:
    """Return a sentence for each problem, the most serious ones first; () if there is none.

    Level "error": questions without an answer, stages none of whose replies could be read, and metrics that failed.
    Level "warning": what was scored differently from what a reader expects.
    """
    blocks = (*_failures(record), *_degraded(record), *_unmeasured(record), *_not_scored(record))
    return tuple(sorted(blocks, key=lambda block: block.level != "error"))


def _failures(record: RunRecord) -> Iterator[Sentence]:
    if record.fatal:
        yield Sentence(f"The run ended early: {record.fatal}", "error")
    ids = [str(id_) for id_ in record.metrics.get("unanswered") or ()]
    scored = len(record.scored_rows) if record.scored is None else record.scored
    for kind, count in record.failures.items():
        have, are = agreeing("has", count), agreeing("counts", count)
        message = record.failure_messages.get(kind, "").rstrip(".")
        log = " (more in crosscheck.log in the working folder)" if kind == "internal_error" else ""
        # of several kinds, which question failed in which way is not in the record: `show --unanswered` lists it
        which = f" ({shorten(ids, MAX_IDS)})" if len(ids) == count else ""
        yield Sentence(
            f"{count:,} of {counted(scored, 'question')}{which} {have} no answer"
            f"{'' if kind == NO_ANSWER else f' ({kind})'} and {are} as wrong{f': {message}{log}' if message else ''}.",
            "error",
        )
    if record.to_retry:
        failures = counted(record.to_retry, "failure", "looks")
        yield Sentence(f"{failures} temporary: crosscheck rerun {record.run_id} retries only those.", "error")
    elif not record.is_finished and record.status != "running":
        yield Sentence("The command that began the run continues it: every reply that came is kept.", "error")


def _degraded(record: RunRecord) -> Iterator[Sentence]:
    stages, sentences = record.degradation.stages, record.degradation.sentences
    lost = any(stage.without_effect for stage in stages)
    if lost or len(stages) > 1:  # of one stage, its own sentence has the number
        yield from (Sentence(meaning, "error" if lost else "warning") for meaning in sentences[len(stages) :])
    for stage in stages:
        yield Sentence(stage.sentence, "error" if stage.without_effect else "warning")


def _unmeasured(record: RunRecord) -> Iterator[Sentence]:
    """Yield the metrics whose own function failed."""
    for data in record.metrics.values():
        why = data.get("error") if isinstance(data, dict) and len(data) == 1 else None
        yield from (Sentence(line, "error") for line in record.remarks if why and str(why) in line)


def _not_scored(record: RunRecord) -> Iterator[Sentence]:
    questions = counted(record.questions or 0, "question")
    missing = ", ".join(f"{name} ({count})" for name, count in record.missing_databases.items())
    for count, why in (
        (sum(record.missing_databases.values()), f"the database is missing: {missing}"),
        (record.without_gold, "the benchmark's files have no gold"),
    ):
        if count:
            yield Sentence(f"{count:,} of {questions} {agreeing('is', count)} not scored, {why}", "warning")
    if (lost := len(record.metrics.get("unanswered") or ()) - (record.unanswered or 0)) > 0:
        yield Sentence(
            f"{lost:,} of the questions that are not scored {agreeing('has', lost)} no answer", "warning"
        )
    if record.gold_faults:
        faults = shorten([f"{name} ({status})" for name, status in record.gold_faults.items()], MAX_IDS)
        yield Sentence(
            f"The gold of {counted(len(record.gold_faults), 'question')} does not run, a fault of the benchmark; "
            f"counted as wrong: {faults}",
            "warning",
        )


MAX_ROWS, MAX_SENTENCES, MAX_VARIANTS = 6, 4, 2
LINE, TWO_LINES, FOUR_LINES = 98, 190, 380
"""Characters of a text that is to fit so many lines of 100 columns, with its mark."""
BAR = 30
"""Columns of a bar of 100 %."""


def score_sentence(record: RunRecord) -> Sentence:
    """Return the score with its rule, numerator, denominator and interval; none of a run that has not finished."""
    if not record.is_finished:
        return Sentence("no execution accuracy: the run has not finished")
    return Sentence(("execution accuracy ", Span(percent(record.score), "strong"), record.score_in_brackets))


def _head(record: RunRecord) -> Iterator[Block]:
    labels = labels_in_words(record.tags)
    started = f"run {record.run_id} · started {record.started:%Y-%m-%d %H:%M} UTC"
    described = cut(f", {labels}", LINE - len(started)) if labels else ""
    yield Sentence((started, _state(record), Span(described, "quiet")))
    if changed := record.tags.get("changed"):
        yield Sentence(cut(f"differs from the defaults: {changed}", LINE), "note")


def _state(record: RunRecord) -> Span:
    return Span("" if record.status == "complete" else f", {record.status}", "doubt")


def _score(record: RunRecord) -> Iterator[Block]:
    yield score_sentence(record)
    variants = list(record.variants.values())
    for variant in variants[:MAX_VARIANTS]:
        yield Sentence(cut(_variant_in_words(variant), LINE))
    if rest := and_more(variants, MAX_VARIANTS, noun="score"):
        yield Sentence(rest, "note")
    for translated in record.translations:
        yield Sentence(cut(translated, LINE), "score")
    for title, figure in headlines(record.metrics).items():
        yield Sentence(cut(f"{title}: {figure}", LINE))


def _problems(record: RunRecord) -> Iterator[Block]:
    """Yield the first problems and remarks, the very first in up to four lines; the full document has all of them."""
    wrong = problems(record)
    blocks = [*wrong, *(Sentence(f"· {note}") for note in record.notes)]
    for position, block in enumerate(blocks[:MAX_SENTENCES]):
        yield Sentence(cut(plain(block.text), TWO_LINES if position else FOUR_LINES), block.level)
    if rest := and_more(blocks, MAX_SENTENCES, noun="remark"):
        yield Sentence(f"· {rest}", "note")
    if not wrong and record.scored:
        yield Sentence(
            (Span("✓", "good"), f" {counted(record.scored, 'question')} answered; no stage fell back")
        )


def _waterfall(record: RunRecord) -> Iterator[Block]:
    """Yield what each stage gained and broke, where there are several; of many, the first ones and the last."""
    if len(record.stages) < 2:
        return
    # successive stages that neither fixed nor broke a question are one group, any other stage is one of its own
    grouped = groupby(enumerate(record.stages), lambda pair: None if _unchanged(pair[1]) else pair[0])
    groups = [[stage for _, stage in group] for _, group in grouped]
    rows = list(map(_row_of, groups))
    if len(groups) > MAX_ROWS:
        left_out = [stage for group in groups[MAX_ROWS - 1 : -1] for stage in group]
        rows[MAX_ROWS - 1 : -1] = [(and_more(left_out, 0, noun="stage"), "", "", "")]
    yield Sentence("")
    yield Table("", ("stage", "EX", "right", Column("█ kept  + fixed  × broken", "text")), tuple(rows))


def _unchanged(stage: StageScore) -> bool:
    return stage.fixed == 0 and stage.broken == 0


def _row_of(group: Sequence[StageScore]) -> tuple[Inline, ...]:
    first, last = group[0], group[-1]
    if _unchanged(first):
        name = first.name if first is last else f"{first.name} to {last.name}"
        return (name, "no change", "", "")
    changes: tuple[tuple[int, Tone], ...] = ((first.fixed or 0, "better"), (-(first.broken or 0), "bad"))
    numbers = [Span(f"  {signed(change)}", tone) for change, tone in changes if change]
    return (first.name, percent(first), counts(first), (*bar(first), *numbers))


def bar(stage: StageScore) -> tuple[str | Span, ...]:
    """Return the questions that a stage kept right, fixed and broke as parts of a bar of `BAR` columns.

    The whole bar stands for all questions. A part that is not empty takes at least one column.
    """
    fixed, broken = stage.fixed or 0, stage.broken or 0
    return (
        "█" * _bar_length(stage.correct - fixed, stage.total),
        Span("+" * _bar_length(fixed, stage.total), "better"),
        Span("×" * _bar_length(broken, stage.total), "bad"),
    )


def _bar_length(count: int, total: int) -> int:
    return max(1, round(BAR * count / total)) if count and total else 0


def compared_sentences(compared: Comparison | None) -> Iterator[Sentence]:
    """Yield what the previous run (A) scored, and whether this one (B) is better, if that is significant."""
    if compared is None:
        return
    paired = replace(compared.paired, name_a="the previous run", name_b="this run")
    system = "" if compared.same_system else ", of another system"
    previous = f"previous run{system}: {compared.a.run_id} ({compared.a.name}), {percent(compared.a.ex)}"
    yield Sentence(cut(previous, LINE))
    verdict = cut(f"{paired.headline[0].upper()}{paired.verdict[1:]}", TWO_LINES)
    yield Sentence(Span(verdict, "strong"))
    if compared.warnings:
        warnings = counted(len(compared.warnings), "warning", "is")
        command = (
            f": crosscheck compare {compared.a.run_id} {compared.b.run_id}" if compared.same_system else ""
        )
        yield Sentence(f"{warnings} about this comparison{command}", "warning")


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
        took = f"{duration(record.seconds)} {'scoring' if record.made_elsewhere else 'answering'}"
        parts.append(f"{took}, {total_time(seconds)}" if seconds else took)
    if not record.is_finished:
        parts.append("calls of questions whose result was not yet stored are not counted")
    return "; ".join(parts)


def cut(text: str, width: int) -> str:
    """Return a text of at most so many characters, the last of which says that it goes on."""
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"


def run_document(
    record: RunRecord,
    compared: Comparison | None = None,
    tables: Sequence[Table] = (),
    more: Sequence[Block] = (),
    *,
    seconds: float | None = None,
    brief: bool = False,
) -> Document:
    """Return the document of a run, or only its first screen (`brief`).

    `compared` is the comparison of the previous run (A) with this one (B), `tables` are further ones that its metrics
    made, `more` are blocks at the end, and `seconds` is how long the command took that made the run.
    """
    blocks = (
        _first_screen(record, compared, seconds) if brief else _details(record, compared, tables, seconds)
    )
    return Document(f"{record.benchmark} · {record.backbone} · {record.pipeline}", (*blocks, *more))


def _first_screen(record: RunRecord, compared: Comparison | None, seconds: float | None) -> Iterator[Block]:
    yield from _head(record)
    yield from _score(record)
    yield from _problems(record)
    if record.is_finished:
        yield from _waterfall(record)
        if turns := record.metrics.get("turns"):
            yield Sentence("")
            yield from (
                Sentence(cut(line, TWO_LINES)) for line in (curve_in_words(turns), *turn_lines(turns))
            )
    yield Sentence("")
    yield Sentence(cost_sentence(record, seconds))
    yield from compared_sentences(compared)


def _details(
    record: RunRecord, compared: Comparison | None, tables: Sequence[Table], seconds: float | None
) -> Iterator[Block]:
    yield from _document_head(record)
    yield from run_tables(record)
    yield from tables
    yield Sentence(cost_sentence(record, seconds))
    yield from _remarks(record)
    yield from compared_sentences(compared)


def _document_head(record: RunRecord) -> Iterator[Block]:
    yield Sentence(f"run {record.run_id}")
    yield Sentence((f"started {record.started:%Y-%m-%d %H:%M} UTC", _state(record)))
    if labels := labels_in_words(record.tags):
        yield Sentence(labels, "note")
    own_tags = RESERVED_TAGS - {"name", "note", "changed"}  # without those that other lines show
    if lines := [f"{name}: {text}" for name, text in record.tags.items() if name in own_tags]:
        yield Bullets(tuple(lines), "note")
    if changed := record.tags.get("changed"):
        yield Sentence(f"differs from the defaults: {changed}", "note")
    yield score_sentence(record)
    yield from variant_sentences(record)
    for sentence in record.translations:
        yield Sentence(sentence, "score")
    yield from problems(record)


def variant_sentences(record: RunRecord) -> Iterator[Sentence]:
    """Yield the score of each variant, and on which questions it differs."""
    for variant in record.variants.values():
        differs = variant.differs.in_words(MAX_IDS)
        yield Sentence(_variant_in_words(variant) + (f"; {differs}" if differs else ""))


def _variant_in_words(variant: Score) -> str:
    official = f"; official on the same questions: {counts(variant.official)}" if variant.official else ""
    return f"{variant.title}: {percent(variant)} ({counts(variant)}{official})"


def run_description(record: RunRecord) -> str:
    """Return the document of a run in Markdown: its description in MLflow."""
    return markdown(run_document(record))


def _remarks(record: RunRecord) -> Iterator[Block]:
    texts = {problem.text for problem in problems(record)}
    yield Bullets(tuple(text for text in (*record.remarks, *record.notes) if text not in texts))
    if judge := record.judge:
        yield Sentence(
            f"opinions of {judge['backbone']} on {counted(judge['judged'], 'answer')}: "
            f"{counts(Ratio(**judge['agrees_with_ex']))} agree with EX",
            "note",
        )
    if record.prefect.task_runs is not None:
        ran, recorded = record.prefect.task_runs, record.prefect.recorded
        recorded_count = "all" if recorded == ran else f"{recorded or 0:,}"
        used = f"{counted(ran, 'task run')}, {recorded_count} recorded"
        yield Bullets((f"Prefect: {used if ran else 'not used, every stage was restored'}",))
