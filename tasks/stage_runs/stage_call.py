"""One call of a stage, and the result that is persisted for it."""

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic_core import to_jsonable_python

from tasks.backbone.metered import MeteredBackbone
from tasks.core.outcome import Call
from tasks.core.records import Question
from tasks.stage_runs.question_run import StageTaskRuns

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StageResult(Generic[T]):
    """The result of one stage call; as plain JSON it is what is persisted."""

    value: T  # what the stage returned
    calls: tuple[Call, ...]  # its model calls
    notes: tuple[str, ...]  # what was less than ideal
    seconds: float  # wall time of the stage
    made_by: str = ""  # the evaluation and the question that it ran for
    # replies, unreadable, fallback: as in `StageRecord`
    replies: int = 0
    unreadable: int = 0
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class CallSite:
    """The place of a stage call in an evaluation.

    Attributes:
        stage: name of the stage.
        label: the name, numbered from the stage's second call for the question on.
        question: the question.
        mark: the evaluation and the question (`QuestionRun.mark`).
        key: where the result is persisted: `stage/sha256`.
    """

    stage: str
    label: str
    question: Question
    owner: str
    key: str

    @property
    def name(self) -> str:
        """Stage, database and question."""
        return f"{self.label} · {self.question.database_id} · {self.question.id}"


class StageCall:
    """One call of a stage."""

    def __init__(
        self, function: Callable[..., Awaitable[Any]], arguments: Mapping[str, Any], site: CallSite
    ) -> None:
        self._function = function
        self._arguments = arguments
        self._site = site
        backbone = arguments.get("backbone")
        self._meter = backbone if isinstance(backbone, MeteredBackbone) else None

    async def run(self, task_runs: StageTaskRuns | None = None) -> dict[str, Any]:
        """Run the stage; return its `StageResult` as plain JSON.

        Args:
            task_runs: one of these holds the call. The result is then persisted before it is returned, and the stage
                runs again after an error that may pass; model calls made before that are kept.

        Raises:
            Exception: what the stage raised; or that the result cannot be persisted.
        """
        turn = task_runs.add_call(self._site) if task_runs else nullcontext()
        while True:
            async with turn:  # left without an error where the stage is to run again
                if self._meter:
                    self._meter.again()
                started = time.perf_counter()
                value = await self._function(**self._arguments)
                seconds = round(time.perf_counter() - started, 6)
                counts = (meter.replies, meter.unreadable, meter.fallback) if (meter := self._meter) else ()
                result = StageResult(value, self.calls, self.notes, seconds, self._site.owner, *counts)
                plain: dict[str, Any] = to_jsonable_python(result)
                if task_runs:
                    await task_runs.store.write(self._site.key, plain)
                return plain

    @property
    def calls(self) -> tuple[Call, ...]:
        """Model calls made so far, those of a failed run included."""
        return tuple(self._meter.calls) if self._meter else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was less than ideal."""
        return tuple(self._meter.notes) if self._meter else ()
