"""Keeps what an evaluation finds: in the warehouse while it runs, in MLflow at its beginning and end."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from prefect.runtime import flow_run

from flows.evaluation.tracing import BoughtReplies, Tracing
from flows.orchestration.killed_runs import note_run
from flows.orchestration.pages import prefect_command, prefect_page
from flows.questions.pool import Answers
from flows.questions.preparation import Preparation
from flows.report.result import Evaluated
from flows.runtime.control import Control, Interrupted
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
"""A crash loses the scores of at most this long from the warehouse; the answers are in the caches before that."""


class Tracking:
    """The records of one evaluation."""

    def __init__(
        self,
        run: EvaluationRun,
        preparation: Preparation,
        home: Home,
        control: Control,
        replies: BoughtReplies,
    ) -> None:
        self.run = run
        self._preparation = preparation
        self._home = home
        self._control = control
        self.tracing = Tracing(preparation, replies)
        self._tracker = Tracker(home)
        self._warehouse = Warehouse(home.warehouse)
        self._unwritten: list[QuestionScore] = []
        self._writing: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def of(
        cls,
        preparation: Preparation,
        home: Home,
        control: Control,
        replies: BoughtReplies,
        tags: Mapping[str, str] | None = None,
    ) -> "AsyncIterator[Tracking]":
        """Begin: a run in MLflow and in the warehouse that says it is running, so that a broken night is visible.

        Should the block be left by an exception, both say how the run ended, and why.

        Args:
            preparation: what is evaluated.
            home: the working folder.
            control: who hears of it.
            replies: replies that were paid for.
            tags: what else the run is known by.
        """
        tracking = await cls._start(preparation, home, control, replies, tags)
        try:
            yield tracking
        except Interrupted:
            await tracking._abandon("the user stopped it; the same command continues.", "KILLED")
            raise
        except BaseException as error:
            await tracking._abandon(str(error) or type(error).__name__, "FAILED")
            raise

    @classmethod
    async def _start(
        cls,
        preparation: Preparation,
        home: Home,
        control: Control,
        replies: BoughtReplies,
        tags: Mapping[str, str] | None = None,
    ) -> "Tracking":
        settings, benchmark = preparation.settings, preparation.benchmark
        run = describe(
            settings.benchmark.model_dump(mode="json"),
            settings.backbone.model_dump(mode="json"),
            settings.pipeline.model_dump(mode="json"),
            benchmark.folder / settings.benchmark.questions,
            questions_in_benchmark=len(benchmark.questions),
            tags={**(tags or {}), **_warnings(settings)},
        )
        tracking = cls(run, preparation, home, control, replies)
        tracked = await asyncio.to_thread(tracking._tracker.start, run)
        try:
            await asyncio.to_thread(tracking._warehouse.start, run)
        except CrosscheckError as error:
            await asyncio.to_thread(tracking._tracker.abandon, str(error))
            raise
        ids = {"flow_run": str(flow_run.id), "run": run.run_id}
        if tracked.run_id:
            ids |= {"mlflow_run": tracked.run_id, "tracking_uri": tracking._tracker.store.uri}
        note_run(**ids)
        tracking._writing = asyncio.create_task(tracking._write_now_and_then())
        return tracking

    def keep(self, score: QuestionScore) -> None:
        """Put a scored question into the warehouse, soon."""
        self._unwritten.append(score)
        self.tracing.heard(score)

    async def finish(
        self,
        report: Report,
        answers: Answers,
        recorded: int,
        seconds: float,
        facts: Mapping[str, Any] | None = None,
    ) -> Evaluated:
        """Log everything, and return what the command line shows.

        Args:
            report: every score.
            answers: how asking went.
            recorded: task runs that Prefect's server has.
            seconds: wall time.
            facts: what else the summary says.
        """
        await self._stop_writing()
        self._control.progress.step("Logging to MLflow")
        prefect = TaskRuns(answers.task_runs, recorded)
        status = "partial" if answers.fatal else "complete"
        traced, untraced = await asyncio.to_thread(self.tracing.write, self._tracker, report)
        tracked = await asyncio.to_thread(
            self._tracker.finish,
            report,
            seconds=seconds,
            prefect=prefect,
            status=status,
            facts=facts,
            remarks=[traced],
            genai_evaluation=self._preparation.settings.tracking.genai_evaluation,
        )
        told = self._tracker.summary
        problems = [tracked.problem or untraced]
        try:
            await asyncio.to_thread(self._warehouse.finish, self.run, report, told, status)
        except CrosscheckError as error:
            problems.append(f"The warehouse does not have this run: {error}")
        store = self._tracker.store
        notes = (*self._preparation.notes, *self._control.progress.notes, *problems)
        return Evaluated(
            report=report,
            summary=told,
            notes=tuple(note for note in notes if note),
            mlflow_command=ui_command(store) or f"MLflow's server answers at {store.shown}",
            mlflow_page=ui_url(store, tracked.experiment_id, tracked.run_id) if tracked.experiment_id else "",
            prefect_command=prefect_command(self._home),
            prefect_page=prefect_page(str(flow_run.id)),
            fatal=answers.fatal,
        )

    async def _abandon(self, reason: str, ending: Ending) -> None:
        await self._stop_writing()
        await self._write()
        await asyncio.to_thread(self._tracker.abandon, reason, ending)
        try:
            await asyncio.to_thread(self._warehouse.abandon, self.run.run_id)
        except CrosscheckError as error:
            log.warning("the warehouse does not know that run %s was abandoned: %s", self.run.run_id, error)

    async def _write_now_and_then(self) -> None:
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
            log.warning("%d scores wait for the warehouse: %s", len(scores), error)
            self._unwritten = scores + self._unwritten

    async def _stop_writing(self) -> None:
        """Wait for a write that is under way, too: a cancelled one would go on in its thread, past the final one."""
        self._ending.set()
        if self._writing:
            await self._writing
            self._writing = None


def _warnings(settings: EvaluationSettings) -> dict[str, str]:
    """Return tags that keep a run from being ranked."""
    dac = dac_of(settings.pipeline)
    return {"oracle": dac.oracle} if dac and has_oracle(settings.pipeline) else {}
