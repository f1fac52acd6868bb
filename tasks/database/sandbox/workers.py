"""A pool of worker processes that run SQL in the sandbox, for one asyncio loop.

A message to another process and its reply take as long as a short query. So calls of one function on one database that
wait for a worker go there together. None waits for others to come. Behind a slow call, the others of its message wait
for that one only: after `MAX_MESSAGE_S` a worker begins no further one, and those that it has not begun go to the next.
"""

import asyncio
import math
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Self, TypeVar, cast

from tasks.core.errors import CrosscheckError, DatabaseUnavailableError, ExtensionError
from tasks.core.records import Execution
from tasks.core.registry import is_shipped
from tasks.database.database import Database
from tasks.database.engine import engine_of
from tasks.database.limits import Limits
from tasks.database.location import Location
from tasks.database.sandbox.frames import Job, WorkerReply, framed
from tasks.database.sandbox.process import WorkerDiedError, WorkerOverranError, WorkerProcess
from tasks.database.sandbox.session import SqlSession, first_rows

T = TypeVar("T")

MAX_CALLS = 16
"""Calls in one message."""
MAX_MESSAGE_S = 0.05
"""Seconds after which a worker begins no further call of a message."""

Function = Callable[[SqlSession, Any], Any]


class Waiting(NamedTuple):
    """A call that waits for a worker; see `CallsTogether.call`."""

    function: Function
    database: Database
    argument: Any
    timeout_s: float
    result: "asyncio.Future[Any]"  # what it returned or raised


class CallsTogether:
    """Calls to one pool of workers, from one asyncio loop at a time."""

    def __init__(self, pool: "SqlWorkers") -> None:
        self._pool = pool
        self._waiting: deque[Waiting] = deque()
        self._senders: set[asyncio.Task[None]] = set()

    async def call(self, function: Function, database: Database, argument: Any, *, timeout_s: float) -> Any:
        """Run `function(session, argument)` inside a worker, as `SqlWorkers.call` does, and raise what it raises.

        Calls that wait at the same time are sent to a worker in one message. If that worker is lost, or one of the
        functions raises, each of these calls is repeated alone, so that none fails because of another.
        """
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(function, database, argument, timeout_s, result))
        self._start_sender()
        return await result

    def _start_sender(self) -> None:
        if len(self._senders) < self._pool.size:
            sender = asyncio.create_task(self._send())
            self._senders.add(sender)
            sender.add_done_callback(self._replace_cancelled)

    def _replace_cancelled(self, sender: asyncio.Task[None]) -> None:
        """Start another sender if one was cancelled while its caller waits or has called again."""
        self._senders.discard(sender)
        if sender.cancelled() and any(not call.result.done() for call in self._waiting):
            self._start_sender()

    async def _send(self) -> None:
        """Send what waits until nothing does."""
        calls: list[Waiting] = []
        try:
            while calls := self._next():
                await self._send_together(calls)
        except asyncio.CancelledError:
            self._waiting.extendleft(reversed(calls))
            raise
        finally:  # not only when the task has ended: a call that comes before needs another sender
            self._senders.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _next(self) -> list[Waiting]:
        """Take the first call that waits and those after it that may go with it, up to one worker's share."""
        share = min(MAX_CALLS, math.ceil(len(self._waiting) / self._pool.size))
        calls: list[Waiting] = []
        while self._waiting and len(calls) < share:
            if calls and not _alike(calls[0], self._waiting[0]):
                break
            call = self._waiting.popleft()
            if not call.result.done():  # the caller was not cancelled
                calls.append(call)
        return calls

    async def _send_together(self, calls: Sequence[Waiting]) -> None:
        """Send calls in one message and give each its value; calls that the worker did not begin wait again."""
        first, *others = calls
        arguments = [(call.argument, call.timeout_s) for call in calls]
        timeout_s = max(call.timeout_s for call in calls) + (MAX_MESSAGE_S if others else 0)
        try:
            values = await self._pool.call(
                call_each, first.database, first.function, arguments, timeout_s=timeout_s
            )
        except Exception as error:
            if others:
                for call in calls:  # the error is raised once more by the call that it belongs to
                    await self._send_together([call])
            elif not first.result.done():
                first.result.set_exception(error)
            return
        for call, value in zip(calls, values, strict=False):  # the last calls may not have been begun
            if not call.result.done():
                call.result.set_result(value)
        self._waiting.extendleft(reversed(calls[len(values) :]))


