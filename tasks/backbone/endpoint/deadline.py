"""Time limit of a request that a standstill of this process does not use up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

HELD_UP_S = 0.2
"""Seconds after a limit from which on it is this process that stood still (stopped with Ctrl-Z, for instance), and
those in which what the endpoint sent meanwhile is received."""


@asynccontextmanager
async def deadline(seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """End the block after so many seconds with TimeoutError, as `asyncio.timeout` does.

    Where the process stood still at that time, replies that have come meanwhile are paid for, and are received first.
    """
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds
    async with asyncio.timeout(None) as limit:

        def end() -> None:
            if limit.when() is None:
                now = loop.time()
                limit.reschedule(now + HELD_UP_S if now > due + HELD_UP_S else now)

        alarm = loop.call_at(due, end)
        try:
            yield limit
        finally:
            alarm.cancel()
