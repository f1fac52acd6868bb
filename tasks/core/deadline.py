"""Time limits that count from the last sign of progress, and do not count while this process stands still."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

HELD_UP_S = 0.2
"""Seconds after a limit from which on it is this process that stood still (stopped with Ctrl-Z, for instance), and
those in which what was sent to it meanwhile is received."""


class Deadline:
    """Time limit of a block: it ends with TimeoutError so many seconds after it began, or after it was last renewed.

    A renewal sets no timer: requests in flight are renewed with every answer. A timer that ends too early is set again.
    """

    def __init__(self, limit: asyncio.Timeout, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self.renew(self._loop.time())
        self._alarm = self._loop.call_at(self._due, self._end)

    def renew(self, now: float) -> None:
        """Let the time count from now, in the time of the event loop."""
        self._due = now + self._seconds
        if self._limit.when() is not None and not self._limit.expired():  # about to end
            self._limit.reschedule(None)
            self._alarm = self._loop.call_at(self._due, self._end)

    def cancel(self) -> None:
        """Lift the limit."""
        self._alarm.cancel()

    def _end(self) -> None:
        """End the block if its time is over; otherwise set the timer again."""
        now = self._loop.time()
        if now < self._due:
            self._alarm = self._loop.call_at(self._due, self._end)
        else:
            self._limit.reschedule(now + HELD_UP_S if now > self._due + HELD_UP_S else now)


@asynccontextmanager
async def deadline(seconds: float) -> AsyncIterator[Deadline]:
    """End the block after so many seconds with TimeoutError, as `asyncio.timeout` does.

    If this process stood still at that time, the block has `HELD_UP_S` more to receive what has come meanwhile: replies
    are paid for.
    """
    async with asyncio.timeout(None) as limit:
        timer = Deadline(limit, seconds)
        try:
            yield timer
        finally:
            timer.cancel()
