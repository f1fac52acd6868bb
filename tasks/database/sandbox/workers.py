"""A pool of worker processes that run SQL in the sandbox, for one asyncio loop."""

import asyncio
import os
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import Any, Literal, Self

from tasks.core.errors import CrosscheckError, DatabaseUnavailableError
from tasks.core.records import Execution
from tasks.database.database import Database
from tasks.database.limits import Limits
from tasks.database.location import Location
from tasks.database.sandbox.frames import Job, Reply, framed
from tasks.database.sandbox.functions import first_rows
from tasks.database.sandbox.process import WorkerDiedError, WorkerOverranError, WorkerProcess
from tasks.database.sandbox.together import CallsTogether

MOST_WORKERS = 4
ATTEMPTS = 3
"""Workers that a job is given to while each is ended from outside."""
CLOSED = "the SqlWorkers were closed before the query was done"


class WorkerLost(Exception):  # noqa: N818 - an outcome, not an error
    """Signal that a function in a worker did not finish: it exceeded its time or the worker's memory.

    Attributes:
        status: "timeout" or "too_large", as in `tasks.core.records.Execution`.
    """

    def __init__(self, status: Literal["timeout", "too_large"], message: str) -> None:
        super().__init__(message)
        self.status: Literal["timeout", "too_large"] = status


class SqlWorkers:
    """Pool of N processes that run SQL on databases; one that exceeds its limits is killed and replaced.

    Use it as an async context manager, in any thread, from one loop at a time. Processes start with the
    first query that finds none idle; queries are served in order of arrival. A query costs 0.1 ms on top of its
    own time.

    Args:
        size: processes at most; None: one per CPU, at most 4.
        limits: what one query, and one process, may take.

    Attributes:
        together: calls that may share a message, for many short queries.
    """

    def __init__(self, size: int | None = None, *, limits: Limits | None = None) -> None:
        self.size = size if size is not None else max(1, min(os.cpu_count() or 1, MOST_WORKERS))
        self.limits = limits or Limits()
        self._places: asyncio.Semaphore | None = None
        self._closed = False
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._reaping: set[asyncio.Task[None]] = set()
        self.together = CallsTogether(self)

    async def __aenter__(self) -> Self:
        if self._places is not None:
            raise RuntimeError("these SqlWorkers are already open")
        self._places = asyncio.Semaphore(self.size)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

        Anything but reading is refused. `timeout_s`: seconds it may take; None: the limits' own.
        """
        timeout = self.limits.timeout_s if timeout_s is None else timeout_s
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            execution: Execution = await self.call(
                first_rows, database, sql, rows, timeout, timeout_s=timeout
            )
        except WorkerLost as lost:
            return Execution(lost.status, error=str(lost), seconds=loop.time() - started)
        return execution

    async def call(
        self, function: Callable[..., Any], database: Database, *args: Any, timeout_s: float
    ) -> Any:
        """Run `function(session, *args)` inside a worker, with a `sandbox.Session` on the database.

        Args:
            function: a module-level function; it goes as its name, arguments and value go pickled.
            database: the database of the session.
            args: its further arguments.
            timeout_s: seconds that its queries may take together; the function has the limits' grace more.

        Raises:
            WorkerLost: the worker exceeded its time or memory or crashed, and has been replaced.
            DatabaseUnavailableError: a worker did not start, or `ATTEMPTS` workers were ended from outside.
            TypeError: the function, an argument or the value cannot be passed on.
            RuntimeError: the pool is not open, or is closed before the function has ended.
            Exception: what the function raised, with the worker's traceback as a note.
        """
        job = Job(_name(function), database.location, database.content, args, timeout_s)
        places = self._places
        if places is None:
            never = "open the SqlWorkers first: async with SqlWorkers() as workers"
            raise RuntimeError(CLOSED if self._closed else never)
        async with places:
            if self._places is not places:
                raise RuntimeError(CLOSED)
            reply = await self._answer(job, timeout_s)
        if reply.outcome == "returned":
            return reply.value
        if reply.outcome == "exhausted":
            raise WorkerLost("too_large", self._memory_message())
        error: Exception = reply.value
        error.add_note(f"In a worker process:\n{reply.traceback}")
        raise error

    async def _answer(self, job: Job, timeout_s: float) -> Reply:
        frame = _frame(job)
        ended = 0
        while True:
            worker = await self._worker(job.location)
            new = not worker.functions
            self._busy.add(worker)
            try:
                reply = await worker.ask(job, frame, timeout_s + self.limits.grace_s)
            except WorkerOverranError:
                self._discard(worker)
                raise WorkerLost(
                    "timeout", f"The query did not finish within {timeout_s:g} s and its process was stopped."
                ) from None
            except WorkerDiedError as error:
                self._discard(worker)
                if self._places is None:
                    raise RuntimeError(CLOSED) from None
                if error.outside and (error.started or new):
                    ended += 1
                    if ended == ATTEMPTS:
                        raise DatabaseUnavailableError(
                            f"The process of a query was ended from outside {ended} times ({error}), as the system "
                            "does when memory is short. Free memory, then run the same command again."
                        ) from None
                elif error.started or new:  # one that had jobs before may have died while it was idle
                    raise WorkerLost(
                        "too_large", f"{self._memory_message()} (It ended with {error}.)"
                    ) from None
            except BaseException:
                self._discard(worker)
                raise
            else:
                self._busy.discard(worker)
                if reply.spent or worker.overran or self._places is None:
                    self._discard(worker)
                else:
                    self._idle.append(worker)
                return reply

    async def _worker(self, location: Location) -> WorkerProcess:
        """Take an idle worker, one that has the database open if there is one, else start another."""
        while self._idle:
            worker = next((w for w in reversed(self._idle) if location in w.locations), self._idle[-1])
            self._idle.remove(worker)
            if worker.alive:
                return worker
            self._discard(worker)
        worker = WorkerProcess()
        self._busy.add(worker)
        try:
            await worker.start(self.limits)
        except BaseException as error:
            self._discard(worker)
            if isinstance(error, CrosscheckError) and self._places is None:
                raise RuntimeError(CLOSED) from None
            raise
        return worker

    def _discard(self, worker: WorkerProcess) -> None:
        self._busy.discard(worker)
        worker.kill()
        task = asyncio.get_running_loop().create_task(worker.wait_ended())
        self._reaping.add(task)
        task.add_done_callback(self._reaping.discard)

    def _memory_message(self) -> str:
        return f"The query took more than the {self.limits.memory_mb} MiB of memory of its process."


def _frame(job: Job) -> bytes:
    try:
        return framed(job)
    except Exception as error:  # pickling runs code of the argument's own class
        raise TypeError(f"an argument cannot be sent to a worker: {type(error).__name__}: {error}") from error


@cache
def _name(function: Callable[..., Any]) -> str:
    qualname = getattr(function, "__qualname__", "")
    if not qualname or "<" in qualname or function.__module__ == "__main__":
        raise TypeError(
            f"only a function at the top of an importable module can run in a worker, not {function!r}"
        )
    return f"{function.__module__}:{qualname}"
