"""The run of one question: how its stages are restored or run, and the records that they leave.

The runner of a question sets the question run in a `ContextVar`, and `tasks.stages.stage` reads it in each call of a
stage. It is no argument of stages, since these make the cache key, and a result must not depend on the question run. A
`ContextVar` also reaches stages that a pipeline starts with `asyncio.create_task`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tasks.core.outcome import StageRecord, label_of
from tasks.core.records import Question


class NotCached(Exception):  # noqa: N818 - a signal, not an error
    """Signal while restoring that a stage has no persisted result, so the question must run."""


class Stopped(Exception):  # noqa: N818 - a signal, not an error
    """Signal that the evaluation is being stopped: no further stage may begin."""


class NotExecutable(Exception):  # noqa: N818 - a signal, not an error
    """Signal that a stage would execute SQL on a database of which only the schema is available."""

    def __init__(self, stage: str, database_id: str) -> None:
        super().__init__(
            f"{stage} executes SQL, and the database {database_id} is missing (only its schema is known)"
        )
        self.stage = stage


class StageStore(Protocol):
    """Persisted results of stages."""

    async def read(self, key: str) -> Mapping[str, Any] | None:
        """Return the persisted result under that key, None when there is none."""

    async def write(self, key: str, result: Mapping[str, Any]) -> None:
        """Persist a result under a key; it survives a crash of the process from then on."""


class StageTaskRuns(Protocol):
    """Task runs of Prefect's that hold stage calls (`flows.prefect.stage_task_runs`)."""

    @property
    def store(self) -> StageStore:
        """Where results are persisted."""

    def add_call(self, site: Any) -> AbstractAsyncContextManager[Any, bool]:
        """Have a task run hold the call of a `CallSite`; return the context manager in which to run it."""


@dataclass
class QuestionRun:
    """How the stages of one question are restored or run, and the records that they leave."""

    question: Question
    store: StageStore | None = None  # persisted results, which are restored; None runs every stage
    # Prefect's task runs, which hold the calls of stages and persist their results; None runs stages without Prefect
    # (for a single interactive question)
    task_runs: StageTaskRuns | None = None
    # whether persisted results are all that is taken, and the first miss raises NotCached
    only_restores: bool = False
    attempt: int = 0  # 0, or which re-roll of the question this is
    # attempts whose persisted results may be restored where this attempt has none, the latest first
    earlier: tuple[int, ...] = ()
    # name or label of the stage from which on earlier results do not count; "" is none
    rerun_from_stage: str = ""
    refresh: bool = False  # from that stage on, results of this attempt itself do not count either
    # asked before each stage that is not restored; True ends the question with `Stopped`
    stopped: Callable[[], bool] = bool
    run: str = ""  # id of the evaluation that it belongs to, shared by all of its shards; "" for none
    # number of the candidate that the stages write, from 1; None outside of candidates
    candidate: int | None = None
    # one per finished stage, in the order in which they finished
    records: list[StageRecord] = field(default_factory=list)
    # keys of results that a record counts as this evaluation's own
    counted: set[str] = field(default_factory=set)
    _begun: dict[str, None] = field(default_factory=dict)  # labels of stages, in order
    _calls: Counter[str] = field(default_factory=Counter)  # calls of each stage so far, by its first label
    _dropping: bool = False  # whether `rerun_from_stage` has begun, so that earlier results do not count

    def label(self, stage: str) -> str:
        """Return the stage's name, numbered from its second call on (`self_correction 2`), with the candidate."""
        first = label = label_of(stage, self.candidate)
        count = max(self._calls[first], 1)
        while label in self._begun:
            count += 1
            label = label_of(f"{stage} {count}", self.candidate)
        self._calls[first] = count
        self._begun[label] = None  # the stage that gets a label begins
        self._dropping = self._dropping or self.rerun_from_stage in (stage, label)
        return label

    def skip(self, stage: str, why: str) -> None:
        """Record that a stage does not run."""
        self.records.append(StageRecord(stage, self.label(stage), None, restored=True, skipped=why))

    def for_candidate(self, number: int) -> "QuestionRun":
        """Return the run of one of several candidates, whose stages are numbered apart from those of the others."""
        return replace(self, candidate=number, records=[], _begun={}, _calls=Counter(), _dropping=False)

    def join(self, candidate: "QuestionRun") -> None:
        """Take over the records of a candidate's run; its stages stand where they would if they had begun now."""
        self.records += candidate.in_order
        self._begun |= candidate._begun
        self._dropping = self._dropping or candidate._dropping

    @property
    def attempts(self) -> tuple[int, ...]:
        """Attempts whose results the stage that has just been labelled may take, the first one's key being its own."""
        if self._dropping or not self.earlier:
            return (self.attempt,)
        return self.earlier if self.rerun_from_stage else (self.attempt, *self.earlier)

    @property
    def ignore_cache(self) -> bool:
        """Whether the stage that has just been labelled must run even if its result is persisted."""
        return self._dropping and self.refresh

    @property
    def owner(self) -> str:
        """Origin in persisted results: this evaluation and this question."""
        return f"{self.run}/{self.question.id}"

    def check_may_run(self, key: str) -> None:
        """Raise NotCached or Stopped if no stage may run whose result is to be persisted under this key."""
        if self.only_restores:
            raise NotCached(key)
        if self.stopped():
            raise Stopped

    def count_own(self, key: str, result: Mapping[str, Any], *, ran: bool) -> bool:
        """Return whether a record counts a result as made for this evaluation, and note it.

        It was made by a task that `ran` now, or by a worker that crashed: its calls are counted in this evaluation. A
        result that the question needs twice is made once and counted once.
        """
        is_own = result.get("made_by") == self.owner and (ran or (bool(self.run) and key not in self.counted))
        if is_own:
            self.counted.add(key)
        return is_own

    @property
    def in_order(self) -> tuple[StageRecord, ...]:
        """The records in the order in which their stages began: that is the same in every run."""
        positions = {label: position for position, label in enumerate(self._begun)}
        return tuple(sorted(self.records, key=lambda record: positions[record.label]))


_question_run: ContextVar[QuestionRun] = ContextVar("question_run")


@contextmanager
def in_question_run(question_run: QuestionRun) -> Iterator[QuestionRun]:
    """Set the question run of the stages that are called inside the block."""
    token = _question_run.set(question_run)
    try:
        yield question_run
    finally:
        _question_run.reset(token)


def current_question_run() -> QuestionRun:
    """Return the run of the current question."""
    return _question_run.get()
