"""The document of a run: what `show` and the end of an evaluation print, and MLflow's description of the run."""

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.core.wording import (
    DASH,
    counted,
    counts,
    duration,
    interval,
    money,
    number,
    percent,
    seconds,
    shorten,
    signed,
)
from tasks.documents.charts import Point, Points
from tasks.documents.model import Block, Bullets, Column, Document, Sentence, Span, Table
from tasks.scoring.cost import Cost, by_endpoint, in_words
from tasks.scoring.metrics.candidates import candidate_tables
from tasks.scoring.metrics.causes import wrong_in_words
from tasks.scoring.report import Ratio
from tasks.scoring.score import DIFFERENCES, Accuracy
from tasks.scoring.statistics.detection import accuracy_in_words
from tasks.settings.evaluation import RESERVED_TAGS, labels_in_words
from tasks.tracking.bill import bill_of_run
from tasks.tracking.run_record import RunRecord

MOST_CHANGES, MOST_IDS = 8, 10
_LABELS = {"name", "note", "changed"}  # tags that the heading and the list of changes show
UNKNOWN_DEFAULTS = "what differs from the defaults is unknown, the settings of these names cannot be read"


def run_document(
    record: RunRecord, details: tuple[Table, ...] = (), more: tuple[Block, ...] = ()
) -> Document:
    """Return the document of a run.

    Args:
        record: the run.
        details: further tables.
        more: further blocks at the end.
    """
    title = f"{record.benchmark} · {record.backbone} · {record.pipeline}"
    return Document(title, (*_head(record), *run_tables(record), *details, *_remarks(record), *more))


def scores_table(record: RunRecord) -> Table:
    """Return the official scores under each rule, with their intervals."""
    official = {name: score for name, score in record.scores.items() if not score.variant}
    named = {f"{name} (headline)" if name == record.rule else name: score for name, score in official.items()}
    return accuracy_table("Scores", named)


def variants_table(record: RunRecord) -> Table | None:
    """Return the scores by answer key and the other variants, beside the official score of the same questions."""
    rows = tuple(
        (
            score.title,
            score.rule,
            percent(score),
            counts(score),
            interval(*score.interval) if score.interval else DASH,
            f"{percent(score.official)} ({counts(score.official)})" if score.official else DASH,
            *(number(len(getattr(score.differs, name))) for name in DIFFERENCES),
        )
        for score in record.scores.values()
        if score.variant
    )
    headers = ("", "rule", "EX", "right", "95 % interval", "official, same questions", *DIFFERENCES.values())
    remark = "withdrawn, another text, not in the key: questions that are not in the denominator"
    return Table("Scores by answer key and other variants", headers, rows, remark) if rows else None


def accuracy_table(title: str, shares: Mapping[str, Accuracy]) -> Table:
    """Describe accuracies by their names."""
    rows = (
        (name, percent(each), counts(each), interval(*each.interval) if each.interval else DASH, _plot(each))
        for name, each in shares.items()
    )
    headers = ("", "EX", "right", "95 % interval", Column("with its interval", "plot", axis=(0.0, 100.0)))
    return Table(title, headers, tuple(rows))


def _plot(each: Accuracy) -> Points | str:
    if each.ex is None or each.low is None or each.high is None:
        return ""
    point = Point(100 * each.ex, 100 * each.low, 100 * each.high, "b")
    return Points((point,), f"{percent(each)} ({counts(each)})")


def cost_cells(cost: Cost, input_tokens: int | None, output_tokens: int | None) -> tuple[str, ...]:
    """Return the cells of a bill: calls, calls from a cache, tokens, money paid and from scratch, seconds of a call."""
    numbers = (cost.calls, cost.cached_calls, input_tokens, output_tokens)
    usd = (cost.cost_usd, cost.from_scratch_usd)
    return *map(number, numbers), *map(money, usd), seconds(cost.p50_s), seconds(cost.p95_s)


