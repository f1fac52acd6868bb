"""Resources of a run of questions, the backbones of its candidates, and the factory of its question runner."""

import datetime
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from flows.evaluate.backbones import (
    WriterSettings,
    check_different,
    eliminator_name,
    eliminator_settings,
    writer_settings,
)
from flows.evaluate.recording import Recorder
from flows.evaluate.runner import Persistence, QuestionInputs, QuestionRunner, RerunSpec, Tools
from flows.prefect.flow_runs import flow_run_id
from flows.prefect.stage_results import PersistedResults, open_results
from flows.prefect.stage_task_runs import TaskRuns
from flows.prefect.task_runs import wait_until_recorded
from flows.runtime.control import Control
from tasks.backbone.cache.store import ReplyCache, open_reply_cache
from tasks.backbone.endpoint.auto_mode import KnownEndpoints, find_response_mode
from tasks.backbone.kinds.kind import kind_of
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.opening import RunResources, open_backbone, source_of
from tasks.backbone.recordings import Observations, RecordedBackbone, Served
from tasks.backbone.tiers import BATCH, Pace
from tasks.core.wording import next_time
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.verdict_cache import VerdictCache
from tasks.settings.backbone import BackboneSettings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home, find_replies


@asynccontextmanager
async def open_writers(
    configured: WriterSettings, own: MeteredBackbone, resources: RunResources
) -> AsyncIterator[tuple[MeteredBackbone, ...]]:
    """Open the backbones that write candidates for one run, each once; they share the resources of the run's backbones.

    The run's own, which is open, may be one of them.
    """
    opened = {configured.own.name: own}
    async with AsyncExitStack() as stack:
        for settings in configured.writers:
            if settings.name not in opened:
                opened[settings.name] = await stack.enter_async_context(open_backbone(settings, resources))
        writers = tuple(opened[settings.name] for settings in configured.writers)
        check_different(configured.writers, writers)  # again, with the response modes that stand for "auto"
        yield writers


@asynccontextmanager
async def open_eliminator(
    settings: EvaluationSettings, own: MeteredBackbone, resources: RunResources
) -> AsyncIterator[MeteredBackbone | None]:
    """Open a run's eliminator, which shares the resources of the run's backbones; None where it needs none.

    If the run's own backbone, which is open, serves a recording, it is the eliminator too.
    """
    named = eliminator_settings(settings)
    if named is None:
        yield own if eliminator_name(settings.pipeline) else None
        return
    async with open_backbone(named, resources) as backbone:
        yield backbone


BATCHES = (
    "Requests are submitted in batches, each of which the provider answers within 24 hours; where a stage needs the "
    "answer of the one before, one batch follows the other"
)


@dataclass(frozen=True)
class Resources:
    """Open resources of a run of questions."""

    settings: EvaluationSettings  # settings of the evaluation, with the response mode that stands for "auto"
    control: Control  # progress, stop requests and budget
    tools: Tools  # models and SQL workers
    replies: ReplyCache = field(repr=False)  # cache of model replies
    verdicts: VerdictCache = field(repr=False)  # cache of comparisons of SQL with gold
    # persisted stage results; None where stages run without Prefect
    results: PersistedResults | None = field(default=None, repr=False)
    # Prefect's task runs of stages; None where stages run without Prefect
    task_runs: TaskRuns | None = field(default=None, repr=False)
    # requests and replies; None where neither a recording nor traces need them
    observed: Observations | None = field(default=None, repr=False)
    served: Served | None = None  # counts of requests that a recording served; None for other backbones

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: EvaluationSettings,
        control: Control,
        *,
        persistent: bool = True,
        in_prefect: bool = True,
        traced: bool = False,
    ) -> "AsyncIterator[Resources]":
        """Open the resources of one run, and close them in reverse order, calls in flight first.

        Args:
            settings: settings of the evaluation.
            control: progress, stop requests and budget.
            persistent: whether stages run as Prefect tasks, whose results are persisted, and are restored.
            in_prefect: whether a flow is running; otherwise persistent stages can only be restored.
            traced: whether MLflow gets traces of the questions.
        """
        home = Home(Path(settings.home))
        results = open_results(home, in_prefect=in_prefect) if persistent else None
        with (
            closing(results) if results else nullcontext(),
            open_reply_cache(find_replies(home)) as replies,
            VerdictCache(home.verdicts) as verdicts,
        ):
            observations = _observations(settings, traced=traced)
            known = KnownEndpoints(home.endpoints, control.progress.note)
            pace = _pace(settings.backbone)
            if settings.backbone.tier == BATCH:
                control.progress.step(BATCHES)
            resources = RunResources(
                cache=replies,
                budget=control.budget,
                observations=observations,
                endpoints=known,
                pace=pace,
                report=control.progress.step,
                stop_now=control.stop_now,
                given_up=control.give_up,
            )
            own_settings = await find_response_mode(settings.backbone, resources.endpoints)
            settings = settings.model_copy(update={"backbone": own_settings})
            configured = writer_settings(settings)
            async with (
                SqlWorkers() as workers,
                open_backbone(configured.own, resources) as own,
                open_eliminator(settings, own, resources) as eliminator,
                open_writers(configured, own, resources) as writers,
            ):
                source = source_of(own)
                yield cls(
                    settings=settings,
                    control=control,
                    tools=Tools(own, workers, eliminator, writers, configured.temperature, pace),
                    replies=replies,
                    verdicts=verdicts,
                    results=results,
                    task_runs=TaskRuns(results) if results and in_prefect else None,
                    observed=observations,
                    served=source.served if isinstance(source, RecordedBackbone) else None,
                )

    @property
    def recorder(self) -> Recorder | None:
        """The writer of the recording that the settings ask for; None where they ask for none."""
        if self.settings.record is None or self.observed is None:
            return None
        return Recorder(Path(self.settings.record), self.observed, self.replies)

    def runner(
        self, inputs: QuestionInputs, *, run: str = "", reruns: Mapping[str, RerunSpec] | None = None
    ) -> QuestionRunner:
        """Return the runner of the questions.

        Args:
            inputs: databases and demonstrations.
            run: id of the evaluation that the questions belong to, "" for none.
            reruns: how questions are run again, by question id.
        """
        # A recording needs every reply. For restored stages, the reply cache has only those of paid backbones.
        anew = self.settings.record is not None and not kind_of(self.settings.backbone).paid
        store = None if anew else self.results
        persistence = Persistence(store, self.task_runs, run, self.control.stop.is_set, reruns or {})
        return QuestionRunner(self.settings, inputs, self.tools, persistence)

    async def recorded(self, task_runs: int) -> int:
        """Wait until Prefect has recorded the flow run's task runs; return how many it has."""
        if not task_runs:
            return 0
        return await wait_until_recorded(flow_run_id(), task_runs, self.control)


def _pace(settings: BackboneSettings) -> Pace:
    now = datetime.datetime.now().astimezone()
    return Pace(next_time(settings.finish_by, now) if settings.finish_by else None)


def _observations(settings: EvaluationSettings, *, traced: bool) -> Observations | None:
    """Return where replies are kept for a recording, or for traces of replies that are not cached; else None."""
    traces = settings.tracking.failed_traces or settings.tracking.sample_traces
    traced = traced and bool(traces) and not kind_of(settings.backbone).paid
    recorded = settings.record is not None
    return Observations(recorded=recorded, traced=traced) if recorded or traced else None