def _alike(first: Waiting, second: Waiting) -> bool:
    return (
        first.function is second.function
        and first.database.location == second.database.location
        and first.database.content == second.database.content
    )


def call_each(session: SqlSession, function: Function, calls: Sequence[tuple[Any, float]]) -> list[Any]:
    """Inside a worker: run a function with each argument in turn, and return what it returned for those that it ran.

    It begins no further one after `MAX_MESSAGE_S`, or where the process had better be replaced.
    """
    started = time.monotonic()
    values: list[Any] = []
    for argument, timeout_s in calls:
        session.grant(timeout_s)
        values.append(function(session, argument))
        if session.spent or time.monotonic() - started > MAX_MESSAGE_S:
            break
    return values


MAX_WORKERS = 4
ATTEMPTS = 3
"""Workers that a job is given to while each is ended from outside."""
PROBE = "SELECT 1"
PROBE_S = 5.0
"""Seconds that a query may take which tells a broken engine from a query that takes too much."""
CLOSED = "the SqlWorkers were closed before the query was done"


class WorkerLost(Exception):  # noqa: N818 - an outcome, not an error
    """Signal that a function in a worker did not finish: it exceeded its time or the worker's memory."""

    def __init__(self, status: Literal["timeout", "too_large"], message: str) -> None:
        super().__init__(message)
        self.status: Literal["timeout", "too_large"] = status