def _head(record: RunRecord) -> Iterator[Block]:
    state = "" if record.status == "complete" else f", {record.status}"
    yield Sentence(f"run {record.run_id}")
    yield Sentence((f"started {record.started:%Y-%m-%d %H:%M} UTC", Span(state, "doubt")))
    if labels := labels_in_words(record.tags):
        yield Sentence(labels, "note")
    if written := {name: text for name, text in record.tags.items() if name in RESERVED_TAGS - _LABELS}:
        yield Bullets(tuple(f"{name}: {text}" for name, text in written.items()), "note")
    yield from _changes(record)
    score = record.score
    range_ = f", 95 % interval {interval(*score.interval)}" if score.interval else ""
    behind = f" ({counts(score)}, rule {record.rule}{range_})"
    yield Sentence(("execution accuracy ", Span(percent(score), "strong"), behind))
    yield from variant_sentences(record)
    for sentence in record.translations:
        yield Sentence(sentence, "score")
    lost = any(each.without_effect for each in record.degradation.stages)
    for sentence in record.degradation.sentences:
        yield Sentence(sentence, "error" if lost else "warning")


def variant_sentences(record: RunRecord) -> Iterator[Sentence]:
    """Yield the score of each variant, and on which questions it differs."""
    for each in record.variants.values():
        differs = f"; {text}" if (text := each.differs.in_words(MOST_IDS)) else ""
        same = f"; official on the same questions: {counts(each.official)}" if each.official else ""
        yield Sentence(f"{each.title}: {percent(each)} ({counts(each)}{same}){differs}")


def _changes(record: RunRecord) -> Iterator[Block]:
    if record.changes is None:
        yield Sentence(UNKNOWN_DEFAULTS, "note")
    elif record.changes:
        rest = len(record.changes) - MOST_CHANGES
        shown = [each if len(each) <= 200 else f"{each[:199]}…" for each in record.changes[:MOST_CHANGES]]
        more = [f"and {rest:,} more: --json"] if rest > 0 else []
        yield Sentence("differs from the defaults:", "note")
        yield Bullets((*shown, *more))
    else:
        yield Sentence("all settings are the defaults", "note")


def run_tables(record: RunRecord) -> Iterator[Table]:
    """Yield the tables of a run."""
    if record.stages:
        rows = (
            (
                stage.name,
                percent(stage),
                counts(stage),
                number(stage.fixed, missing=""),
                number(stage.broken, missing=""),
                "" if stage.fixed is None or stage.broken is None else signed(stage.fixed - stage.broken),
            )
            for stage in record.stages
        )
        header = ("stage", "EX", "right", "fixed", "broken", "net")
        yield Table("Execution accuracy by stage", header, tuple(rows))
    yield scores_table(record)
    if variants := variants_table(record):
        yield variants
    for title, shares in (("By difficulty", record.by_difficulty), ("By database", record.by_database)):
        if len(shares) > 1:
            yield accuracy_table(title, shares)
    if record.links:
        yield _linking(record)
    if found := record.metrics.get("candidates"):
        yield from candidate_tables(found)
    causes = record.metrics.get("errors") or {}
    if listed := sorted(
        ((count, name) for name, count in causes.items() if count), key=lambda each: -each[0]
    ):
        cells = tuple((name, f"{count:,}") for count, name in listed)
        yield Table("Causes of wrong answers", ("cause", "questions"), cells, wrong_in_words(record.score))
    if bill := _bill(record):
        yield bill
    if savings := bill_of_run(record):
        yield savings


def _linking(record: RunRecord) -> Table:
    def share(ratio: Ratio) -> str:
        return f"{percent(ratio)} ({counts(ratio)})"

    rows = tuple(
        (
            link.name,
            *map(share, (link.nsr, link.strict_recall, link.precision)),
            f"{link.linked:,}",
            f"{link.avg_tables:.2f}",
            f"{link.avg_columns:.2f}",
            "unknown" if link.reduction is None else f"{100 * link.reduction:.1f} %",
        )
        for link in record.links
    )
    headers = ("link", "NSR", "strict recall", "precision", "linked", "tables", "columns", "reduction")
    remark = (
        "NSR: non-strict recall, of gold columns; tables, columns, reduction: means over the questions linked"
    )
    return Table("Schema linking", headers, rows, remark)


