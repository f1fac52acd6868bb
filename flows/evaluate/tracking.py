"""Records of an evaluation: in the warehouse while it runs, in MLflow at its beginning and end."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple

from flows.evaluate.exchanges import cached_exchange
from flows.evaluate.pool import Answers
from flows.evaluate.preparation import Preparation
from flows.evaluate.resources import Resources
from flows.runtime.control import Interrupted
from flows.runtime.process import import_in_background
from tasks.backbone.cache.store import ReplyCache
from tasks.backbone.recordings import Exchange, Observations
from tasks.core.errors import CrosscheckError
from tasks.core.wording import size
from tasks.database.database import digests_of, product_of
from tasks.results.build_record import describe
from tasks.results.mlflow.package import Completion
from tasks.results.mlflow.standing import log_standing
from tasks.results.mlflow.trace_choice import choose, is_failed, sample_of
from tasks.results.mlflow.tracker import Tracker
from tasks.results.parameters import redact
from tasks.results.retention import size_of
from tasks.results.run_record import GENERATED_DESCRIPTIONS, KINDS, NIGHT, RunRecord, Unfinished
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.degradation import about_models
from tasks.scoring.report import QuestionScore, Report, is_right
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tasks.settings.pipeline import oracle_settings


class Traced(NamedTuple):
    """What came of writing the traces of a run."""

    remark: str
    """Which questions have a trace, for the run's description."""
    problem: str
    """Why there are none, as a sentence; "" where there are."""


class Tracing:
    """The traces of one evaluation.

    A nightly run traces an answer without its stages if it has the same verdict as in the run before, unless it failed:
    most of what nightly runs add to MLflow would be the same prompts.

    Attributes:
        before: whether answers were right in the run before, by question id; {} until that is known.

    Replies of models are read from the reply cache. Those of the offline backbone and of recordings are not cached, so
    the backbone is observed; replies to a question are dropped when scoring shows that it is not traced.
    """

    def __init__(
        self,
        preparation: Preparation,
        replies: ReplyCache,
        observed: Observations | None,
        *,
        nightly: bool = False,
    ) -> None:
        self._settings = preparation.settings.tracking
        self._rule = preparation.settings.benchmark.rule
        self._replies = replies
        self._observed = observed
        self._sample = sample_of(
            (question.id for question in preparation.executable), self._settings.sample_traces
        )
        self._nightly = nightly
        self.before: Mapping[str, bool] = {}

    def scored(self, score: QuestionScore) -> None:
        """Drop the replies to a scored question that is not traced."""
        wrong = is_failed(score) or not is_right(score.final, self._rule)
        traced = wrong or self._flipped(score) or score.question.id in self._sample
        if self._observed and (self._unchanged(score) or not traced):
            self._observed.drop(score.question.id)

    def _flipped(self, score: QuestionScore) -> bool:
        right = is_right(score.final, self._rule)
        return self.before.get(score.question.id, right) is not right

    def _unchanged(self, score: QuestionScore) -> bool:
        """Return whether a nightly run has the same verdict as the run before on an answer that did not fail."""
        known = self._nightly and score.question.id in self.before
        return known and not is_failed(score) and not self._flipped(score)

    def write(self, tracker: Tracker, report: Report) -> Traced:
        """Write the traces of a run."""
        settings = self._settings
        choice = choose(
            report,
            failed=settings.failed_traces,
            sample=settings.sample_traces,
            brief=len(report.rows) if settings.genai_evaluation else settings.brief_traces,
            flipped={row.question.id for row in report.rows if self._flipped(row)},
            unchanged={row.question.id for row in report.rows if self._unchanged(row)},
        )
        problem = tracker.trace(choice, self._exchange)
        if problem:
            return Traced("no traces", f"MLflow has no traces of this run: {problem}")
        return Traced(str(choice), "")

    def _exchange(self, question: str, key: str) -> Exchange | None:
        if self._observed and (exchange := self._observed.exchange(question, key)):
            return exchange
        return cached_exchange(self._replies, key)


