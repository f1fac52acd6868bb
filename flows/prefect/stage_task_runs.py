"""Prefect's task runs of stages, each of which holds one call of a stage or several.

A task run costs Prefect as much processor time as several model calls cost the client (docs/prefect.md). So while
Prefect is busy, a call joins a task run of its stage that is running, and otherwise begins one of its own.

A call runs in the asyncio task of its caller, once its task run has begun; it never waits for another call. While
Prefect's server starts, calls run at once, and their task runs begin when the flow run does. The task run ends when all
of its calls have. A call that fails for a reason that may pass runs again after a pause: beside the others as long as
some are running, and after that in a retry of the task run, which Prefect shows, and which takes only the calls that
failed.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import nullcontext
from contextvars import copy_context
from functools import cache, partial
from types import TracebackType
from typing import Any

from flows.prefect.flow_runs import in_task_run
from tasks.core.errors import BackboneError
from tasks.core.wording import shorten
from tasks.stages.question_run import StageStore
from tasks.stages.stage import CallSite

log = logging.getLogger(__name__)

TASK_RETRY_DELAYS_S = (5.0, 30.0)
"""Pauses before a call runs again, if its backbone does not retry by itself."""
BUSY_FACTOR = 10.0
"""After a task run has begun, Prefect counts as busy for this many times as long as the beginning took."""
MAX_BUSY_S = 1.0
"""Limit of that time."""
MAX_FAILED_NAMED = 3
"""Failed questions that the name of a task run names at most."""
MAX_CALLS = 100
"""Calls that a task run takes at most."""


class _RetryLater(Exception):  # noqa: N818 - a signal to Prefect
    """Signal that the remaining calls of a task run have failed and are to run again."""


class TaskRuns:
    """The task runs of the stages of one evaluation, made in its flow run or, with `early`, before it begins."""

    def __init__(self, store: StageStore, *, early: bool = False) -> None:
        self.store = store
        self.begun = 0  # number of task runs so far
        self._flow_run = None if early else copy_context()
        self._early: list[Callable[[], None]] = []  # each begins a task run that waits for the flow run
        self._latest: dict[str, StageTaskRun] = {}  # by stage
        self._running: set[asyncio.Task[None]] = set()
        self._beginning = 0  # task runs that Prefect is beginning
        self._busy_until = float("-inf")  # by the monotonic clock

    def begin(self) -> None:
        """Begin the task runs of what runs already; to be called in the flow run."""
        self._flow_run = copy_context()
        for begin in self._early:
            begin()
        self._early.clear()

    def add_call(self, site: CallSite) -> "RunningCall":
        """Give a call to a task run; return the context manager in which to run it.

        It joins the stage's latest task run if Prefect is busy and that one takes calls. Else it has a new one, which
        begins now or, if the flow run has not begun, with it.
        """
        run = self._latest.get(site.stage)
        if run is None or not run.takes_calls or not self._is_busy:
            run = self._latest[site.stage] = StageTaskRun(site.stage, early=self._flow_run is None)
            self.begun += 1
            if run.early:
                self._early.append(partial(self._begin, run))
            else:
                self._begin(run)
        return run.add_call(site)

    async def in_task_run(self, name: str, label: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do work in a task run of its own; before the flow run begins, at once, and the task run shows it later."""
        if self._flow_run:
            await in_task_run(name, label, work)
        else:
            await work()
            is_done = partial(asyncio.sleep, 0)
            self._early.append(lambda: self._execute(in_task_run(name, label, is_done)))

    async def finish(self) -> None:
        """Wait until all task runs have ended; each does soon after its last call."""
        while self._running:
            await asyncio.wait(self._running)

    @property
    def _is_busy(self) -> bool:
        """Whether a call joins a running task run; always before the flow run begins."""
        return not self._flow_run or bool(self._beginning) or time.monotonic() < self._busy_until

    def _begin(self, run: "StageTaskRun") -> None:
        run.early = False
        self._beginning += 1
        run.context.add_done_callback(partial(self._has_begun, time.monotonic()))
        self._execute(run.execute())

    def _execute(self, task_run: Coroutine[Any, Any, None]) -> None:
        assert self._flow_run
        running = asyncio.create_task(task_run, context=self._flow_run.copy())
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    def _has_begun(self, started: float, _: Any) -> None:
        now = time.monotonic()
        self._beginning -= 1
        self._busy_until = max(self._busy_until, now + min(BUSY_FACTOR * (now - started), MAX_BUSY_S))