def _bill(record: RunRecord) -> Table | None:
    stages = [
        (name, *_cost(cost)) for name, cost in record.stage_costs.items() if cost.calls or cost.cached_calls
    ]
    if not stages:
        return None
    headers = (
        "stage", "calls", "from cache", "input tokens", "output tokens", "paid", "from scratch", "p50", "p95"
    )  # fmt: skip
    rows = (*stages, None, ("all", *_cost(record.cost)))
    return Table("Model calls", headers, rows, "; ".join(by_endpoint(record.cost)))


def _cost(cost: Cost) -> tuple[str, ...]:
    if cost.calls == 0:
        return ("0", number(cost.cached_calls), *3 * DASH, money(cost.from_scratch_usd), *2 * DASH)
    return cost_cells(cost, cost.input_tokens, cost.output_tokens)


def _remarks(record: RunRecord) -> Iterator[Block]:
    cost = record.cost
    took = "" if record.seconds is None else f", {duration(record.seconds)} for the questions"
    yield Sentence(
        f"{number(cost.calls)} calls paid, {number(cost.cached_calls)} from the cache, {in_words(cost)}{took}"
    )
    yield Bullets((*record.remarks, *record.notes))
    if judge := record.judge:
        yield Sentence(
            f"opinions of {judge['backbone']} on {counted(judge['judged'], 'answer')}: "
            f"{counts(Ratio(**judge['agrees_with_ex']))} agree with EX; {accuracy_in_words(_measured(judge))}",
            "note",
        )
    questions = f"{record.questions or 0:,} questions"
    if record.missing_databases:
        missing = ", ".join(f"{name} ({count})" for name, count in record.missing_databases.items())
        lacking = sum(record.missing_databases.values())
        yield Sentence(
            f"{lacking:,} of {questions} are not scored, their database is missing: {missing}", "warning"
        )
    if record.without_gold:
        why = "the benchmark's files have no gold for them"
        yield Sentence(f"{record.without_gold:,} of {questions} are not scored, {why}", "warning")
    if record.gold_faults:
        faults = shorten([f"{name} ({status})" for name, status in record.gold_faults.items()], MOST_IDS)
        yield Sentence(
            f"the gold of {counted(len(record.gold_faults), 'question')} does not run, a fault of the benchmark; "
            f"counted as wrong: {faults}",
            "warning",
        )
    yield from _failures(record)
    if record.prefect.task_runs is not None:
        ran, recorded = record.prefect.task_runs, record.prefect.recorded
        written = "all" if recorded == ran else f"{recorded or 0:,}"
        yield Bullets((f"Prefect: {counted(ran, 'task run')}, {written} recorded",))


def _measured(judge: Mapping[str, Any]) -> Ratio | None:
    found = judge.get("measured_accuracy")
    return Ratio(**found) if found else None


def _failures(record: RunRecord) -> Iterator[Block]:
    if record.fatal:
        yield Sentence(f"The run ended early: {record.fatal}", "error")
    for kind, count in record.failures.items():
        have, are = ("has", "counts") if count == 1 else ("have", "count")
        message = record.failure_messages.get(kind, "")
        place = " (more in crosscheck.log in the working folder)" if kind == "internal_error" else ""
        yield Sentence(
            f"{count:,} of {counted(record.scored or 0, 'question')} {have} no answer ({kind}) and {are} as wrong"
            + (f": {message}{place}" if message else ""),
            "error",
        )
    if record.retryable:
        failures = "1 failure looks" if record.retryable == 1 else f"{record.retryable:,} failures look"
        yield Sentence(f"{failures} temporary: run the same command again to retry only those", "error")
