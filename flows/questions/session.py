"""Resources of a run of questions, and the factory of its question runner."""

import datetime
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from flows.orchestration.flow_runs import flow_run_id
from flows.orchestration.stage_results import PersistedResults, open_results
from flows.orchestration.stage_task_runs import TaskRuns
from flows.orchestration.task_runs import BatchRuns, wait_until_recorded
from flows.questions.candidate_backbones import open_writers, writer_settings
from flows.questions.eliminator import open_eliminator
from flows.questions.recording import Recorder
from flows.questions.runner import Persistence, QuestionInputs, QuestionRunner, RerunSpec, Tools
from flows.runtime.control import Control
from tasks.backbone.batches.backbone import unseen
from tasks.backbone.cache.store import ReplyCache, open_reply_cache
from tasks.backbone.check.known import KnownEndpoints
from tasks.backbone.endpoint.formats.identity import address_of
from tasks.backbone.kinds.kind import kind_of
from tasks.backbone.kinds.opening import Layers, open_backbone, source_of, with_response_mode
from tasks.backbone.pace import Pace
from tasks.backbone.recordings.observed import Observations
from tasks.backbone.recordings.replay import RecordedBackbone, Served
from tasks.backbone.tiers import BATCH
from tasks.core.times import next_time
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.verdict_cache import VerdictCache
from tasks.settings.backbone import BackboneSettings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home, find_replies

BATCHES = (
    "Requests are submitted in batches, each of which the provider answers within 24 hours; where a stage needs the "
    "answer of the one before, one batch follows the other"
)


@dataclass(frozen=True)
class Session:
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
    ) -> "AsyncIterator[Session]":
        """Open the resources of one run, and close them in reverse order, calls in flight first.

        Args:
            settings: settings of the evaluation.
            control: progress, stop requests and budget.
            persistent: whether stages run as Prefect tasks, whose results are persisted, and are restored.
            in_prefect: whether a flow is running; otherwise persistent stages can only be restored.
            traced: whether MLflow gets traces of the questions.

        Raises:
            CrosscheckError: what cannot be opened, and what to do about it.
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
            batches = BatchRuns() if persistent and in_prefect else None
            if settings.backbone.tier == BATCH:
                control.progress.step(BATCHES)
            layers = Layers(
                cache=replies,
                budget=control.budget,
                observations=observations,
                endpoints=known,
                pace=pace,
                shown=batches or unseen,
                report=control.progress.step,
                stop_now=control.stop_now,
                given_up=control.give_up,
            )
            own_settings = await with_response_mode(settings.backbone, layers)
            settings = settings.model_copy(update={"backbone": own_settings})
            found = writer_settings(settings)
            async with (
                SqlWorkers() as workers,
                open_backbone(found.own, layers) as own,
                open_eliminator(settings, own, layers) as eliminator,
                open_writers(found, own, layers) as writers,
            ):
                source = source_of(own)
                yield cls(
                    settings=settings,
                    control=control,
                    tools=Tools(own, workers, eliminator, writers, found.temperature, pace, batches),
                    replies=replies,
                    verdicts=verdicts,
                    results=results,
                    task_runs=TaskRuns(results) if results and in_prefect else None,
                    observed=observations,
                    served=source.served if isinstance(source, RecordedBackbone) else None,
                )

    @property
    def batch_seconds(self) -> list[float]:
        """How long earlier batches at the backbone's endpoint took, in seconds."""
        kept = self.replies.batches(address_of(self.settings.backbone)).kept()
        return [each.seconds for each in kept if each.seconds is not None]

    @property
    def recorder(self) -> Recorder | None:
        """The writer of the recording that the settings ask for; None where they ask for none."""
        if self.settings.record is None or self.observed is None:
            return None
        return Recorder(Path(self.settings.record), self.observed, self.replies)

    def runner(
        self, inputs: QuestionInputs, *, run: str = "", reruns: Mapping[str, RerunSpec] | None = None
    ) -> QuestionRunner:
        """Return the runner of this session's questions.

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
    wanted = settings.tracking.failed_traces or settings.tracking.sample_traces
    traced = traced and bool(wanted) and not kind_of(settings.backbone).paid
    recorded = settings.record is not None
    return Observations(recorded=recorded, traced=traced) if recorded or traced else None
