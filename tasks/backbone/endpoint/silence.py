"""Watch on an endpoint that takes connections and answers nothing, so that a run need not wait for its timeouts."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

PROBED_AFTER_S = 20.0
"""Seconds without any answer, from the first request on, after which the endpoint is probed."""
PROBE_S = 8.0
"""Seconds within which an endpoint has to answer GET /models, with any status."""


class SilenceWatch:
    """Ends the requests in flight if the endpoint answers nothing, neither them nor a probe.

    A model may think for minutes before its first reply, and a reply's length says nothing of the endpoint. So after
    `PROBED_AFTER_S` seconds without any answer the endpoint is asked for something that costs it nothing, GET /models.
    Any HTTP status is an answer, and the requests go on for as long as their timeout; without one, they end.
    """

    def __init__(self, probe: Callable[[], Awaitable[object]], ended: Callable[[float], None]) -> None:
        """Prepare the watch, which begins with the first request.

        Args:
            probe: asks the endpoint for something, as the client of the SDK does.
            ended: called with the seconds of silence, before the requests in flight end.
        """
        self._probe = probe
        self._ended = ended
        self._answered = asyncio.Event()
        self._in_flight: set[asyncio.Timeout] = set()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def request(self, limit: asyncio.Timeout) -> Iterator[None]:
        """Watch a request that a timeout limits."""
        if self._task is None:
            self._task = asyncio.create_task(self._watch())
        self._in_flight.add(limit)
        try:
            yield
        finally:
            self._in_flight.discard(limit)

    def answered(self) -> None:
        """Note that the endpoint has answered, which ends the watch."""
        self._answered.set()

    def close(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        began = asyncio.get_running_loop().time()
        try:
            await asyncio.wait_for(self._answered.wait(), PROBED_AFTER_S)
        except TimeoutError:
            if await self._is_silent() and not self._answered.is_set():
                self._ended(asyncio.get_running_loop().time() - began)
                for limit in self._in_flight:
                    limit.reschedule(0.0)

    async def _is_silent(self) -> bool:
        from openai import APIConnectionError, APIStatusError

        try:
            async with asyncio.timeout(PROBE_S):
                await self._probe()
        except APIStatusError:
            return False
        except (TimeoutError, APIConnectionError):
            return True
        return False
