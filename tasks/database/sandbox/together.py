"""Calls that go to a worker together, in one message.

A message to another process and its reply take as long as a short query. So calls of one function on one database that
wait for a worker go there together. None waits for others to come. Behind a slow call, the others of its message wait
for that one only: after `LONGEST_S` a worker begins no further one, and those that it has not begun go to the next.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, cast

from tasks.database.database import Database
from tasks.database.sandbox.session import Session

MOST = 16
"""Calls in one message."""
LONGEST_S = 0.05
"""Seconds after which a worker begins no further call of a message."""

Function = Callable[[Session, Any], Any]


class Waiting(NamedTuple):
    """A call that waits for a worker."""

    function: Function  # a module-level function of a session and an argument
    database: Database  # the database of the session
    argument: Any  # its argument
    timeout_s: float  # seconds that its queries may take together
    result: "asyncio.Future[Any]"  # what it returned or raised


class Pool(Protocol):
    """The processes that calls go to: `tasks.database.sandbox.workers.SqlWorkers`."""

    size: int

    def call(
        self, function: Callable[..., Any], database: Database, *args: Any, timeout_s: float
    ) -> Awaitable[Any]:
        """Run `function(session, *args)` inside a worker."""
        ...


class CallsTogether:
    """Calls to one pool of workers, from one asyncio loop at a time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._waiting: deque[Waiting] = deque()
        self._senders: set[asyncio.Task[None]] = set()

    async def call(self, function: Function, database: Database, argument: Any, *, timeout_s: float) -> Any:
        """Run `function(session, argument)` inside a worker, as `SqlWorkers.call` does, and raise what it raises.

        Where a worker is lost, or a function raises, each call of the message is repeated alone, so that none loses its
        result to another.
        """
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(function, database, argument, timeout_s, result))
        self._begin()
        return await result

    def _begin(self) -> None:
        if len(self._senders) < self._pool.size:
            sender = asyncio.create_task(self._send())
            self._senders.add(sender)
            sender.add_done_callback(self._replace_cancelled)

    def _replace_cancelled(self, sender: asyncio.Task[None]) -> None:
        """Start another sender if one was cancelled while its caller waits or has called again."""
        self._senders.discard(sender)
        if sender.cancelled() and any(not call.result.done() for call in self._waiting):
            self._begin()

    async def _send(self) -> None:
        """Send what waits until nothing does."""
        calls: list[Waiting] = []
        try:
            while calls := self._next():
                if len(calls) == 1:
                    await self._send_alone(calls[0])
                else:
                    await self._send_together(calls)
        except asyncio.CancelledError:
            self._waiting.extendleft(reversed(calls))
            raise
        finally:  # at once: a call that comes before the task has ended needs another sender
            self._senders.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _next(self) -> list[Waiting]:
        """Take the first call that waits and those after it that may go with it, up to one worker's share."""
        share = min(MOST, -(-len(self._waiting) // self._pool.size))
        calls: list[Waiting] = []
        while self._waiting and len(calls) < share:
            if calls and not _alike(calls[0], self._waiting[0]):
                break
            call = self._waiting.popleft()
            if not call.result.done():  # the caller was not cancelled
                calls.append(call)
        return calls

    async def _send_together(self, calls: Sequence[Waiting]) -> None:
        first = calls[0]
        try:
            values = await self._pool.call(
                call_each,
                first.database,
                first.function,
                [(call.argument, call.timeout_s) for call in calls],
                timeout_s=max(call.timeout_s for call in calls) + LONGEST_S,
            )
        except Exception:  # it is raised once more by the call that it belongs to
            for call in calls:
                await self._send_alone(call)
            return
        for call, value in zip(calls, values, strict=False):
            if not call.result.done():
                call.result.set_result(value)
        self._waiting.extendleft(reversed(calls[len(values) :]))

    async def _send_alone(self, call: Waiting) -> None:
        try:
            value = await self._pool.call(
                call.function, call.database, call.argument, timeout_s=call.timeout_s
            )
        except Exception as error:
            if not call.result.done():
                call.result.set_exception(error)
        else:
            if not call.result.done():
                call.result.set_result(value)


def _alike(one: Waiting, other: Waiting) -> bool:
    return (
        one.function is other.function
        and one.database.location == other.database.location
        and one.database.content == other.database.content
    )


def call_each(session: Session, function: Function, calls: Sequence[tuple[Any, float]]) -> list[Any]:
    """Inside a worker: run a function with each argument in turn, and return what it returned for those that it ran.

    It begins no further one after `LONGEST_S`, or where the process had better be replaced.
    """
    started = time.monotonic()
    values: list[Any] = []
    for argument, timeout_s in calls:
        session.grant(timeout_s)
        values.append(function(session, argument))
        if session.spent or time.monotonic() - started > LONGEST_S:
            break
    return values
