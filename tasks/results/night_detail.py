"""Details of the entries of a nightly run, read from the warehouse: questions, stages, causes, settings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tasks.core.errors import CrosscheckError
from tasks.results.compare import compare
from tasks.results.comparison import Comparison, Flip
from tasks.results.night_entry import NightEntry
from tasks.results.run_record import RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.report import QuestionScore, StageScore


@dataclass(frozen=True, slots=True)
class StageChange:
    """One stage in both runs, over all scored questions; None where a run does not have it."""

    name: str
    before: StageScore | None
    now: StageScore | None


@dataclass(frozen=True, slots=True)
class CauseChange:
    """One cause of wrong answers of the closed list."""

    name: str  # of the cause
    before: int | None  # questions that the baseline has wrong for it; None without a baseline
    now: int  # questions that this run has wrong for it


@dataclass(frozen=True, slots=True)
class Detail:
    """Details of one entry."""

    entry: NightEntry  # the evaluation
    missing: str = ""  # why there are no details, "" when there are
    # with the baseline, over all scored questions; None where there is none
    comparison: Comparison | None = None
    # broken, fixed: questions that the two runs answer differently, both having answered
    broken: tuple[Flip, ...] = ()
    fixed: tuple[Flip, ...] = ()
    stages: tuple[StageChange, ...] = ()  # the stages of both runs
    causes: tuple[CauseChange, ...] = ()  # causes of wrong answers, what changed most first
    retryable: tuple[QuestionScore, ...] = ()  # questions without an answer after a retryable failure


def details(entries: Iterable[NightEntry], warehouse: Warehouse) -> Iterator[Detail]:
    """Yield the details of each entry, in their order; one pair of runs is read at a time."""
    for entry in entries:
        try:
            yield _detail(entry, warehouse)
        except CrosscheckError as error:  # its runs may have been removed from the warehouse since
            yield Detail(entry, missing=str(error))


def _detail(entry: NightEntry, warehouse: Warehouse) -> Detail:
    if entry.run_id is None:
        return Detail(entry)
    current = warehouse.read_run(entry.run_id)
    before = warehouse.read_run(entry.baseline) if entry.baseline else None
    tested = entry.comparison
    comparison = compare(before, current, confidence=tested.confidence) if before and tested else None
    flips = {flip.question_id: flip for flip in comparison.flips} if comparison else {}
    return Detail(
        entry,
        comparison=comparison,
        broken=_named(tested.broken if tested else (), flips),
        fixed=_named(tested.fixed if tested else (), flips),
        stages=_stages(before, current),
        causes=_causes(before, current),
        retryable=tuple(row for row in current.rows if row.outcome.retryable),
    )


def _named(ids: Sequence[str], flips: Mapping[str, Flip]) -> tuple[Flip, ...]:
    return tuple(flips[id_] for id_ in ids if id_ in flips)


def _stages(before: RunRecord | None, current: RunRecord) -> tuple[StageChange, ...]:
    stages_before, stages_now = (
        {stage.name: stage for stage in run.stages} if run else {} for run in (before, current)
    )
    return tuple(
        StageChange(name, stages_before.get(name), stages_now.get(name))
        for name in dict.fromkeys([*stages_now, *stages_before])
    )


def _causes(before: RunRecord | None, current: RunRecord) -> tuple[CauseChange, ...]:
    causes_before, causes_now = (run.metrics.get("errors") or {} if run else {} for run in (before, current))
    known = before is not None and bool(causes_before)
    changes = [
        CauseChange(name, causes_before.get(name, 0) if known else None, causes_now.get(name, 0))
        for name in dict.fromkeys([*causes_now, *causes_before])
        if causes_before.get(name) or causes_now.get(name)
    ]
    return tuple(sorted(changes, key=lambda cause: (-abs(cause.now - (cause.before or 0)), -cause.now)))
