"""Asks all questions of an evaluation: restores what earlier runs answered, then keeps a pool busy with the rest."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from flows.orchestration.task_runs import Pace
from flows.questions.runner import Asker
from flows.questions.schema_only import MISSING_DATABASE
from flows.runtime.control import Control, Interrupted, Progress
from flows.sharding.answers import ShardAnswers
from tasks.records import Failure, Outcome, Question
from tasks.trail import Stopped

NO_SHARDS = ShardAnswers()
MOST_SILENT = 3
"""Questions that fail without a reply before the endpoint counts as absent, at least."""
MOST_RESTORING = 64
"""Questions whose results are looked up at a time: where storage is remote, each waits for the network."""
GRACE_S = 20.0
"""How long calls in flight are waited for after the user asked to stop."""


@dataclass
class Answers:
    """What came of asking.

    Attributes:
        outcomes: by question id.
        restored: questions answered completely from persisted results.
        task_runs: Prefect task runs that this took.
        fatal: why no further question was asked, "" when all were.
    """

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    restored: int = 0
    task_runs: int = 0
    fatal: str = ""


Heard = Callable[[Question, Outcome], Awaitable[None]]


async def answer_all(
    questions: Sequence[Question],
    asker: Asker,
    control: Control,
    heard: Heard,
    shards: ShardAnswers = NO_SHARDS,
) -> Answers:
    """Ask every question.

    Args:
        questions: those whose database is at hand.
        asker: takes one question through the pipeline.
        control: told of progress, asked whether to stop.
        heard: awaited with each outcome, outside of the pool: scoring never keeps the backbone waiting.
        shards: what other workers have found to have no answer; such a question is not asked again.

    Raises:
        Interrupted: the user asked to stop; what is answered is persisted and was heard.
    """
    answers = Answers(task_runs=1 + shards.task_runs, fatal=shards.fatal)
    restoring = Restoring([question for question in questions if question.id not in shards.failed], asker)
    await restore_answers(restoring)
    known = {**restoring.found, **shards.failed}
    answers.restored = sum(_costs_nothing(outcome) for outcome in restoring.found.values())
    control.progress.questions(len(questions), answers.restored)
    async with _listening(heard) as listen:
        for question in questions:
            if (outcome := known.get(question.id)) is not None:
                answers.outcomes[question.id] = outcome
                if question.id in shards.failed or not _costs_nothing(outcome):
                    _tell(control.progress, outcome)
                listen(question, outcome)
        waiting = [question for question in questions if question.id not in known]
        await _ask_the_rest(waiting, asker, control, answers, listen)
    if control.stop.is_set():
        raise Interrupted(
            f"stopped. {len(answers.outcomes):,} of {len(questions):,} questions are answered, and no paid answer is "
            "lost: the same command continues."
        )
    return answers


class Restoring:
    """What the restoring task works on and finds; a plain class, so that Prefect does not walk through it.

    Attributes:
        questions: what to look for.
        asker: takes one question through the pipeline.
        found: outcomes of the questions whose every stage has a persisted result, by question id.
    """

    def __init__(self, questions: Sequence[Question], asker: Asker) -> None:
        self.questions = questions
        self.asker = asker
        self.found: dict[str, Outcome] = {}


@task(name="restore", task_run_name="restore persisted results", cache_policy=NO_CACHE)
async def restore_answers(work: Restoring) -> str:
    """Restore in bulk what earlier runs answered; return how much that was, in words."""
    gate = asyncio.Semaphore(MOST_RESTORING)

    async def restore(question: Question) -> None:
        async with gate:
            outcome = await work.asker.restore(question)
        if outcome:
            work.found[question.id] = outcome

    await asyncio.gather(*(restore(question) for question in work.questions))
    return f"{len(work.found)} of {len(work.questions)} questions restored"


async def _ask_the_rest(
    waiting: Sequence[Question],
    asker: Asker,
    control: Control,
    answers: Answers,
    listen: Callable[[Question, Outcome], None],
) -> None:
    queue = list(reversed(waiting))
    size = asker.settings.backbone.concurrency
    silence = _Silence(max(size, MOST_SILENT))
    pace = Pace(UUID(flow_run.id))

    async def work() -> None:
        while queue and not control.stop.is_set():
            question = queue.pop()
            await pace.keep(answers.task_runs)
            if answers.fatal:
                outcome, executed = _not_asked(question, answers.fatal), 0
            else:
                try:
                    outcome, executed = await asker.ask(question)
                except Stopped:
                    return
            answers.task_runs += executed
            answers.outcomes[question.id] = outcome
            silence.hear(outcome)
            if outcome.failure and (outcome.failure.ends_run or silence.lasts):
                answers.fatal = outcome.failure.message
            _tell(control.progress, outcome)
            listen(question, outcome)

    pool = [asyncio.create_task(work()) for _ in range(min(size, len(waiting)))]
    await until_done_or_stopped(pool, control)


class _Silence:
    """Tells an endpoint that is not there from questions that fail: asking it again for each would take hours."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._failed = 0
        self._heard = False

    def hear(self, outcome: Outcome) -> None:
        """Count a question that is through."""
        self._heard = self._heard or any(record.calls for record in outcome.stages)
        self._failed += outcome.failure is not None and outcome.failure.kind == "backbone_error"

    @property
    def lasts(self) -> bool:
        """Whether as many questions as can be in flight have failed without a single reply."""
        return not self._heard and self._failed >= self._most