class RunningCall:
    """A call that a task run holds: a context manager, entered each time that the call runs.

    Entering waits until the task run has begun, and before a repetition for the pause. Leaving suppresses an error
    after which the call runs again.
    """

    def __init__(self, site: CallSite, run: "StageTaskRun") -> None:
        self.site = site
        self.waiting_for_retry = False  # whether it has failed and waits for its next run
        self.is_over = False
        self.error: BaseException | None = None  # with which it has ended; None for a result
        self._run = run
        self._failures = 0
        self._due = float("-inf")  # when it may run again, by the event loop's clock
        self._context: Any = None

    async def __aenter__(self) -> None:
        try:
            while (pause := self._due - asyncio.get_running_loop().time()) > 0:
                await asyncio.sleep(pause)
            if self._run.early:  # there is no flow run yet, for which calls do not wait
                self._context = nullcontext()
            else:  # a copy, because Prefect's context can be entered only once
                self._context = (await asyncio.shield(self._run.context)).model_copy()
        except BaseException as error:
            self._end(error)
            raise
        self.waiting_for_retry = False
        self._context.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._context.__exit__(kind, error, trace)
        # An error that may pass, unless the backbone has retried its request already.
        if isinstance(error, BackboneError) and error.transient and not (error.fatal or error.retried):
            self._failures += 1
            if self._failures <= len(TASK_RETRY_DELAYS_S):
                delay = TASK_RETRY_DELAYS_S[self._failures - 1]
                log.info("%s: %s; runs again in %g s", self.site.name, error, delay)
                self._due = asyncio.get_running_loop().time() + delay
                self.waiting_for_retry = True
                self._run.changed(takes_calls=False)
                return True
        self._end(error)
        return False

    def _end(self, error: BaseException | None) -> None:
        self.is_over = True
        self.error = error
        self._run.changed()


