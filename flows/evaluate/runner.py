"""One question's run through a pipeline, with every failure turned into an outcome, and the resources of a run."""

import datetime
import logging
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.evaluate.demonstration_search import QuestionInputs
from flows.evaluate.preparation import check_different, eliminator_name, eliminator_settings, writer_settings
from flows.pipelines.candidates import Candidates
from flows.pipelines.pipeline import Context, Function, PipelineRecord, demand_sql, pipeline_of
from flows.prefect.stage_results import PersistedResults, open_results
from flows.prefect.stage_task_runs import TaskRuns
from flows.runtime.control import Control
from tasks.backbone.cache.store import ReplyCache, open_reply_cache
from tasks.backbone.endpoint.auto_mode import KnownEndpoints, find_response_mode
from tasks.backbone.kind import kind_of
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.opening import RunResources, open_backbone
from tasks.backbone.recordings import Observations, RecordedBackbone, Served
from tasks.backbone.tiers import BATCH, Pace
from tasks.core.errors import (
    BackboneError,
    ConfigurationError,
    DatabaseUnavailableError,
    ExtensionError,
    StoreError,
)
from tasks.core.outcome import Failure, Outcome
from tasks.core.records import Question
from tasks.core.registry import awaitable, described, extension_location
from tasks.core.wording import next_time
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.sandbox.workers import SqlWorkers
from tasks.retrieval.value_index import DatabaseValues
from tasks.scoring.execution.verdict_cache import VerdictCache
from tasks.settings.backbone import BackboneSettings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home, find_replies
from tasks.settings.pipeline import AgentSettings, PipelineSettings, oracle_settings
from tasks.sql.parsing import remarks
from tasks.stages import prompts
from tasks.stages.question_run import (
    NotCached,
    NotExecutable,
    QuestionRun,
    StageStore,
    Stopped,
    in_question_run,
)
from tasks.stages.schema_prompt import room_for

log = logging.getLogger(__name__)

_NOT_RESTORED = ("extension_error", "internal_error", "missing_gold")
"""Failures that prevent restoring a question: it is evaluated again, and the failure is reported then."""

BATCHES = (
    "Requests are submitted in batches, each of which the provider answers within 24 hours; where a stage needs the "
    "answer of the one before, one batch follows the other"
)


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
class Tools:
    """Models and SQL workers of pipelines."""

    backbone: MeteredBackbone
    workers: SqlWorkers
    eliminator: MeteredBackbone | None = None  # the second model of SEA-SQL
    writers: tuple[MeteredBackbone, ...] = ()  # models that write candidates in turns; () for `backbone`
    temperature: float | None = None  # at which `backbone` selects among candidates; None for its own
    pace: Pace = field(default_factory=lambda: Pace(None))  # whether the run is on time


@dataclass(frozen=True)
class QuestionRunner:
    """Runs questions through a pipeline."""

    settings: EvaluationSettings
    inputs: QuestionInputs
    tools: Tools
    store: StageStore | None = None  # persisted stage results; None restores nothing
    task_runs: TaskRuns | None = None  # Prefect's task runs, which persist results; None runs stages in place
    run_id: str = ""  # of the evaluation that the questions belong to, shared by its shards; "" for none
    stopped: Callable[[], bool] = bool  # asked before each stage that is not restored; True ends the question
    reruns: Mapping[str, RerunSpec] = field(default_factory=dict)  # how questions are run again, by id

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
            run=self.run_id,
        )

    async def restore(self, question: Question) -> Outcome | None:
        """Return the outcome if every stage has a persisted result, else None."""
        try:
            outcome = await self.run(self.question_run(question, only_restores=True))
        except NotCached:
            return None
        failure = outcome.failure
        return None if failure and failure.kind in _NOT_RESTORED else outcome

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
                question = question_run.question
                sql = demand_sql(await awaitable(self._answer, question, self._context(question, record)))
            except (NotCached, Stopped):
                raise
            except (Exception, SystemExit) as error:  # an own pipeline may call sys.exit
                # If results cannot be read, a call may have been paid for already, so none is made.
                if isinstance(error, StoreError) and question_run.only_restores:
                    raise
                if isinstance(error, BackboneError) and question_run.stopped():
                    raise Stopped from error  # its request was not sent any more
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
        pipeline = pipeline_of(self.settings.pipeline)
        writers = self.tools.writers or (self.tools.backbone,)
        if self.settings.pipeline.candidates.n == 1:
            return pipeline.answer
        return Candidates(pipeline, writers, self.settings.benchmark.rule, self.tools.temperature).answer

    def _context(self, question: Question, record: PipelineRecord) -> Context[Any]:
        database, extras = self.inputs.databases[question.database_id], self.inputs.extras[question.id]
        oracles = oracle_settings(self.settings.pipeline)
        if oracles and extras.oracle is None:
            raise MissingGold(
                f"it has no gold SQL, parts of which {' and '.join(oracles)} gives to the pipeline"
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
            values=DatabaseValues(database, Home(Path(self.settings.home)).values),
            eliminator=self.tools.eliminator,
            schema_room=room_for(database.schema, self.settings.backbone),
        )


def with_tool_mode(settings: EvaluationSettings) -> PipelineSettings:
    """Return the settings of the pipeline with "native" or "text" in place of an agent's `tools: auto`."""
    pipeline = settings.pipeline
    if not isinstance(pipeline, AgentSettings) or pipeline.tools != "auto":
        return pipeline
    native = kind_of(settings.backbone).tools(settings.backbone)
    return pipeline.model_copy(update={"tools": "native" if native else "text"})


