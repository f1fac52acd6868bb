"""A session: an evaluation or re-run with its resources, its scorer, and its records in MLflow and the warehouse."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from flows.evaluate.exchanges import cached_exchange
from flows.evaluate.pool import Answers, Score, answer_all, restore_everything
from flows.evaluate.preparation import Preparation
from flows.evaluate.runner import RerunSpec, Resources
from flows.evaluate.scorer import Scorable, Scorer, check_keys
from flows.prefect.artifacts import prefect_ui, show_result
from flows.prefect.flow_runs import server_answers, wait_until_recorded
from flows.runtime.control import Control, Interrupted
from flows.runtime.process import import_in_background
from tasks.backbone.recordings import Exchange
from tasks.core.errors import (
    BackboneError,
    ConfigurationError,
    CrosscheckError,
    DatabaseUnavailableError,
    ExtensionError,
)
from tasks.core.outcome import Outcome
from tasks.core.records import Question
from tasks.core.registry import own_sources
from tasks.core.wording import counted, money, shorten, size
from tasks.database.database import changed_on_servers, digests_of, product_of
from tasks.pages.first_screen import run_description
from tasks.pages.run_page import pages_with
from tasks.results.build_record import describe
from tasks.results.mlflow.package import Completion
from tasks.results.mlflow.traces import choose, is_failed, sample_of
from tasks.results.mlflow.tracker import Tracker, keep_record
from tasks.results.parameters import redact
from tasks.results.retention import size_of
from tasks.results.run_record import (
    DATABASES_CHANGED,
    GENERATED_DESCRIPTIONS,
    KINDS,
    NIGHT,
    TRAINING_QUESTIONS,
    RunRecord,
    TaskRunCounts,
    Unfinished,
)
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.cost import total_cost
from tasks.scoring.degradation import about_models
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import rules_beside
from tasks.scoring.execution.suite import open_suites
from tasks.scoring.scores import QuestionScore, is_right
from tasks.settings.home import Home
from tasks.settings.pipeline import oracle_settings
from tasks.stages import prompts

log = logging.getLogger(__name__)

WRITE_EVERY_S = 5.0
"""Interval of writes to the warehouse: a crash loses at most the scores of one interval, whose answers are cached."""
FIRST_CALLS_S = 0.3
"""Time for which the run is not yet begun in MLflow, so that the first model calls are sent before."""
NO_SHARDS = Answers()


class Tracing:
    """The traces of one evaluation.

    A nightly run traces an answer without its stages if it has the same verdict as in the previous run and did not
    fail: most of what nightly runs add to MLflow would be the same prompts.

    Replies of models are read from the reply cache. Those of the offline backbone and of recordings are not cached, so
    the backbone is observed; replies to a question are dropped when scoring shows that it is not traced.
    """

    def __init__(self, preparation: Preparation, resources: Resources, *, nightly: bool) -> None:
        self._settings = preparation.settings.tracking
        self._rule = preparation.settings.benchmark.rule
        self._replies = resources.replies
        self._observed = resources.observed
        executable = [
            question.id for question in preparation.questions if question.database_id in preparation.databases
        ]
        self._sample = sample_of(executable, self._settings.sample_traces)
        self._nightly = nightly
        # whether answers were right in the previous run, by question id; {} until that is known
        self.before: Mapping[str, bool] = {}
        self.remark = "no traces"  # which questions have a trace

    def scored(self, score: QuestionScore) -> None:
        """Drop the replies to a scored question that is not traced."""
        wrong = is_failed(score) or not is_right(score.final, self._rule)
        traced = wrong or self._flipped(score) or score.question.id in self._sample
        if self._observed and (self._unchanged(score) or not traced):
            self._observed.drop(score.question.id)

    def _flipped(self, score: QuestionScore) -> bool:
        """Return whether the previous run has another verdict on the answer."""
        right = is_right(score.final, self._rule)
        return self.before.get(score.question.id, right) is not right

    def _unchanged(self, score: QuestionScore) -> bool:
        """Return whether a nightly run has the same verdict as the previous run on an answer that did not fail."""
        was_scored = self._nightly and score.question.id in self.before
        return was_scored and not is_failed(score) and not self._flipped(score)

    def write(self, tracker: Tracker, record: RunRecord) -> str:
        """Write the traces of a run; return why there are none, as a sentence, "" where there are."""
        settings = self._settings
        choice = choose(
            record,
            failed=settings.failed_traces,
            sample=settings.sample_traces,
            every=settings.genai_evaluation,
            flipped={row.question.id for row in record.rows if self._flipped(row)},
            unchanged={row.question.id for row in record.rows if self._unchanged(row)},
        )
        problem = tracker.trace(choice, self._exchange)
        if problem:
            return f"MLflow has no traces of this run: {problem}"
        self.remark = str(choice)
        return ""

    def _exchange(self, question: str, key: str) -> Exchange | None:
        observed = self._observed.exchange(question, key) if self._observed else None
        return observed or cached_exchange(self._replies, key)


class Session:
    """An evaluation whose answers are scored against the gold SQL.

    Scores are written to the warehouse while it goes on; MLflow gets the run at its beginning and end.
    """

    def __init__(
        self, preparation: Preparation, resources: Resources, scorable: Scorable, run: RunRecord
    ) -> None:
        self.preparation = preparation
        self.resources = resources
        self.run = run
        settings, progress = preparation.settings.benchmark, resources.control.progress
        rules = rules_beside(settings.rule)
        judge = Judge(resources.tools.workers, rules, settings.timeout_s, resources.verdicts)
        self.scorer = Scorer(scorable, judge, on_score=self._queue, progress=progress)
        self._home = Home(Path(preparation.settings.home))
        self._tracing = Tracing(preparation, resources, nightly=NIGHT in run.tags)
        self._tracker = Tracker(self._home)
        self._warehouse = Warehouse(self._home.warehouse)
        self._unwritten: list[QuestionScore] = []
        self._writing: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._started = time.monotonic()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, preparation: Preparation, control: Control, tags: Mapping[str, str], *, inputs: str = ""
    ) -> "AsyncIterator[Session]":
        """Start a run with further tags; if the block raises, its records contain the status and the reason."""
        settings = preparation.settings
        async with Resources.open(settings, control, traced=True) as resources:
            preparation = replace(preparation, settings=resources.settings)
            benchmark, databases = preparation.benchmark, preparation.databases
            suites = open_suites(benchmark, databases)
            scorable = Scorable(benchmark, preparation.questions, databases, suites)
            await check_keys(scorable, resources.tools.workers, control.progress)
            session = cls(preparation, resources, scorable, _describe(preparation, tags, inputs))
            await session._start()
            try:
                yield session
            except Interrupted:
                await session._abandon(
                    "the user stopped it; run the same command again to continue.", "interrupted"
                )
                raise
            except BaseException as error:
                await session._abandon(str(error) or type(error).__name__, "failed")
                raise

    async def _start(self) -> None:
        """Begin the run in the warehouse and in MLflow, in the latter after the first model calls if possible."""
        may_start_later = self._tracker.may_start_later(self.run)
        self._starting = asyncio.create_task(self._start_tracker(FIRST_CALLS_S if may_start_later else 0))
        if not may_start_later:
            await self._starting
        try:
            self._tracing.before = await asyncio.to_thread(self._warehouse.verdicts_before, self.run)
            await asyncio.to_thread(self._warehouse.start, self.run)
        except CrosscheckError as error:
            await self._starting
            await asyncio.to_thread(self._tracker.abandon, str(error))
            raise
        self.resources.control.register(run=self.run.run_id)

    async def _start_tracker(self, delay_s: float) -> None:
        """Begin the run in MLflow after so many seconds, or earlier if the session ends before."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), delay_s)
        await asyncio.to_thread(import_in_background().join)

        def register(mlflow_run: str) -> None:
            # at once: if the process is killed, the next one ends the run in MLflow
            self.resources.control.register(mlflow_run=mlflow_run, tracking_uri=self._tracker.store.uri)

        await asyncio.to_thread(self._tracker.start, self.run, register)

    def restore_everything(self) -> Awaitable[dict[str, Outcome] | None]:
        """Restore all questions if every stage has a persisted result; None if one would have to run."""
        runner = self.resources.runner(self.preparation.inputs, run=self.run.run_id)
        return restore_everything(self.preparation.answerable, runner)

    def answer(
        self,
        questions: Sequence[Question],
        *,
        score: Score | None = None,
        reruns: Mapping[str, RerunSpec] | None = None,
        shards: Answers | None = None,
        restored: Mapping[str, Outcome] | None = None,
    ) -> Awaitable[Answers]:
        """Run questions through the pipeline and score them; `shards` and `restored` are as in `answer_all`."""
        runner = self.resources.runner(self.preparation.inputs, run=self.run.run_id, reruns=reruns)
        # known only now: the runner imports the pipeline
        self.run = self.run.model_copy(update={"sources": prompts.digests() | own_sources()})
        control = self.resources.control
        self._writing = asyncio.create_task(self._write_periodically())
        return answer_all(questions, runner, control, score or self.scorer.score, shards, restored)

    def _queue(self, score: QuestionScore) -> None:
        self._unwritten.append(score)
        self._tracing.scored(score)

    def note(self, facts: Mapping[str, Any]) -> None:
        """Write fields of the record of the run that goes on, in the warehouse, until its end replaces them."""
        self._warehouse.note(self.run.run_id, facts)

    async def finish(
        self,
        answers: Answers,
        *,
        facts: Mapping[str, Any],
        tags: Mapping[str, str] | None = None,
        shards: Answers = NO_SHARDS,
    ) -> RunRecord:
        """Log the run, while Prefect records the last task runs, and return its record.

        `facts` are further fields of the record, which MLflow and the warehouse get as well; `tags` are known only now.
        """
        settings = self.preparation.settings
        efficiency = await self.scorer.measure_efficiency() if settings.benchmark.efficiency else None
        changed = await asyncio.to_thread(self._changed_databases)
        changed_tag = {DATABASES_CHANGED: shorten(changed, 5)} if changed else {}
        self.run = self.run.model_copy(update={"tags": {**self.run.tags, **(tags or {}), **changed_tag}})
        record = self.scorer.record(
            self.run,
            efficiency,
            link_all=bool(self.preparation.schema_only),
            candidates=settings.pipeline.candidates,
            fatal=answers.fatal,
            status="partial" if answers.fatal else "complete",
        )
        problem, recorded = await asyncio.gather(
            self._trace(record), wait_until_recorded(answers.task_runs, self.resources.control)
        )
        same_run = "" if "rerun" in facts else await asyncio.to_thread(self._repeated_run, record)
        model_note = about_models((row.outcome for row in record.rows), self.run.settings_of("pipeline"))
        completion = Completion(
            seconds=answers.ended - self._started,
            prefect=TaskRunCounts(answers.task_runs + shards.task_runs, recorded + shards.recorded),
            facts={**facts, "same_as": same_run or None},
            describe=run_description,
            pages=pages_with(self.scorer.schemas),
            remarks=tuple(filter(None, (self._tracing.remark, model_note))),
            genai_evaluation=settings.tracking.genai_evaluation,
        )
        record = await asyncio.to_thread(self._tracker.finish, record, completion)
        record = await self._keep(record, same_run, record.mlflow.problem or problem, model_note)
        control = self.resources.control
        control.result = record
        if control.flow_run and await server_answers(control):
            control.prefect = prefect_ui(self._home, control)
            await show_result(record)
        return record

    async def _trace(self, record: RunRecord) -> str:
        await self._stop_writing()
        self.resources.control.progress.step("Logging to MLflow")
        if self._starting:
            await self._starting
        return await asyncio.to_thread(self._tracing.write, self._tracker, record)

    async def _keep(self, record: RunRecord, same_run: str, problem: str, model_note: str) -> RunRecord:
        """Write the record to the warehouse, and return it with all notes."""
        notes = [*self.preparation.notes, *self.resources.control.progress.notes]
        if same_run:
            notes.append(
                f"The same as run {same_run}: settings and answers are equal, every answer was kept, and nothing was "
                "paid."
            )
        notes += [problem, model_note]
        if demonstrations := self.preparation.demonstrations:
            record = record.model_copy(update={"remarks": (*record.remarks, demonstrations)})
        record = await asyncio.to_thread(keep_record, record, notes, self._warehouse, self._tracker.store)
        return record.with_notes((*record.notes, await asyncio.to_thread(self._too_large)))

    def _repeated_run(self, record: RunRecord) -> str:
        """Return the id of an earlier run of which this one is a repetition without a paid call, "" if of none."""
        if record.cost.calls:
            return ""
        try:
            return self._warehouse.same_answers(self.run, record.rows)
        except CrosscheckError:
            return ""

    def _too_large(self) -> str:
        """Return a remark if the working folder is larger than its limit, or of unknown size, else ""."""
        limit = self.preparation.settings.tracking.folder_limit_gb
        try:
            used_bytes = size_of(self._home.path)
        except OSError as error:
            return f"The size of the working folder is unknown: {error.filename}: {error.strerror}."
        if used_bytes <= limit * 1e9:
            return ""
        return (
            f"The working folder has {size(used_bytes)}, more than {limit:g} GB (tracking.folder_limit_gb): "
            '"crosscheck clean --dry-run" shows what can be removed.'
        )

    async def _abandon(self, reason: str, status: Unfinished) -> None:
        """Record that the run ended without a report; one that is logged stays as it is."""
        result = self.resources.control.result
        if result is not None and result.run_id == self.run.run_id:  # the run is logged
            return
        await self._stop_writing()
        await self._write()
        if self._starting:  # MLflow can only end a run that it has begun
            await self._starting
        tracked = await asyncio.to_thread(self._tracker.abandon, reason, status)
        self.resources.control.recorded = not tracked.problem
        try:
            await asyncio.to_thread(self._warehouse.abandon, self.run.run_id, status)
        except CrosscheckError as error:
            self.resources.control.recorded = False
            log.warning(
                "the warehouse cannot record that run %s has ended (%s): %s", self.run.run_id, status, error
            )
        if self.resources.control.flow_run:
            # Otherwise Prefect would try for a minute to end the flow run at a server that is gone.
            await server_answers(self.resources.control)

    async def _write_periodically(self) -> None:
        while not self._ending.is_set():
            try:
                await asyncio.wait_for(self._ending.wait(), WRITE_EVERY_S)
            except TimeoutError:
                await self._write()

    async def _write(self) -> None:
        """Write the queued scores to the warehouse; those that cannot be written stay queued."""
        scores = self._unwritten
        self._unwritten = []
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

    def raise_if_nothing_was_answered(self, answers: Answers) -> None:
        """Raise the reason if every question failed, instead of a score of 0 %; it says what was paid until then."""
        outcomes = answers.outcomes.values()
        failures = [outcome.failure for outcome in outcomes if outcome.failure]
        if not failures or len(failures) < len(outcomes):
            return
        if own_failures := [failure for failure in failures if failure.kind == "extension_error"]:
            raise ExtensionError(
                f"{own_failures[0].message}. This failed {len(own_failures):,} of "
                f"{counted(len(outcomes), 'question')}, and no question has an answer. The tracebacks are in "
                f"crosscheck.log in the working folder.{self._note_paid(outcomes)}"
            )
        if all(failure.kind == "internal_error" for failure in failures):
            raise RuntimeError(
                f"every question failed; the first: {failures[0].message}{self._note_paid(outcomes)}"
            )
        # Calls that had replies are a result, such as a model that never writes SQL, unless the endpoint broke off.
        if any(record.calls for outcome in outcomes for record in outcome.stages):
            if answers.fatal:
                raise BackboneError(f"{answers.fatal}{self._note_paid(outcomes)}", transient=True, fatal=True)
            return
        if refusals := [failure.message for failure in failures if failure.fatal and not failure.transient]:
            raise ConfigurationError(refusals[0])
        if unavailable := [failure.message for failure in failures if failure.kind == "database_unavailable"]:
            raise DatabaseUnavailableError(unavailable[0])
        no_replies = [failure for failure in failures if failure.kind == "backbone_error"]
        if transient := [failure for failure in no_replies if failure.transient]:
            raise BackboneError(transient[0].message, transient=True)
        if no_replies:  # such as questions that a recording does not have: no repetition helps
            raise ConfigurationError(no_replies[0].message)

    def _changed_databases(self) -> tuple[str, ...]:
        """Return the databases of the selected questions that changed on their server, and note it for the user."""
        used = {question.database_id for question in self.preparation.answerable}
        changed = changed_on_servers(
            [database for name, database in self.preparation.databases.items() if name in used]
        )
        if changed:
            self.resources.control.progress.note(
                f"{counted(len(changed), 'database')} changed on the server during this run: {shorten(changed, 5)}. "
                "Some answers may be scored on the old content, others on the new. Run the same command again to "
                "evaluate the new content."
            )
        return changed

    def _note_paid(self, outcomes: Iterable[Outcome]) -> str:
        """Note in the warehouse what a run without a report has paid; return it as a sentence, "" for nothing."""
        cost = total_cost([record for outcome in outcomes for record in outcome.stages])
        if not cost.calls:
            return ""
        with suppress(CrosscheckError):  # the sentence says it in any case
            self.note({"cost": {"calls": cost.calls, "cost_usd": cost.cost_usd}})
        calls = counted(cost.calls, "call")
        return f" Paid until then, by run {self.run.run_id}: {calls}, cost {money(cost.cost_usd)}."


def _describe(preparation: Preparation, tags: Mapping[str, str], inputs: str) -> RunRecord:
    settings, benchmark = preparation.settings, preparation.benchmark
    tags = dict(tags)
    if settings.changed:
        tags["changed"] = str(redact(" ".join(settings.changed)))
    if oracles := oracle_settings(settings.pipeline):  # such a run is not ranked
        tags["oracle"] = ", ".join(setting.partition("=")[2] for setting in oracles)
    if preparation.generated:
        tags[GENERATED_DESCRIPTIONS] = preparation.generated
    if source := preparation.search.source:
        tags[TRAINING_QUESTIONS] = source
    return describe(
        {kind: getattr(settings, kind).model_dump(mode="json") for kind in KINDS},
        benchmark.question_files,
        engine=product_of(preparation.databases),
        questions_in_benchmark=len(benchmark.questions),
        tags=tags,
        keys={key.name: key.sha256 for key in benchmark.keys},
        databases=digests_of(preparation.databases),
        inputs=inputs,
    )