class StageTaskRun:
    """One task run of Prefect's and the calls of a stage that it holds.

    A plain class on purpose: Prefect walks into dataclasses, models and containers to look for futures, which costs
    milliseconds for a schema of thousands of columns. It does not look into this.
    """

    def __init__(self, stage: str, *, early: bool = False) -> None:
        self.takes_calls = True
        self.early = early  # whether it waits for the flow run, and its calls for nothing
        # Prefect's context of the task run, once it has begun, or why it never will; a new one for each retry
        self.context: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._stage = stage
        self._calls: list[RunningCall] = []
        self._change = asyncio.Event()

    def __str__(self) -> str:
        """Name of the task run: its questions, or the call site of a single one; and how many calls if it has more."""
        calls = f"{len(self._calls)} calls"
        questions = len(_questions(self._calls))
        if questions > 1:
            name = f"{self._stage} · {questions} questions"
            return name if questions == len(self._calls) else f"{name} ({calls})"
        name = self._calls[0].site.name
        return name if len(self._calls) == 1 else f"{name} ({calls})"

    def add_call(self, site: CallSite) -> RunningCall:
        """Take a call, which may run as soon as the task run has begun."""
        call = RunningCall(site, self)
        self._calls.append(call)
        self.takes_calls = len(self._calls) < MAX_CALLS
        return call

    def changed(self, *, takes_calls: bool = True) -> None:
        """Note that a call has ended or failed."""
        self.takes_calls = self.takes_calls and takes_calls
        self._change.set()

    async def execute(self) -> None:
        """Let Prefect run the task, whose function is `run_calls`; if it has not begun, raise an error in the calls."""
        error: Exception = RuntimeError(f"the task run {self} has ended")
        try:
            await task_of(self._stage)(run=self)
        except Exception as failure:  # Prefect itself has failed: the calls would wait for ever
            log.warning("the task run %s failed in Prefect: %s", self, failure)
            error = failure
        finally:
            self.takes_calls = False
            if not self.context.done():
                self.context.set_exception(error)
                self.context.exception()  # is looked at: asyncio need not warn if no call waits for it

    async def run_calls(self) -> Any:
        """Let the calls run until all have ended; raise `_RetryLater` for Prefect's retry if some are to run again."""
        from prefect.context import TaskRunContext

        context = TaskRunContext.get()
        assert context is not None
        for call in self._calls:
            call.waiting_for_retry = False
        self.context.set_result(context)
        while any(not (call.is_over or call.waiting_for_retry) for call in self._calls):
            self._change.clear()
            await self._change.wait()
        self.takes_calls = False
        if remaining := [call for call in self._calls if not call.is_over]:
            self.context = asyncio.get_running_loop().create_future()
            raise _RetryLater(f"to run again: {_questions_in_words(remaining)}")
        # Prefect records the name with the final state
        context.task_run.name = f"{self}{self._failed_in_words}"
        return self._final_state()

    @property
    def _failed(self) -> list[RunningCall]:
        return [call for call in self._calls if isinstance(call.error, Exception)]

    @property
    def _failed_in_words(self) -> str:
        """Which of several questions failed, `, 2 failed: 717, 718`, or how many calls of one; "" if none did."""
        failed = self._failed
        if not failed or len(self._calls) == 1:
            return ""
        if len(_questions(self._calls)) == 1:
            return f", {len(failed)} failed"
        ids = [question_id for _, question_id in _questions(failed)]
        return f", {len(ids)} failed: {shorten(ids, MAX_FAILED_NAMED)}"

    def _final_state(self) -> Any:
        from prefect.states import Cancelled, Completed, Failed

        stopped = [call for call in self._calls if isinstance(call.error, asyncio.CancelledError)]
        if failed := self._failed:
            reason = str(failed[0].error)
            return Failed(message=f"{_questions_in_words(failed)}: {reason}", data=reason)
        if stopped:
            return Cancelled(message=f"stopped: {_questions_in_words(stopped)}")
        return Completed(message=_questions_in_words(self._calls))


def _questions(calls: Iterable[RunningCall]) -> dict[tuple[str, str], None]:
    return dict.fromkeys((call.site.question.database_id, call.site.question.id) for call in calls)


def _questions_in_words(calls: Iterable[RunningCall]) -> str:
    """Return the questions of calls: `superhero 717, 718; formula_1 846`."""
    by_database: dict[str, dict[str, None]] = {}
    for call in calls:
        question = call.site.question
        by_database.setdefault(question.database_id, {})[question.id] = None
    return "; ".join(f"{database} {', '.join(ids)}" for database, ids in by_database.items())


@cache
def task_of(stage: str) -> Callable[..., Awaitable[Any]]:
    """Return the Prefect task of a stage."""
    from prefect import task
    from prefect.cache_policies import NO_CACHE

    async def run_calls(run: StageTaskRun) -> Any:
        return await run.run_calls()

    # Prefect derives a task's key from the function's qualified name: without this, all stages would share one.
    run_calls.__name__ = run_calls.__qualname__ = stage
    prefect_task: Callable[..., Awaitable[Any]] = task(
        name=stage,
        task_run_name="{run}",
        # Each call's result is persisted under its own key as soon as it is there.
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=len(TASK_RETRY_DELAYS_S),
        retry_delay_seconds=list(TASK_RETRY_DELAYS_S),
        retry_condition_fn=_runs_again,
    )(run_calls)
    return prefect_task


async def _runs_again(task: Any, run: Any, state: Any) -> bool:
    # state.result() is a coroutine here and would always look true; the exception itself is in state.data.
    data = state.data
    return isinstance(getattr(data, "result", data), _RetryLater)
