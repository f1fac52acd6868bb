"""The pool that runs all questions: restores what earlier runs answered, then asks the rest."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from flows.evaluate.runner import QuestionRunner
from flows.prefect.flow_runs import RecorderBackpressure
from flows.runtime.control import Control, Interrupted, Progress, for_each, until_done_or_stopped, waiting_for
from tasks.core.outcome import Failure, Outcome
from tasks.core.records import Question
from tasks.core.wording import agreeing, counted
from tasks.stages.question_run import Stopped

DEAD_AFTER = 3
"""Minimum number of questions that fail alike before the others are not tried: retries would take hours, and cost."""
MAX_RESTORING = 64
"""Number of questions restored at a time; remote storage has a network delay."""
UNDER_WAY = 1.5
"""Questions under way for each request that may be in flight: while one executes its SQL, another's request is sent."""
SCORERS = 4
"""Number of outcomes scored at a time."""


@dataclass
class Answers:
    """Outcomes of a pool."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)  # by question id
    restored: int = 0  # questions answered completely from persisted results
    task_runs: int = 0  # Prefect task runs that this took
    recorded: int = 0  # those of them that Prefect has recorded, of a shard
    launches: int = 0  # task runs of the evaluation itself that launched shards
    fatal: str = ""  # error message that ended the run early
    # when the last question had been answered and scored
    ended: float = field(default_factory=time.monotonic, compare=False)


Score = Callable[[Question, Outcome], Awaitable[None]]


async def answer_all(
    questions: Sequence[Question],
    runner: QuestionRunner,
    control: Control,
    score: Score,
    shards: Answers | None = None,
    restored: Mapping[str, Outcome] | None = None,
) -> Answers:
    """Run every question through the pipeline, with as many requests in flight as the backbone allows.

    `score` is awaited with each outcome, outside of the pool, so that scoring does not delay the backbone. `shards` has
    outcomes of other workers, which are not run again, `restored` those of earlier runs; None: a task run finds them.
    """
    answers = Answers(dict(shards.outcomes), fatal=shards.fatal) if shards else Answers()
    from_shards = dict(answers.outcomes)
    outcomes = restored
    if outcomes is None:
        outcomes = await restore_answers(
            [question for question in questions if question.id not in from_shards], runner
        )
        answers.task_runs += 1
    answers.restored = sum(map(_is_restored, outcomes.values()))
    control.progress.questions(len(questions), answers.restored)
    async with _scoring(score) as scored:
        for question in questions:
            if (outcome := from_shards.get(question.id) or outcomes.get(question.id)) is not None:
                answers.outcomes[question.id] = outcome
                if question.id in from_shards or not _is_restored(outcome):
                    _show(control.progress, outcome)
                scored(question, outcome)
        queue = [question for question in questions if question.id not in answers.outcomes]
        pool = _Pool(queue, runner, control, answers, scored)
        running: dict[asyncio.Task[Outcome], Question] = {}
        async with waiting_for(control.stop) as stop:
            while not control.stop.is_set():
                while queued := await pool.next(running.values()):
                    running[asyncio.create_task(runner.run(runner.question_run(queued)))] = queued
                if not running:
                    break
                await asyncio.wait({*running, stop}, return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in running if task.done()]:
                    await pool.add(running.pop(task), task)
        ending = [asyncio.create_task(pool.add(question, task)) for task, question in running.items()]
        await until_done_or_stopped(ending, control)
        pool.give_up()
        if task_runs := runner.task_runs:
            await task_runs.finish()
            answers.task_runs += task_runs.begun
    if control.stop.is_set():
        answered = len(answers.outcomes)
        raise Interrupted(
            f"stopped. {answered:,} of {counted(len(questions), 'question')} {agreeing('is', answered)} answered, and "
            "every reply that came is kept: run the same command again to continue.",
            control,
        )
    answers.ended = time.monotonic()
    return answers


async def restore_answers(questions: Sequence[Question], runner: QuestionRunner) -> dict[str, Outcome]:
    """Restore, in one task run, the questions whose every stage has a persisted result; return outcomes by id."""
    outcomes: dict[str, Outcome] = {}

    async def restore() -> None:
        outcomes.update(await _restore_all(questions, runner))

    assert runner.task_runs is not None
    await runner.task_runs.in_task_run("restore", "restore persisted results", restore)
    return outcomes


async def restore_everything(
    questions: Sequence[Question], runner: QuestionRunner
) -> dict[str, Outcome] | None:
    """Restore questions without Prefect; None as soon as one of them has a stage without a persisted result."""
    outcomes = await _restore_all(questions[:1], runner)
    if outcomes:
        outcomes |= await _restore_all(questions[1:], runner)
    return outcomes if len(outcomes) == len(questions) else None


async def _restore_all(questions: Sequence[Question], runner: QuestionRunner) -> dict[str, Outcome]:
    outcomes = await for_each(questions, runner.restore, at_once=MAX_RESTORING)
    return {question.id: outcome for question, outcome in zip(questions, outcomes, strict=True) if outcome}


def databases_first(questions: Sequence[Question]) -> list[Question]:
    """Return the questions with the first one of each database in front; the others keep their order.

    >>> queue = [Question(str(n), "", database) for n, database in enumerate("aabba")]
    >>> "".join(question.id for question in databases_first(queue))
    '02134'
    """
    first = {question.database_id: question for question in reversed(questions)}
    return sorted(questions, key=lambda question: first[question.database_id] is not question)


class _Pool:
    """The questions that are left to run, and what ends the run early."""

    def __init__(
        self,
        queue: list[Question],
        runner: QuestionRunner,
        control: Control,
        answers: Answers,
        scored: Callable[[Question, Outcome], None],
    ) -> None:
        self._runner = runner
        self._settings = runner.settings.backbone
        self._queue = databases_first(queue) if self._settings.fills_prefix_cache else queue
        self._ended: set[str] = set()  # databases of which a question has ended
        self._control = control
        self._answers = answers
        self._scored = scored
        self._with_reply = 0  # number of outcomes with a model call
        self._kinds: Counter[str] = Counter()  # number of outcomes by the kind of their failure, "" for none
        self._backpressure = RecorderBackpressure(control) if runner.task_runs else None
        runner.tools.pace.begin(len(queue))

    async def next(self, running: Collection[Question]) -> Question | None:
        """Take the next question; None where none is left, or those that are running have to end before."""
        max_running = int(UNDER_WAY * self._settings.most_in_flight)
        is_over = self._control.stop.is_set() or self._control.is_over(self._answers.fatal)
        if is_over or len(running) >= max_running:
            return None
        # The prompts of a database's first question fill the endpoint's prefix cache.
        being_filled = {question.database_id for question in running} - self._ended
        blocked = being_filled if self._settings.fills_prefix_cache else ()
        question = next((question for question in self._queue if question.database_id not in blocked), None)
        if question is None:
            return None
        self._queue.remove(question)
        if self._backpressure and self._runner.task_runs:
            await self._backpressure.wait(self._runner.task_runs.begun)
        return question

    async def add(self, question: Question, task: asyncio.Task[Outcome]) -> None:
        """Add the outcome of a question as soon as it is there, unless the user stopped it before."""
        with suppress(Stopped):
            outcome = await task
            self._runner.tools.pace.answered()
            self._ended.add(question.database_id)
            self._kinds[outcome.failure.kind if outcome.failure else ""] += 1
            self._with_reply += any(stage.calls for stage in outcome.stages)
            if outcome.failure and (outcome.failure.fatal or self._is_hopeless):
                self._answers.fatal = outcome.failure.message
            self._add(question, outcome)

    @property
    def _is_hopeless(self) -> bool:
        """Whether all that can be in flight failed: without a reply of the endpoint, or in a user's own code."""
        min_failures = max(self._settings.concurrency, DEAD_AFTER)
        dead = not self._with_reply and self._kinds["backbone_error"] >= min_failures
        extension_errors = self._kinds["extension_error"]
        return dead or (extension_errors >= min_failures and extension_errors == self._kinds.total())

    def give_up(self) -> None:
        """Add an outcome for each question that is left, if the run has ended early."""
        if (reason := self._answers.fatal) and not self._control.stop.is_set():
            failure = Failure("backbone_error", "", f"not evaluated, because: {reason}", retryable=True)
            for question in self._queue:
                self._add(question, Outcome(question.id, None, failure=failure, attempts=0))

    def _add(self, question: Question, outcome: Outcome) -> None:
        self._answers.outcomes[question.id] = outcome
        _show(self._control.progress, outcome)
        self._scored(question, outcome)


@asynccontextmanager
async def _scoring(score: Score) -> AsyncIterator[Callable[[Question, Outcome], None]]:
    """Yield a function that begins to score an outcome; leaving the block waits until all are scored."""
    gate = asyncio.Semaphore(SCORERS)
    scoring: list[asyncio.Task[None]] = []

    async def score_in_turn(question: Question, outcome: Outcome) -> None:
        async with gate:
            await score(question, outcome)

    try:
        yield lambda question, outcome: scoring.append(asyncio.create_task(score_in_turn(question, outcome)))
    finally:
        await asyncio.gather(*scoring)


def _show(progress: Progress, outcome: Outcome) -> None:
    failed = outcome.failure is not None and outcome.failure.kind != "missing_database"
    progress.answered(failed=failed, calls=outcome.paid_calls)


def _is_restored(outcome: Outcome) -> bool:
    """Return whether every stage was answered by an earlier run, not by a shard of this one."""
    return all(record.restored for record in outcome.stages)