log = logging.getLogger(__name__)

WRITE_EVERY_S = 5.0
"""Interval of writes to the warehouse: a crash loses at most these scores; the answers are cached before."""
FIRST_CALLS_S = 0.3
"""Time for which the run is not yet begun in MLflow, so that the first model calls are sent before."""


class Tracking:
    """The records of one evaluation."""

    def __init__(self, run: RunRecord, preparation: Preparation, home: Home, resources: Resources) -> None:
        self.run = run
        self._preparation = preparation
        self._home = home
        self._control = resources.control
        self._tracing = Tracing(preparation, resources.replies, resources.observed, nightly=NIGHT in run.tags)
        self._tracker = Tracker(home)
        self._warehouse = Warehouse(home.warehouse)
        self._unwritten: list[QuestionScore] = []
        self._writing: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        preparation: Preparation,
        home: Home,
        resources: Resources,
        tags: Mapping[str, str],
        inputs: str = "",
    ) -> "AsyncIterator[Tracking]":
        """Start a run with these further tags in MLflow and in the warehouse, with the status "running".

        `inputs` is as in `RunRecord`.

        If the block raises, both record the status and the reason.
        """
        settings, benchmark = preparation.settings, preparation.benchmark
        run = describe(
            {kind: getattr(settings, kind).model_dump(mode="json") for kind in KINDS},
            benchmark.question_files,
            engine=product_of(preparation.databases),
            questions_in_benchmark=len(benchmark.questions),
            tags={**tags, **_changed(settings), **_warnings(settings), **_generated(preparation)},
            keys={key.name: key.sha256 for key in benchmark.keys},
            databases=digests_of(preparation.databases),
            inputs=inputs,
        )
        tracking = cls(run, preparation, home, resources)
        await tracking._start()
        try:
            yield tracking
        except Interrupted:
            await tracking._abandon(
                "the user stopped it; run the same command again to continue.", "interrupted"
            )
            raise
        except BaseException as error:
            await tracking._abandon(str(error) or type(error).__name__, "failed")
            raise

    async def _start(self) -> None:
        later = self._tracker.may_start_later(self.run)
        self._starting = asyncio.create_task(self._start_tracker(FIRST_CALLS_S if later else 0))
        if not later:
            await self._starting
        try:
            self._tracing.before = await asyncio.to_thread(self._warehouse.verdicts_before, self.run)
            await asyncio.to_thread(self._warehouse.start, self.run)
        except CrosscheckError as error:
            await self._starting
            await asyncio.to_thread(self._tracker.abandon, str(error))
            raise
        self._control.register(run=self.run.run_id)
        self._writing = asyncio.create_task(self._write_periodically())

    async def _start_tracker(self, delay_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), delay_s)
        import_in_background()
        await asyncio.to_thread(self._tracker.start, self.run, self._register)

    def _register(self, mlflow_run: str) -> None:
        """Note the run at once: if the process is killed, the next one ends it in MLflow."""
        self._control.register(mlflow_run=mlflow_run, tracking_uri=self._tracker.store.uri)

    def record(self, score: QuestionScore) -> None:
        """Queue a scored question for the next write to the warehouse."""
        self._unwritten.append(score)
        self._tracing.scored(score)

    def note(self, facts: Mapping[str, Any]) -> None:
        """Write fields of the record of the run that goes on, in the warehouse, until its end replaces them."""
        self._warehouse.note(self.run.run_id, facts)

    async def trace(self, report: Report) -> Traced:
        """Write the traces to MLflow."""
        await self._stop_writing()
        self._control.progress.step("Logging to MLflow")
        if self._starting:
            await self._starting
        return await asyncio.to_thread(self._tracing.write, self._tracker, report)

    async def finish(
        self, report: Report, answers: Answers, traced: Traced, completion: Completion
    ) -> RunRecord:
        """Log the run, and return its record; what the records themselves know is added to the completion."""
        self.run = self.run.model_copy(update={"tags": {**self.run.tags, **completion.tags}})
        status = "partial" if answers.fatal else "complete"
        same = await asyncio.to_thread(self._same, report) if "rerun" not in completion.facts else ""
        pipeline = self.run.settings_of("pipeline")
        models = about_models((row.outcome for row in report.rows), pipeline)
        record = await asyncio.to_thread(
            self._tracker.finish,
            report,
            replace(
                completion,
                status=status,
                facts={**completion.facts, "same_as": same or None, "fatal": answers.fatal},
                remarks=tuple(filter(None, (traced.remark, models))),
                genai_evaluation=self._preparation.settings.tracking.genai_evaluation,
            ),
        )
        notes = [*self._preparation.notes, *self._control.progress.notes, _nothing_paid(same)]
        notes += [record.mlflow.problem or traced.problem, models]
        if checked := self._preparation.demonstrations:
            record = record.model_copy(update={"remarks": (*record.remarks, checked)})
        try:
            await asyncio.to_thread(self._warehouse.finish, record.with_notes(notes))
        except CrosscheckError as error:
            notes.append(f"The warehouse does not have this run: {error}")
        else:
            await asyncio.to_thread(log_standing, self._tracker.store, self._warehouse, record)
        notes.append(await asyncio.to_thread(self._too_large))
        return record.with_notes(notes)

    def _same(self, report: Report) -> str:
        """Return the id of an earlier run of which this one is a repetition without a paid call, "" if of none."""
        if report.cost.calls:
            return ""
        try:
            return self._warehouse.same_answers(self.run, report.rows)
        except CrosscheckError:
            return ""

    def _too_large(self) -> str:
        """Return a remark if the working folder is larger than its limit, or of unknown size, else ""."""
        limit = self._preparation.settings.tracking.folder_limit_gb
        try:
            used = size_of(self._home.path)
        except OSError as error:
            return f"The size of the working folder is unknown: {error.filename}: {error.strerror}."
        if used <= limit * 1e9:
            return ""
        return (
            f"The working folder has {size(used)}, more than {limit:g} GB (tracking.folder_limit_gb): "
            '"crosscheck clean --dry-run" shows what can be removed.'
        )

    async def _abandon(self, reason: str, status: Unfinished) -> None:
        await self._stop_writing()
        await self._write()
        if self._starting:
            await self._starting
        await asyncio.to_thread(self._tracker.abandon, reason, status)
        try:
            await asyncio.to_thread(self._warehouse.abandon, self.run.run_id, status)
        except CrosscheckError as error:
            log.warning(
                "the warehouse cannot record that run %s has ended (%s): %s", self.run.run_id, status, error
            )

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
            await asyncio.to_thread(self._warehouse.append_questions, self.run, scores)
        except CrosscheckError as error:
            log.warning("%d scores could not be written to the warehouse yet: %s", len(scores), error)
            self._unwritten = scores + self._unwritten

    async def _stop_writing(self) -> None:
        """Stop periodic writing and wait for the current write, whose thread would otherwise outlast the final one."""
        self._ending.set()
        if self._writing:
            await self._writing
            self._writing = None


def _nothing_paid(same: str) -> str:
    return same and (
        f"The same as run {same}: settings and answers are equal, every answer was kept, and nothing was paid."
    )


def _changed(settings: EvaluationSettings) -> dict[str, str]:
    """Return the tag with the settings that differ from the defaults."""
    return {"changed": str(redact(" ".join(settings.changed)))} if settings.changed else {}


def _generated(preparation: Preparation) -> dict[str, str]:
    """Return the tag with the column descriptions that a backbone wrote."""
    return {GENERATED_DESCRIPTIONS: preparation.generated} if preparation.generated else {}


def _warnings(settings: EvaluationSettings) -> dict[str, str]:
    """Return tags that keep a run from being ranked."""
    given = oracle_settings(settings.pipeline)
    return {"oracle": ", ".join(each.partition("=")[2] for each in given)} if given else {}
