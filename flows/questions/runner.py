"""One question's way through a pipeline, whatever happens to it."""

import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Literal

from flows.pipelines.context import Context, PipelineRecord
from flows.pipelines.pipeline import pipeline_of
from flows.questions import schema_only
from flows.questions.demonstrations import Shown
from tasks.backbone.metered import MeteredBackbone
from tasks.database.database import Database
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.sandbox.workers import SqlWorkers
from tasks.errors import BackboneError, ConfigurationError, StoreError
from tasks.records import Failure, Outcome, Question
from tasks.retrieval.values.index import DatabaseValues
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tasks.trail import NotCached, NotExecutable, StageStore, Stopped, Trail, on_trail

log = logging.getLogger(__name__)

INTERNAL = "internal_error"
"""Kind of failure that is a bug of ours; its traceback is in the log."""


@dataclass(frozen=True, slots=True)
class Again:
    """How a question is asked again; the default is how it is asked for the first time.

    Attributes:
        attempt: which sampling of the model this is, 0 for the first.
        earlier: samplings whose persisted results are kept, the latest first.
        from_stage: the stage from which on they are not; "" for none.
        refresh: from that stage on, not even this sampling's own persisted results are restored.
    """

    attempt: int = 0
    earlier: tuple[int, ...] = ()
    from_stage: str = ""
    refresh: bool = False


@dataclass(frozen=True)
class Asker:
    """Takes questions through a pipeline.

    Attributes:
        settings: the pipeline, and how long a query may take.
        databases: the opened databases, by id; of some perhaps only the schema.
        shown: what each question is given besides, by question id.
        backbone: who is asked.
        workers: where SQL runs.
        store: persisted stage results.
        stopped: tells stages whether they may still begin.
        again: of questions that are asked again, by id: what of their earlier answers is kept.
        eliminator: who eliminates bias (SEA-SQL); None where none is configured.
        run: the evaluation that the questions are asked for, "" where there is none.
    """

    settings: EvaluationSettings
    databases: Mapping[str, Database]
    shown: Mapping[str, Shown]
    backbone: MeteredBackbone
    workers: SqlWorkers
    store: StageStore | None = None
    stopped: Callable[[], bool] = bool
    again: Mapping[str, Again] = field(default_factory=dict)
    eliminator: MeteredBackbone | None = None
    run: str = ""

    async def restore(self, question: Question) -> Outcome | None:
        """Return the outcome if every stage has a persisted result, None at the first that has not.

        Raises:
            StoreError: the persisted results cannot be read.
        """
        trail = self._trail(question, "restore")
        try:
            outcome = await self._walk(question, trail)
        except NotCached:
            return None
        # What cannot be restored is asked, and fails there if it must.
        return None if outcome.failure and outcome.failure.kind == INTERNAL else outcome

    async def ask(self, question: Question) -> tuple[Outcome, int]:
        """Take the question through the pipeline; return its outcome and how many Prefect tasks that took.

        A failure is part of the outcome, never an exception: one question cannot end the evaluation of the others.
        Only `Stopped` and cancellation pass through.
        """
        trail = self._trail(question, "tasks")
        outcome = await self._walk(question, trail)
        return outcome, trail.executed

    async def ask_directly(self, question: Question) -> Outcome:
        """Take the question through the pipeline in place, without Prefect."""
        return await self._walk(question, Trail(question, mode="direct"))

    def _trail(self, question: Question, mode: Literal["restore", "tasks"]) -> Trail:
        again = self.again.get(question.id, Again())
        return Trail(
            question,
            self.store,
            mode,
            again.attempt,
            earlier=again.earlier,
            again_from=again.from_stage,
            refresh=again.refresh,
            stopped=self.stopped,
            run=self.run,
        )

    async def _walk(self, question: Question, trail: Trail) -> Outcome:
        database, shown = self.databases[question.database_id], self.shown[question.id]
        record = PipelineRecord()
        context = Context(
            settings=self.settings.pipeline,
            runner=DatabaseRunner(database, self.workers, self.settings.benchmark.timeout_s),
            demonstrations=shown.demonstrations,
            grounded=shown.grounded,
            oracle=shown.oracle,
            backbone=self.backbone,
            record=record,
            values=DatabaseValues(database, Home(File(self.settings.home)).values),
            eliminator=self.eliminator,
        )
        sql, failure = None, None
        with on_trail(trail):
            try:
                sql = await pipeline_of(self.settings.pipeline).answer(question, context)
            except BackboneError as error:
                failure = _backbone_failure(trail, error)
            except NotExecutable as signal:
                failure = schema_only.failure(signal)
            except StoreError as error:
                if trail.mode == "restore":  # nothing is known of any question then, so nothing may be asked
                    raise
                failure = Failure("store_error", _failed_stage(trail), str(error), True, True)
            except (NotCached, Stopped):
                raise
            except (
                ConfigurationError
            ) as error:  # a prompt of the user's own, for instance: every question would fail
                failure = Failure("configuration_error", _failed_stage(trail), str(error), True, True)
            except Exception as error:  # a bug in one stage must not take the other questions along
                log.error("question %s failed:\n%s", question.id, traceback.format_exc())
                failure = Failure(INTERNAL, _failed_stage(trail), f"{type(error).__name__}: {error}", False)
        return Outcome(
            question_id=question.id,
            sql=sql,
            candidates=tuple(record.candidates),
            links=dict(record.links),
            stages=trail.in_order,
            failure=failure,
            notes=tuple(record.notes),
        )


def _backbone_failure(trail: Trail, error: BackboneError) -> Failure:
    return Failure(
        "backbone_error", _failed_stage(trail), str(error), error.transient or error.fatal, error.fatal
    )


def _failed_stage(trail: Trail) -> str:
    return next((record.label for record in reversed(trail.records) if record.error), "")