class SqlWorkers:
    """Pool of N processes that run SQL on databases; one that exceeds its limits is killed and replaced.

    Use it as an async context manager, in any thread, from one loop at a time. Processes start with the first query
    that finds none idle; queries are served in order of arrival.
    """

    def __init__(self, size: int | None = None, *, limits: Limits | None = None) -> None:
        """Limit the number of processes (None: one per CPU, at most 4), and what a query and a process may take."""
        self.size = size if size is not None else max(1, min(os.cpu_count() or 1, MAX_WORKERS))
        self.limits = limits or Limits()
        self._places: asyncio.Semaphore | None = None  # one for each process; None: the pool is not open
        self._closed = False
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._reaping: set[asyncio.Task[None]] = set()  # each waits until a killed process has ended
        self._working: set[Location] = set()  # of engines of packages that run other queries
        self.together = CallsTogether(self)  # for many short queries

    async def __aenter__(self) -> Self:
        self._places = asyncio.Semaphore(self.size)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Kill every process, busy ones too, and wait until they have ended."""
        self._places = None
        self._closed = True
        for worker in (*self._idle, *self._busy):
            self._discard(worker)
        self._idle.clear()
        while reaping := tuple(self._reaping):
            await asyncio.shield(asyncio.gather(*reaping, return_exceptions=True))
            # From Python 3.12 on, awaiting tasks that are done does not let their callbacks run, which remove them.
            self._reaping.difference_update(reaping)

    async def execute(
        self, database: Database, sql: str, *, rows: int = 5, timeout_s: float | None = None
    ) -> Execution:
        """Run one query to its end, and return its first rows, at most so many, and how many there are.

        Anything but reading is refused. `timeout_s` is that of the limits where it is None.
        """
        timeout = self.limits.timeout_s if timeout_s is None else timeout_s
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            return await self.call(first_rows, database, sql, rows, timeout, timeout_s=timeout)
        except WorkerLost as lost:
            return Execution(lost.status, error=str(lost), seconds=loop.time() - started)

    async def call(self, function: Callable[..., T], database: Database, *args: Any, timeout_s: float) -> T:
        """Run `function(session, *args)` inside a worker, with a `SqlSession` on the database.

        The function, of a module, is sent by its name; arguments and value are pickled. Its queries may take
        `timeout_s` seconds together, and the function `limits.grace_s` seconds more.

        Raises:
            WorkerLost: the worker exceeded its time or memory or crashed, and has been replaced.
            RuntimeError: the pool is not open, or is closed before the function has ended.
            Exception: what the function raised, with the worker's traceback as a note.
        """
        job = Job(name_of(function), database.location, database.content, args, timeout_s)
        value: T = await self.run(job)
        return value

    async def run(self, job: Job) -> Any:
        """Run a job inside a worker and return its value; raises what `call` does."""
        places = self._places
        if places is None:
            not_open = "open the SqlWorkers first: async with SqlWorkers() as workers"
            raise RuntimeError(CLOSED if self._closed else not_open)
        async with places:
            if self._places is not places:  # closed while the job waited for its place
                raise RuntimeError(CLOSED)
            try:
                reply = await self._answer(job)
            except WorkerLost:
                await self._require_working_engine(job)
                raise
        if reply.outcome == "returned":
            return reply.value
        if reply.outcome == "exhausted":
            raise WorkerLost("too_large", self._memory_message())
        error: Exception = reply.value
        error.add_note(f"In a worker process:\n{reply.traceback}")
        raise error

    async def _require_working_engine(self, job: Job) -> None:
        """Raise an error if an engine of a package loses its process for any SQL: then the query is not to blame."""
        engine = engine_of(job.location)
        if is_shipped(type(engine)) or job.location in self._working:
            return
        seconds = min(job.budget_s, PROBE_S)
        arguments = (PROBE, 1, seconds)
        probe = Job(name_of(first_rows), job.location, job.content, arguments, seconds)
        try:
            await self._answer(probe)
        except WorkerLost as lost:
            raise ExtensionError(
                f"The process of the engine {type(engine).__name__}, from a package, ended even for {PROBE}: {lost}"
            ) from None
        self._working.add(job.location)

    async def _answer(self, job: Job) -> WorkerReply:
        """Send a job to an idle worker, or to a new one, and return its reply.

        The job goes to another worker if its worker had died while it was idle, or was ended from outside, which may
        happen to `ATTEMPTS` workers. Raises WorkerLost if the job exceeded its time, or made the worker die.
        """
        frame = framed(job)
        ended_from_outside = 0
        while True:
            worker = await self._worker(job.location)
            had_no_job = not worker.functions
            self._busy.add(worker)
            try:
                reply = await worker.ask(job, frame, job.budget_s + self.limits.grace_s)
            except WorkerOverranError:
                self._discard(worker)
                raise WorkerLost(
                    "timeout",
                    f"The query did not finish within {job.budget_s:g} s and its process was stopped.",
                ) from None
            except WorkerDiedError as error:
                self._discard(worker)
                if self._places is None:  # `close` has killed it
                    raise RuntimeError(CLOSED) from None
                died_while_idle = not error.started and not had_no_job  # between two jobs
                if error.outside and not died_while_idle:
                    ended_from_outside += 1
                    if ended_from_outside == ATTEMPTS:
                        raise _ended_from_outside(error) from None
                elif not died_while_idle:
                    raise WorkerLost(
                        "too_large", f"{self._memory_message()} (It ended with {error}.)"
                    ) from None
            except BaseException:
                self._discard(worker)
                raise
            else:
                self._busy.discard(worker)
                if reply.spent or self._places is None:
                    self._discard(worker)
                else:
                    self._idle.append(worker)
                return reply

    async def _worker(self, location: Location) -> WorkerProcess:
        """Take an idle worker, one that has the database open if there is one, else start another.

        At most `ATTEMPTS` processes are started, as a new one may die. `RuntimeError`: the pool was closed meanwhile.
        """
        while self._idle:
            worker = next(
                (idle for idle in reversed(self._idle) if location in idle.locations), self._idle[-1]
            )
            self._idle.remove(worker)
            if worker.alive:
                return worker
            self._discard(worker)
        for attempt in range(1, ATTEMPTS + 1):
            worker = WorkerProcess()
            self._busy.add(worker)
            try:
                await worker.start(self.limits)
                break
            except BaseException as error:
                self._discard(worker)
                died = isinstance(error, WorkerDiedError)
                is_closed = self._places is None
                if is_closed and (died or isinstance(error, CrosscheckError)):
                    raise RuntimeError(CLOSED) from None
                if not died:
                    raise
                if attempt == ATTEMPTS:
                    raise _ended_from_outside(error) from None
        return worker

    def _discard(self, worker: WorkerProcess) -> None:
        self._busy.discard(worker)
        worker.kill()
        task = asyncio.get_running_loop().create_task(worker.wait_ended())
        self._reaping.add(task)
        task.add_done_callback(self._reaping.discard)

    def _memory_message(self) -> str:
        return f"The query took more than the {self.limits.memory_mb} MiB of memory of its process."


def _ended_from_outside(error: BaseException) -> DatabaseUnavailableError:
    return DatabaseUnavailableError(
        f"The process of a query was ended from outside {ATTEMPTS} times ({error}), as the system does when memory is "
        "short. Free memory, then run the same command again."
    )


def name_of(function: Callable[..., Any]) -> str:
    """Return the name under which a worker finds a function, which is at the top of an importable module."""
    return f"{function.__module__}:{function.__qualname__}"
