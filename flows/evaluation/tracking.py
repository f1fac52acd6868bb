"""Records of an evaluation: in the warehouse while it runs, in MLflow at its beginning and end."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from prefect.runtime import flow_run

from flows.evaluation.tracing import Tracing
from flows.orchestration.pages import prefect_command, prefect_page
from flows.questions.pool import Answers
from flows.questions.preparation import Preparation
from flows.questions.session import Session
from flows.report.result import EvaluationResult
from flows.runtime.control import Interrupted
from tasks.errors import CrosscheckError
from tasks.scoring.report import QuestionScore, Report
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tasks.settings.pipeline import dac_of, has_oracle
from tasks.tracking.evaluation import EvaluationRun, describe
from tasks.tracking.mlflow.run import Ending, Tracker
from tasks.tracking.mlflow.store import ui_command, ui_url
from tasks.tracking.summary import TaskRuns
from tasks.tracking.warehouse.runs import Warehouse

log = logging.getLogger(__name__)

WRITE_EVERY_S = 5.0
"""Interval of writes to the warehouse: a crash loses at most these scores; the answers are cached before."""


@dataclass(frozen=True)
class RunEnd:
    """Results of asking and scoring.

    Attributes:
        answers: outcomes of all questions.
        recorded: task runs that Prefect has recorded.
        seconds: wall time.
        facts: further keys of the summary.
    """

    answers: Answers
    recorded: int
    seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)


class Tracking:
    """The records of one evaluation."""

    def __init__(self, run: EvaluationRun, preparation: Preparation, home: Home, session: Session) -> None:
        self.run = run
        self._preparation = preparation
        self._home = home
        self._control = session.control
        self._tracing = Tracing(preparation, session.replies, session.observed)
        self._tracker = Tracker(home)
        self._warehouse = Warehouse(home.warehouse)
        self._unwritten: list[QuestionScore] = []
        self._writing: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, preparation: Preparation, home: Home, session: Session, tags: Mapping[str, str]
    ) -> "AsyncIterator[Tracking]":
        """Start a run in MLflow and in the warehouse, with the status "running".

        If the block raises, both record the status and the reason.

        Args:
            preparation: what is evaluated.
            home: the working folder.
            session: models, caches and SQL workers.
            tags: further MLflow tags.
        """
        settings, benchmark = preparation.settings, preparation.benchmark
        run = describe(
            settings.benchmark.model_dump(mode="json"),
            settings.backbone.model_dump(mode="json"),
            settings.pipeline.model_dump(mode="json"),
            benchmark.folder / settings.benchmark.questions,
            questions_in_benchmark=len(benchmark.questions),
            tags={**tags, **_warnings(settings)},
        )
        tracking = cls(run, preparation, home, session)
        await tracking._start()
        try:
            yield tracking
        except Interrupted:
            await tracking._abandon("the user stopped it; the same command continues.", "KILLED")
            raise
        except BaseException as error:
            await tracking._abandon(str(error) or type(error).__name__, "FAILED")
            raise

    async def _start(self) -> None:
        tracked = await asyncio.to_thread(self._tracker.start, self.run)
        try:
            await asyncio.to_thread(self._warehouse.start, self.run)
        except CrosscheckError as error:
            await asyncio.to_thread(self._tracker.abandon, str(error))
            raise
        ids = {"run": self.run.run_id}
        if tracked.run_id:
            ids |= {"mlflow_run": tracked.run_id, "tracking_uri": self._tracker.store.uri}
        self._control.register(**ids)
        self._writing = asyncio.create_task(self._write_periodically())

    def record(self, score: QuestionScore) -> None:
        """Queue a scored question for the next write to the warehouse."""
        self._unwritten.append(score)
        self._tracing.scored(score)

    async def finish(self, report: Report, end: RunEnd) -> EvaluationResult:
        """Log the run, and return its result."""
        await self._stop_writing()
        self._control.progress.step("Logging to MLflow")
        answers, prefect = end.answers, TaskRuns(end.answers.task_runs, end.recorded)
        status = "partial" if answers.fatal else "complete"
        traced, untraced = await asyncio.to_thread(self._tracing.write, self._tracker, report)
        tracked = await asyncio.to_thread(
            self._tracker.finish,
            report,
            seconds=end.seconds,
            prefect=prefect,
            status=status,
            facts=end.facts,
            remarks=[traced],
            genai_evaluation=self._preparation.settings.tracking.genai_evaluation,
        )
        found = self._tracker.summary
        problems = [tracked.problem or untraced]
        try:
            await asyncio.to_thread(self._warehouse.finish, self.run, report, found, status)
        except CrosscheckError as error:
            problems.append(f"The warehouse does not have this run: {error}")
        store = self._tracker.store
        notes = (*self._preparation.notes, *self._control.progress.notes, *problems)
        return EvaluationResult(
            report=report,
            summary=found,
            notes=tuple(note for note in notes if note),
            mlflow_command=ui_command(store) or f"MLflow's server answers at {store.shown}",
            mlflow_page=ui_url(store, tracked.experiment_id, tracked.run_id) if tracked.experiment_id else "",
            prefect_command=prefect_command(self._home, own_server=self._control.own_server),
            prefect_page=prefect_page(str(flow_run.id), own_server=self._control.own_server),
            fatal=answers.fatal,
        )

    async def _abandon(self, reason: str, ending: Ending) -> None:
        await self._stop_writing()
        await self._write()
        await asyncio.to_thread(self._tracker.abandon, reason, ending)
        try:
            await asyncio.to_thread(self._warehouse.abandon, self.run.run_id)
        except CrosscheckError as error:
            log.warning("the warehouse cannot record that run %s was abandoned: %s", self.run.run_id, error)

    async def _write_periodically(self) -> None:
        while not self._ending.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), WRITE_EVERY_S)
            await self._write()

    async def _write(self) -> None:
        scores, self._unwritten = self._unwritten, []
        if not scores:
            return
        try:
            await asyncio.to_thread(self._warehouse.append_questions, self.run.run_id, scores)
        except CrosscheckError as error:
            log.warning("%d scores could not be written to the warehouse yet: %s", len(scores), error)
            self._unwritten = scores + self._unwritten

    async def _stop_writing(self) -> None:
        """Stop periodic writing and wait for the current write, whose thread would otherwise outlast the final one."""
        self._ending.set()
        if self._writing:
            await self._writing
            self._writing = None


def _warnings(settings: EvaluationSettings) -> dict[str, str]:
    """Return tags that keep a run from being ranked."""
    dac = dac_of(settings.pipeline)
    return {"oracle": dac.oracle} if dac and has_oracle(settings.pipeline) else {}
