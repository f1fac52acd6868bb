"""One question's run through a pipeline, with every failure turned into an outcome."""

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from flows.evaluate.demonstrations import QuestionExtras
from flows.pipelines.candidates import Candidates
from flows.pipelines.pipeline import Context, Function, PipelineRecord, pipeline_of
from flows.prefect.stage_task_runs import TaskRuns
from tasks.backbone.kinds.kind import kind_of
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.tiers import Pace
from tasks.core.errors import BackboneError, ConfigurationError, DatabaseUnavailableError, StoreError
from tasks.core.outcome import Failure, Outcome
from tasks.core.records import Question
from tasks.core.registry import described, extension_place
from tasks.database.database import Database
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.sandbox.workers import SqlWorkers
from tasks.retrieval.value_index import DatabaseValues
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tasks.settings.pipeline import AgentSettings, PipelineSettings, oracle_settings
from tasks.sql.parsing import remarks
from tasks.stages.question_run import (
    NotCached,
    NotExecutable,
    QuestionRun,
    StageStore,
    Stopped,
    in_question_run,
)
from tasks.stages.schema_prompt import room_for


def failure(signal: NotExecutable) -> Failure:
    """Return the failure of a question at a stage that executes SQL."""
    return Failure(
        "missing_database",
        signal.stage,
        f"{signal.stage} executes SQL, and the database {signal.database_id} is missing (only its schema is known)",
        retryable=False,
    )


def summary(outcomes: Mapping[str, Outcome], questions: int) -> str:
    """Return a sentence on the questions that were run with only a schema.

    Args:
        outcomes: outcomes of the questions without a database, by id.
        questions: number of questions of the evaluation.
    """
    ended = Counter(
        outcome.failure.stage
        for outcome in outcomes.values()
        if outcome.failure and outcome.failure.kind == "missing_database"
    )
    stages = "; ".join(f"{stage} was not executable on {count:,}" for stage, count in ended.items())
    return (
        f"{len(outcomes):,} of {questions:,} questions were run with only their schema, because their database is "
        f"missing: linking counts them, execution accuracy does not{f' ({stages})' if stages else ''}."
    )


def with_tool_mode(settings: EvaluationSettings) -> PipelineSettings:
    """Return the settings of the pipeline with "native" or "text" in place of an agent's `tools: auto`."""
    pipeline = settings.pipeline
    if not isinstance(pipeline, AgentSettings) or pipeline.tools != "auto":
        return pipeline
    native = kind_of(settings.backbone).tools(settings.backbone)
    return pipeline.model_copy(update={"tools": "native" if native else "text"})


log = logging.getLogger(__name__)

_NOT_RESTORED = ("extension_error", "internal_error", "missing_gold")
"""Failures that prevent restoring a question: it is evaluated again, and the failure is reported then."""


class MissingGold(Exception):  # noqa: N818 - a signal, not an error
    """Signal that a question has no gold SQL, parts of which the settings ask for."""


@dataclass(frozen=True, slots=True)
class RerunSpec:
    """Specification of asking a question again; the default is that of the first time."""

    attempt: int = 0  # index of the sampling of the model, 0 for the first
    earlier: tuple[int, ...] = ()  # samplings whose persisted results are kept, the latest first
    from_stage: str = ""  # first stage whose results are not kept; "" for none
    refresh: bool = False  # from that stage on, this sampling's own persisted results are not restored either


@dataclass(frozen=True)
class QuestionInputs:
    """Databases and demonstrations of questions."""

    databases: Mapping[str, Database]  # opened databases by id, or only their schema
    extras: Mapping[str, QuestionExtras]  # demonstrations and the like, by question id


@dataclass(frozen=True)
class Tools:
    """Models and SQL workers of pipelines."""

    backbone: MeteredBackbone  # the language model
    workers: SqlWorkers  # processes that run SQL
    # the second model, which eliminates bias (SEA-SQL); None where none is configured
    eliminator: MeteredBackbone | None = None
    writers: tuple[MeteredBackbone, ...] = ()  # models that write candidates in turns; () for `backbone`
    temperature: float | None = None  # at which `backbone` selects among candidates; None for its own
    pace: Pace = field(default_factory=lambda: Pace(None))  # whether the run is on time


@dataclass(frozen=True)
class Persistence:
    """Settings of persisting and restoring the stages of a run."""

    store: StageStore | None = None  # persisted stage results; None restores nothing
    task_runs: TaskRuns | None = None  # Prefect's task runs, which persist results; None runs stages in place
    run: str = ""  # id of the evaluation that the questions belong to, shared by its shards; "" for none
    # called before each stage that is not restored; True ends the question with `Stopped`
    stopped: Callable[[], bool] = bool
    # how questions are run again, by question id
    reruns: Mapping[str, RerunSpec] = field(default_factory=dict)

    def question_run(self, question: Question, *, only_restores: bool = False) -> QuestionRun:
        """Return the run of one question."""
        rerun = self.reruns.get(question.id, RerunSpec())
        return QuestionRun(
            question,
            self.store,
            self.task_runs,
            only_restores,
            rerun.attempt,
            earlier=rerun.earlier,
            rerun_from_stage=rerun.from_stage,
            refresh=rerun.refresh,
            stopped=self.stopped,
            run=self.run,
        )


