"""The pool that runs all questions: restores what earlier runs answered, then asks the rest."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from flows.evaluate.runner import QuestionRunner
from flows.prefect.flow_runs import flow_run_id
from flows.prefect.task_runs import RecorderBackpressure, in_task_run
from flows.runtime.control import Control, Interrupted, Progress, until_done_or_stopped
from tasks.core.outcome import Failure, FailureKind, Outcome
from tasks.core.records import Question
from tasks.stages.question_run import Stopped

DEAD_AFTER = 3
"""Minimum number of questions that fail without a reply before the endpoint counts as dead."""
MAX_RESTORING = 64
"""Number of questions restored at a time; remote storage has a network delay."""
UNDER_WAY = 1.5
"""Questions under way for each request that may be in flight: while one executes its SQL, another's request is sent."""
SCORERS = 4
"""Number of outcomes scored at a time."""


@dataclass
class Answers:
    """Outcomes of a pool."""

    # outcomes by question id; those given at the beginning are not run again
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    restored: int = 0  # questions answered completely from persisted results
    task_runs: int = 0  # Prefect task runs that this took
    fatal: str = ""  # error message that ended the run early, "" if all questions were run


Score = Callable[[Question, Outcome], Awaitable[None]]


async def answer_all(
    questions: Sequence[Question],
    runner: QuestionRunner,
    control: Control,
    score: Score,
    given: Answers | None = None,
    restored: Mapping[str, Outcome] | None = None,
) -> Answers:
    """Run every question through the pipeline, with as many requests in flight as the backbone allows.

    Args:
        questions: those whose database, or at least its schema, is present.
        runner: runs one question.
        control: progress and stop requests.
        score: awaited with each outcome, outside of the pool, so that scoring does not delay the backbone.
        given: outcomes of shards: questions without an answer, which are not run again.
        restored: outcomes that have been restored already; None: they are looked for, in a task run.
    """
    answers = given or Answers()
    known = dict(answers.outcomes)
    outcomes = restored
    if outcomes is None:
        outcomes = await restore_answers(
            [question for question in questions if question.id not in known], runner
        )
        answers.task_runs += 1
    answers.restored = sum(map(_is_restored, outcomes.values()))
    control.progress.questions(len(questions), answers.restored)
    async with _scoring(score) as scored:
        for question in questions:
            if (outcome := known.get(question.id) or outcomes.get(question.id)) is not None:
                answers.outcomes[question.id] = outcome
                if question.id in known or not _is_restored(outcome):
                    _show(control.progress, outcome)
                scored(question, outcome)
        queue = [question for question in questions if question.id not in answers.outcomes]
        if runner.settings.backbone.fills_prefix_cache:
            queue = databases_first(queue)
        runner.tools.pace.begin(len(queue))
        pool = _Pool(queue, runner, control, answers, scored)
        tasks: list[asyncio.Task[None]] = []
        while len(tasks) < min(int(UNDER_WAY * runner.settings.backbone.most_in_flight), len(queue)):
            tasks.append(asyncio.create_task(pool.work()))
        await until_done_or_stopped(tasks, control)
        if task_runs := runner.persistence.task_runs:
            await task_runs.finish()
            answers.task_runs += task_runs.begun
    if control.stop.is_set():
        raise Interrupted(
            f"stopped. {len(answers.outcomes):,} of {len(questions):,} questions are answered, and every reply that "
            "came is kept: run the same command again to continue.",
            control,
        )
    return answers


async def restore_answers(questions: Sequence[Question], runner: QuestionRunner) -> dict[str, Outcome]:
    """Restore, in one task run, the questions whose every stage has a persisted result; return outcomes by id."""
    outcomes: dict[str, Outcome] = {}

    async def restore() -> None:
        outcomes.update(await _restored(questions, runner))

    await in_task_run("restore", "restore persisted results", restore)
    return outcomes


async def restore_everything(
    questions: Sequence[Question], runner: QuestionRunner
) -> dict[str, Outcome] | None:
    """Restore questions without Prefect; None as soon as one of them has a stage without a persisted result."""
    first = await _restored(questions[:1], runner)
    outcomes = first and first | await _restored(questions[1:], runner)
    return outcomes if len(outcomes) == len(questions) else None


