"""The document of a run: what `show` and the end of an evaluation print, and MLflow's description of the run."""

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.core.wording import (
    counted,
    counts,
    duration,
    percent,
)
from tasks.documents.model import Block, Bullets, Document, Sentence, Span, Table
from tasks.scoring.cost import calls_in_words, in_words
from tasks.scoring.report import Ratio
from tasks.scoring.statistics.detection import accuracy_in_words
from tasks.settings.evaluation import RESERVED_TAGS, labels_in_words
from tasks.tracking.run_display.overview import score_sentence
from tasks.tracking.run_display.problems import MOST_IDS, problems
from tasks.tracking.run_display.tables import run_tables
from tasks.tracking.run_record import RunRecord

MOST_CHANGES = 8
_LABELS = {"name", "note", "changed"}  # tags that the heading and the list of changes show
UNKNOWN_DEFAULTS = "no defaults to compare with: a part of it comes from a file"


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


def _head(record: RunRecord) -> Iterator[Block]:
    state = "" if record.status == "complete" else f", {record.status}"
    yield Sentence(f"run {record.run_id}")
    yield Sentence((f"started {record.started:%Y-%m-%d %H:%M} UTC", Span(state, "doubt")))
    if labels := labels_in_words(record.tags):
        yield Sentence(labels, "note")
    if written := {name: text for name, text in record.tags.items() if name in RESERVED_TAGS - _LABELS}:
        yield Bullets(tuple(f"{name}: {text}" for name, text in written.items()), "note")
    yield from _changes(record)
    yield score_sentence(record)
    yield from variant_sentences(record)
    for sentence in record.translations:
        yield Sentence(sentence, "score")
    yield from problems(record)


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


def _remarks(record: RunRecord) -> Iterator[Block]:
    cost = record.cost
    took = "" if record.seconds is None else f", {duration(record.seconds)} answering"
    yield Sentence(f"{calls_in_words(cost)}, {in_words(cost)}{took}")
    told = {each.text for each in problems(record)}
    yield Bullets(tuple(each for each in (*record.remarks, *record.notes) if each not in told))
    if judge := record.judge:
        yield Sentence(
            f"opinions of {judge['backbone']} on {counted(judge['judged'], 'answer')}: "
            f"{counts(Ratio(**judge['agrees_with_ex']))} agree with EX; {accuracy_in_words(_measured(judge))}",
            "note",
        )
    if record.prefect.task_runs is not None:
        ran, recorded = record.prefect.task_runs, record.prefect.recorded
        written = "all" if recorded == ran else f"{recorded or 0:,}"
        what = (
            f"{counted(ran, 'task run')}, {written} recorded" if ran else "not used, every stage was restored"
        )
        yield Bullets((f"Prefect: {what}",))


def _measured(judge: Mapping[str, Any]) -> Ratio | None:
    found = judge.get("measured_accuracy")
    return Ratio(**found) if found else None