@dataclass(frozen=True)
class QuestionRunner:
    """Runs questions through a pipeline."""

    settings: EvaluationSettings  # the pipeline, and the time limit of a query
    inputs: QuestionInputs  # databases and demonstrations
    tools: Tools  # models and SQL workers
    persistence: Persistence = Persistence()  # how stage results are persisted and restored

    async def restore(self, question: Question) -> Outcome | None:
        """Return the outcome if every stage has a persisted result, else None."""
        try:
            outcome = await self.run(self.persistence.question_run(question, only_restores=True))
        except NotCached:
            return None
        failure = outcome.failure
        return None if failure and failure.kind in _NOT_RESTORED else outcome

    def question_run(self, question: Question) -> QuestionRun:
        """Return a question run for `run` whose stages run in Prefect's task runs where they cannot be restored."""
        return self.persistence.question_run(question)

    async def run(self, question_run: QuestionRun) -> Outcome:
        """Run a question through the pipeline and return its outcome.

        A failure is part of the outcome, never an exception: one question cannot end the evaluation of the others.
        With `QuestionRun(question)` stages run in place, without Prefect.

        Raises:
            Stopped: the evaluation is being stopped.
            NotCached: the question run only restores, and a stage has no persisted result.
        """
        record = PipelineRecord()
        sql, failure = None, None
        with in_question_run(question_run):
            try:
                sql = await self._answer(question_run.question, self._context(question_run.question, record))
            except (NotCached, Stopped):
                raise
            except Exception as error:
                # If results cannot be read, a call may have been paid for already, so none is made.
                if isinstance(error, StoreError) and question_run.only_restores:
                    raise
                failure = failure_of(error, question_run)
        return Outcome(
            question_id=question_run.question.id,
            sql=sql,
            candidates=tuple(record.candidates),
            links=dict(record.links),
            stages=question_run.in_order,
            failure=failure,
            notes=(*record.notes, *remarks(sql)),
        )

    @property
    def _answer(self) -> Function[Any]:
        """The pipeline's function; with candidates, one that runs it several times and selects."""
        pipeline, writers = pipeline_of(self.settings.pipeline), self.tools.writers or (self.tools.backbone,)
        if self.settings.pipeline.candidates.n == 1:
            return pipeline.answer
        return Candidates(pipeline, writers, self.settings.benchmark.rule, self.tools.temperature).answer

    def _context(self, question: Question, record: PipelineRecord) -> Context[Any]:
        database, extras = self.inputs.databases[question.database_id], self.inputs.extras[question.id]
        given = oracle_settings(self.settings.pipeline)
        if given and extras.oracle is None:
            raise MissingGold(
                f"it has no gold SQL, parts of which {' and '.join(given)} gives to the pipeline"
            )
        return Context(
            settings=with_tool_mode(self.settings),
            runner=DatabaseRunner(database, self.tools.workers, self.settings.benchmark.timeout_s),
            demonstrations=extras.demonstrations,
            grounded=extras.grounded,
            aligned=extras.aligned,
            oracle=extras.oracle,
            backbone=self.tools.backbone,
            record=record,
            values=DatabaseValues(database, Home(File(self.settings.home)).values),
            eliminator=self.tools.eliminator,
            schema_room=room_for(database.schema, self.settings.backbone),
        )


def failure_of(error: Exception, question_run: QuestionRun) -> Failure:
    """Return the failure for an exception of a pipeline; log the traceback of a bug."""
    stage = next((record.label for record in reversed(question_run.records) if record.error), "")
    match error:
        case BackboneError():
            return Failure(
                "backbone_error",
                stage,
                str(error),
                retryable=error.transient or error.fatal,
                fatal=error.fatal,
                transient=error.transient,
            )
        case MissingGold():
            return Failure("missing_gold", stage, str(error), retryable=False)
        case NotExecutable():
            return failure(error)
        case StoreError():
            return Failure("store_error", stage, str(error), retryable=True, fatal=True)
        case DatabaseUnavailableError():
            return Failure("database_unavailable", stage, str(error), retryable=True)
        case ConfigurationError():  # for example in a user's prompt: every question would fail
            return Failure("configuration_error", stage, str(error), retryable=True, fatal=True)
        case _ if extension_place(error):
            log.warning("question %s failed:\n%s", question_run.question.id, traceback.format_exc())
            return Failure("extension_error", stage, described(error), retryable=True)
        case _:  # a bug in one question must not end the others
            log.error("question %s failed:\n%s", question_run.question.id, traceback.format_exc())
            return Failure("internal_error", stage, f"{type(error).__name__}: {error}", retryable=False)