async def _restored(questions: Sequence[Question], runner: QuestionRunner) -> dict[str, Outcome]:
    gate = asyncio.Semaphore(MAX_RESTORING)

    async def restore(question: Question) -> Outcome | None:
        async with gate:
            return await runner.restore(question)

    outcomes = await asyncio.gather(*map(restore, questions))
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
    """Pool of workers that share a queue of questions."""

    def __init__(
        self,
        queue: list[Question],
        runner: QuestionRunner,
        control: Control,
        answers: Answers,
        scored: Callable[[Question, Outcome], None],
    ) -> None:
        self._queue = queue[::-1]
        self._runner = runner
        self._begun: dict[str, asyncio.Event] = {}
        self._control = control
        self._answers = answers
        self._scored = scored
        most = max(runner.settings.backbone.concurrency, DEAD_AFTER)
        self._detectors = (dead_endpoint(most), broken_extension(most))
        in_prefect = runner.persistence.task_runs is not None
        self._backpressure = RecorderBackpressure(flow_run_id()) if in_prefect else None

    async def work(self) -> None:
        """Run questions until the queue is empty or the user asks to stop."""
        task_runs = self._runner.persistence.task_runs
        while self._queue and not self._control.stop.is_set():
            question = self._queue.pop()
            if task_runs and self._backpressure:
                await self._backpressure.wait(task_runs.begun)
            try:
                async with self._after_first(question.database_id):
                    if self._answers.fatal:
                        outcome = _not_asked(question, self._answers.fatal)
                    else:
                        outcome = await self._runner.run(self._runner.question_run(question))
            except Stopped:
                return
            self._add(question, outcome)

    @asynccontextmanager
    async def _after_first(self, database_id: str) -> AsyncIterator[None]:
        """Wait until the first question of a database has ended: its prompts fill the endpoint's prefix cache."""
        if not self._runner.settings.backbone.fills_prefix_cache:
            yield
        elif database_id in self._begun:
            await self._begun[database_id].wait()
            yield
        else:
            ended = self._begun.setdefault(database_id, asyncio.Event())
            try:
                yield
            finally:
                ended.set()

    def _add(self, question: Question, outcome: Outcome) -> None:
        self._answers.outcomes[question.id] = outcome
        self._runner.tools.pace.answered()
        for detector in self._detectors:
            detector.count(outcome)
        permanent = any(detector.permanent for detector in self._detectors)
        if outcome.failure and (outcome.failure.fatal or permanent):
            self._answers.fatal = outcome.failure.message
        _show(self._control.progress, outcome)
        self._scored(question, outcome)


class FailureDetector:
    """Detector of a cause that fails every question, so that not all of them have to be tried and paid for.

    Args:
        kind: kind of the failures that it counts.
        most: number of failures, without any success, at which the cause counts as permanent.
        succeeded: whether an outcome shows that the cause does not hold.
    """

    def __init__(self, kind: FailureKind, most: int, succeeded: Callable[[Outcome], bool]) -> None:
        self._kind = kind
        self._most = most
        self._succeeded = succeeded
        self._failures = 0
        self._successes = 0

    def count(self, outcome: Outcome) -> None:
        """Count a question's outcome."""
        self._failures += outcome.failure is not None and outcome.failure.kind == self._kind
        self._successes += self._succeeded(outcome)

    @property
    def permanent(self) -> bool:
        """Whether the counted questions failed, as many as can be in flight, and none succeeded."""
        return not self._successes and self._failures >= self._most


def dead_endpoint(most: int) -> FailureDetector:
    """Return a detector of an endpoint that has not sent a single reply: retries would take hours."""
    return FailureDetector(
        "backbone_error", most, lambda outcome: any(stage.calls for stage in outcome.stages)
    )


def broken_extension(most: int) -> FailureDetector:
    """Return a detector of a user's own code that fails every question, after its calls were paid for."""
    return FailureDetector(
        "extension_error",
        most,
        lambda outcome: outcome.failure is None or outcome.failure.kind != "extension_error",
    )


@asynccontextmanager
async def _scoring(score: Score) -> AsyncIterator[Callable[[Question, Outcome], None]]:
    """Yield a function that queues outcomes for scoring; leaving the block waits until all are scored."""
    queue: asyncio.Queue[tuple[Question, Outcome] | None] = asyncio.Queue()

    async def work() -> None:
        while (item := await queue.get()) is not None:
            await score(*item)

    scorers = [asyncio.create_task(work()) for _ in range(SCORERS)]
    try:
        yield lambda question, outcome: queue.put_nowait((question, outcome))
    finally:
        for _ in scorers:
            queue.put_nowait(None)
        await asyncio.gather(*scorers)


def _show(progress: Progress, outcome: Outcome) -> None:
    failed = outcome.failure is not None and outcome.failure.kind != "missing_database"
    progress.answered(failed=failed, calls=outcome.paid_calls)


def _is_restored(outcome: Outcome) -> bool:
    """Return whether every stage was answered by an earlier run, not by a shard of this one."""
    return all(record.restored for record in outcome.stages)


def _not_asked(question: Question, why: str) -> Outcome:
    failure = Failure("backbone_error", "", f"not evaluated, because: {why}", retryable=True)
    return Outcome(question.id, None, failure=failure, attempts=0)
