"""A session: an evaluation or re-run with its resources, its scorer, and its records in MLflow and the warehouse."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from flows.evaluate.backbones import candidate_setup
from flows.evaluate.pool import Answers, Score, answer_all
from flows.evaluate.preparation import Preparation
from flows.evaluate.resources import Resources
from flows.evaluate.runner import RerunSpec
from flows.evaluate.score_keys import check_keys
from flows.evaluate.scorer import Scorable, Scorer
from flows.evaluate.tracking import Tracking
from flows.prefect.artifacts import prefect_ui, show_result
from flows.prefect.task_runs import server_answers
from flows.runtime.control import Control
from tasks.core.errors import (
    BackboneError,
    ConfigurationError,
    CrosscheckError,
    DatabaseUnavailableError,
    ExtensionError,
)
from tasks.core.outcome import Outcome
from tasks.core.records import Question
from tasks.core.wording import counted, money, shorten
from tasks.database.database import changed_on_servers
from tasks.pages.run import run_description
from tasks.pages.run_page import page_with
from tasks.results.mlflow.package import Completion
from tasks.results.run_record import DATABASES_CHANGED, RunRecord, TaskRunCounts
from tasks.scoring.cost import total_cost
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import rules_beside
from tasks.scoring.execution.suite import open_suites
from tasks.settings.home import Home

NO_TAGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Session:
    """Resources whose answers are scored against the gold SQL and tracked in MLflow and the warehouse."""

    preparation: Preparation  # what is evaluated
    resources: Resources  # models, caches and SQL workers
    tracking: Tracking  # the run's records
    scorer: Scorer  # scores answers while others are still being asked
    started: float  # time of opening, by `time.monotonic`

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        preparation: Preparation,
        control: Control,
        tags: Mapping[str, str],
        *,
        inputs: str = "",
        in_prefect: bool = True,
    ) -> "AsyncIterator[Session]":
        """Open everything; if the block raises, the records contain the status and the reason.

        `inputs` is as in `RunRecord`, `in_prefect` as in `Resources.open`.
        """
        settings = preparation.settings
        async with AsyncExitStack() as opened:
            resources = await opened.enter_async_context(
                Resources.open(settings, control, in_prefect=in_prefect, traced=True)
            )
            settings = resources.settings
            preparation = replace(preparation, settings=settings)
            suites = open_suites(preparation.benchmark, preparation.databases)
            await check_keys(
                preparation.benchmark,
                preparation.questions,
                preparation.databases,
                resources.tools.workers,
                control.progress,
            )
            tracking = await opened.enter_async_context(
                Tracking.open(preparation, Home(Path(settings.home)), resources, tags, inputs)
            )
            rules, timeout_s = rules_beside(settings.benchmark.rule), settings.benchmark.timeout_s
            judge = Judge(resources.tools.workers, rules, timeout_s, resources.verdicts)
            scorer = Scorer(
                Scorable(preparation.benchmark, preparation.questions, preparation.databases, suites),
                judge,
                record=tracking.record,
                progress=control.progress,
            )
            yield cls(preparation, resources, tracking, scorer, time.monotonic())

    def answer(
        self,
        questions: Sequence[Question],
        *,
        score: Score | None = None,
        reruns: Mapping[str, RerunSpec] | None = None,
        given: Answers | None = None,
        restored: Mapping[str, Outcome] | None = None,
    ) -> Awaitable[Answers]:
        """Run questions through the pipeline and score them.

        Args:
            questions: those whose database or schema is known.
            score: awaited with each outcome; None: the scorer's own.
            reruns: how questions are asked again, by id.
            given: outcomes of shards: questions without an answer, which are not asked again.
            restored: outcomes that have been restored already; None: they are looked for.
        """
        runner = self.resources.runner(self.preparation.inputs, run=self.tracking.run.run_id, reruns=reruns)
        control = self.resources.control
        return answer_all(questions, runner, control, score or self.scorer.score, given, restored)

    async def finish(
        self,
        answers: Answers,
        *,
        facts: Mapping[str, Any],
        tags: Mapping[str, str] = NO_TAGS,
        elsewhere: int = 0,
        recorded: int = 0,
    ) -> RunRecord:
        """Log the run, while Prefect records the last task runs, and return its record.

        Args:
            answers: outcomes of all questions.
            facts: further fields of the record, which MLflow and the warehouse get as well.
            tags: further tags of the run, which are known only at its end.
            elsewhere: task runs of other flow runs (shards), included in `answers.task_runs`.
            recorded: how many of these Prefect has recorded.
        """
        measured = self.preparation.settings.benchmark.efficiency
        efficiency = await self.scorer.measure_efficiency() if measured else None
        changed = await asyncio.to_thread(self._changed_databases)
        report = self.scorer.report(
            efficiency,
            link_all=bool(self.preparation.schema_only),
            candidates=candidate_setup(self.preparation.settings),
        )
        seconds = time.monotonic() - self.started
        traced, own = await asyncio.gather(
            self.tracking.trace(report), self.resources.recorded(answers.task_runs - elsewhere)
        )
        completion = Completion(
            seconds=seconds,
            prefect=TaskRunCounts(answers.task_runs, recorded + own),
            facts=facts,
            describe=run_description,
            page=page_with(self.scorer.schemas),
            tags={**tags, DATABASES_CHANGED: shorten(changed, 5)} if changed else tags,
        )
        control = self.resources.control
        record = control.result = await self.tracking.finish(report, answers, traced, completion)
        if control.flow_run and await server_answers(control):
            control.prefect = prefect_ui(Home(Path(self.preparation.settings.home)), control)
            await show_result(record)
        return record

    def raise_if_nothing_was_answered(self, answers: Answers) -> None:
        """Raise the reason if every question failed, instead of a score of 0 %; it says what was paid until then.

        Raises:
            RuntimeError: a bug failed every question.
        """
        outcomes = answers.outcomes.values()
        failures = [outcome.failure for outcome in outcomes if outcome.failure]
        if not failures or len(failures) < len(outcomes):
            return
        if own := [failure for failure in failures if failure.kind == "extension_error"]:
            raise ExtensionError(
                f"{own[0].message}. This failed {len(own):,} of {counted(len(outcomes), 'question')}, and no question "
                "has an answer. The tracebacks are in crosscheck.log in the working folder."
                f"{self._note_paid(outcomes)}"
            )
        if all(failure.kind == "internal_error" for failure in failures):
            raise RuntimeError(
                f"every question failed; the first: {failures[0].message}{self._note_paid(outcomes)}"
            )
        if any(record.calls for outcome in outcomes for record in outcome.stages):
            if answers.fatal:
                raise BackboneError(f"{answers.fatal}{self._note_paid(outcomes)}", transient=True, fatal=True)
            return
        if refusals := [failure.message for failure in failures if failure.fatal and not failure.transient]:
            raise ConfigurationError(refusals[0])
        if gone := [failure.message for failure in failures if failure.kind == "database_unavailable"]:
            raise DatabaseUnavailableError(gone[0])
        if no_replies := [failure.message for failure in failures if failure.kind == "backbone_error"]:
            raise BackboneError(no_replies[0], transient=True)

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
            self.tracking.note({"cost": {"calls": cost.calls, "cost_usd": cost.cost_usd}})
        run = self.tracking.run.run_id
        return f" Paid until then, by run {run}: {counted(cost.calls, 'call')}, cost {money(cost.cost_usd)}."