async def until_done_or_stopped(pool: Sequence[asyncio.Task[None]], control: Control) -> None:
    """Wait until all tasks are done; once the user asks to stop, only as long as calls in flight may take."""
    done: asyncio.Future[Any] = asyncio.gather(*pool)
    async with _waiting_for(control.stop) as stop:
        await asyncio.wait((stop, done), return_when=asyncio.FIRST_COMPLETED)
    if not done.done():
        async with _waiting_for(control.hurry) as hurry:
            await asyncio.wait((hurry, done), timeout=GRACE_S, return_when=asyncio.FIRST_COMPLETED)
        done.cancel()
    with suppress(asyncio.CancelledError):
        await done


@asynccontextmanager
async def _waiting_for(event: asyncio.Event) -> AsyncIterator[asyncio.Future[Any]]:
    waiting: asyncio.Future[Any] = asyncio.ensure_future(event.wait())
    try:
        yield waiting
    finally:
        waiting.cancel()


@asynccontextmanager
async def _listening(heard: Heard) -> AsyncIterator[Callable[[Question, Outcome], None]]:
    """Give a function that hands outcomes on without waiting; leaving the block waits until all have been heard."""
    queue: asyncio.Queue[tuple[Question, Outcome] | None] = asyncio.Queue()

    async def hear() -> None:
        while (item := await queue.get()) is not None:
            await heard(*item)

    listeners = [asyncio.create_task(hear()) for _ in range(4)]
    try:
        yield lambda question, outcome: queue.put_nowait((question, outcome))
    finally:
        for _ in listeners:
            queue.put_nowait(None)
        await asyncio.gather(*listeners)


def _tell(progress: Progress, outcome: Outcome) -> None:
    paid = sum(not call.cached for record in outcome.stages if not record.restored for call in record.calls)
    failed = outcome.failure is not None and outcome.failure.kind != MISSING_DATABASE
    progress.answered(failed=failed, calls=paid)


def _costs_nothing(outcome: Outcome) -> bool:
    """Return whether every stage was answered by an earlier run, not by a worker of this one."""
    return all(record.restored for record in outcome.stages)


def _not_asked(question: Question, why: str) -> Outcome:
    return Outcome(
        question.id, None, failure=Failure("backbone_error", "", f"not asked, because: {why}", True)
    )
