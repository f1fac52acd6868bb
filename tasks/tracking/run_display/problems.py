"""What is wrong with a run, each thing once: for its first screen and its full document."""

from collections.abc import Iterator

from tasks.core.wording import counted, shorten
from tasks.documents.model import Sentence
from tasks.tracking.run_record import RunRecord

MOST_IDS = 10


def problems(record: RunRecord) -> tuple[Sentence, ...]:
    """Return a sentence for each problem, the most serious ones first; () if there is none.

    Level "error": questions without an answer, stages none of whose replies could be read, and metrics that failed.
    Level "warning": what was scored differently from what a reader expects.
    """
    found = (*_failures(record), *_degraded(record), *_unmeasured(record), *_not_scored(record))
    return tuple(sorted(found, key=lambda each: each.level != "error"))


def _failures(record: RunRecord) -> Iterator[Sentence]:
    if record.fatal:
        yield Sentence(f"The run ended early: {record.fatal}", "error")
    ids = [str(each) for each in record.metrics.get("unanswered") or ()]
    for kind, count in record.failures.items():
        have, are = ("has", "counts") if count == 1 else ("have", "count")
        message = record.failure_messages.get(kind, "").rstrip(".")
        place = " (more in crosscheck.log in the working folder)" if kind == "internal_error" else ""
        # of several kinds, which question failed in which way is not in the record: `show --unanswered` lists it
        which = f" ({shorten(ids, MOST_IDS)})" if len(ids) == count else ""
        yield Sentence(
            f"{count:,} of {counted(record.scored or 0, 'question')} {have} no answer ({kind}) and {are} as wrong"
            f"{f': {message}{place}' if message else ''}{which}.",
            "error",
        )
    if record.retryable:
        failures = "1 failure looks" if record.retryable == 1 else f"{record.retryable:,} failures look"
        yield Sentence(f"{failures} temporary: run the same command again to retry only those.", "error")


def _degraded(record: RunRecord) -> Iterator[Sentence]:
    """Yield what degraded stages mean for the score, then each stage."""
    stages, sentences = record.degradation.stages, record.degradation.sentences
    lost = any(each.without_effect for each in stages)
    if lost or len(stages) > 1:  # of one stage, its own sentence has the number
        yield from (Sentence(meaning, "error" if lost else "warning") for meaning in sentences[len(stages) :])
    for each in stages:
        yield Sentence(each.sentence, "error" if each.without_effect else "warning")


def _unmeasured(record: RunRecord) -> Iterator[Sentence]:
    """Yield the metrics whose own function failed."""
    for found in record.metrics.values():
        why = found.get("error") if isinstance(found, dict) and len(found) == 1 else None
        yield from (Sentence(line, "error") for line in record.remarks if why and str(why) in line)


def _not_scored(record: RunRecord) -> Iterator[Sentence]:
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
            f"The gold of {counted(len(record.gold_faults), 'question')} does not run, a fault of the benchmark; "
            f"counted as wrong: {faults}",
            "warning",
        )