def failure_of(error: BaseException, question_run: QuestionRun) -> Failure:
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
            return Failure("missing_database", error.stage, str(error), retryable=False)
        case StoreError():
            return Failure("store_error", stage, str(error), retryable=True, fatal=True)
        case DatabaseUnavailableError():
            return Failure("database_unavailable", stage, str(error), retryable=True)
        case ConfigurationError():  # for example in a user's prompt: every question would fail
            return Failure("configuration_error", stage, str(error), retryable=True, fatal=True)
        case ExtensionError():
            where = extension_location(error)
            return Failure(
                "extension_error", stage, f"{where}: {error}" if where else str(error), retryable=True
            )
        case _ if extension_location(error):
            log.warning("question %s failed:\n%s", question_run.question.id, traceback.format_exc())
            return Failure("extension_error", stage, described(error), retryable=True)
        case _:  # a bug in one question must not end the others
            log.error("question %s failed:\n%s", question_run.question.id, traceback.format_exc())
            return Failure("internal_error", stage, f"{type(error).__name__}: {error}", retryable=False)


@dataclass(frozen=True)
class Resources:
    """Open resources of a run of questions."""

    settings: EvaluationSettings  # with the response mode that stands for "auto"
    control: Control
    tools: Tools
    replies: ReplyCache = field(repr=False)
    verdicts: VerdictCache = field(repr=False)
    results: PersistedResults | None = field(default=None, repr=False)  # None: without Prefect
    task_runs: TaskRuns | None = field(default=None, repr=False)  # None: without Prefect
    observed: Observations | None = field(default=None, repr=False)  # for a recording or traces
    served: Served | None = None  # counts of requests that a recording served; None for other backbones

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: EvaluationSettings, control: Control, *, persistent: bool = True, traced: bool = False
    ) -> "AsyncIterator[Resources]":
        """Open the resources of one run, and close them in reverse order, calls in flight first.

        `persistent` stages run as Prefect tasks, whose results are persisted and restored. Their task runs begin when
        `task_runs.begin` is called, unless the control has a flow run already. `traced` says whether MLflow gets traces
        of the questions.
        """
        prompts.check()
        home = Home(Path(settings.home))
        results = open_results(home) if persistent else None
        with (
            closing(results) if results else nullcontext(),
            open_reply_cache(find_replies(home)) as replies,
            VerdictCache(home.verdicts) as verdicts,
        ):
            observations = _observations(settings, traced=traced)
            now = datetime.datetime.now().astimezone()
            finish_by = settings.backbone.finish_by
            pace = Pace(next_time(finish_by, now) if finish_by else None)
            if settings.backbone.tier == BATCH:
                control.progress.step(BATCHES)
            resources = RunResources(
                cache=replies,
                budget=control.budget,
                observations=observations,
                endpoints=KnownEndpoints(home.endpoints, control.progress.note),
                pace=pace,
                report=control.progress.step,
                stop=control.stop,
                stop_now=control.stop_now,
                given_up=control.give_up,
            )
            backbone = await find_response_mode(settings.backbone, resources.endpoints)
            settings = settings.model_copy(update={"backbone": backbone})
            async with _open_tools(settings, resources) as tools:
                source = tools.backbone.source
                yield cls(
                    settings=settings,
                    control=control,
                    tools=tools,
                    replies=replies,
                    verdicts=verdicts,
                    results=results,
                    task_runs=TaskRuns(results, early=not control.flow_run) if results else None,
                    observed=observations,
                    served=source.served if isinstance(source, RecordedBackbone) else None,
                )

    def runner(
        self, inputs: QuestionInputs, *, run: str = "", reruns: Mapping[str, RerunSpec] | None = None
    ) -> QuestionRunner:
        """Return the runner of questions of a run, some of which are run again."""
        # A recording needs every reply. For restored stages, the reply cache has only those of paid backbones.
        record_all = self.settings.record is not None and not kind_of(self.settings.backbone).paid
        store = None if record_all else self.results
        stopped = self.control.stop.is_set
        return QuestionRunner(
            self.settings, inputs, self.tools, store, self.task_runs, run, stopped, reruns or {}
        )


@asynccontextmanager
async def _open_tools(settings: EvaluationSettings, resources: RunResources) -> AsyncIterator[Tools]:
    """Start the SQL workers, and open every model of a run once."""
    models = writer_settings(settings)
    async with SqlWorkers() as workers, AsyncExitStack() as stack:

        async def open_model(backbone: BackboneSettings) -> MeteredBackbone:
            return await stack.enter_async_context(open_backbone(backbone, resources))

        backbone = await open_model(models.backbone)
        # a recording has the replies of the eliminator, too
        eliminator = backbone if eliminator_name(settings.pipeline) else None
        if eliminator_backbone := eliminator_settings(settings):
            eliminator = await open_model(eliminator_backbone)
        by_name = {models.backbone.name: backbone}
        for writer in models.writers:
            if writer.name not in by_name:
                by_name[writer.name] = await open_model(writer)
        writers = tuple(by_name[writer.name] for writer in models.writers)
        check_different(models.writers, writers)  # again, with the response modes that stand for "auto"
        yield Tools(backbone, workers, eliminator, writers, models.temperature, resources.pace)


def _observations(settings: EvaluationSettings, *, traced: bool) -> Observations | None:
    """Return where replies are kept for a recording, or for traces of replies that are not cached; else None."""
    traces = settings.tracking.failed_traces or settings.tracking.sample_traces
    traced = traced and bool(traces) and not kind_of(settings.backbone).paid
    recorded = settings.record is not None
    return Observations(recorded=recorded, traced=traced) if recorded or traced else None
