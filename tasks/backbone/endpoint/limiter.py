"""What a request waits for before it is sent: a limit that adapts, a first answer, and a sign of life."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from weakref import WeakValueDictionary

from tasks.core.deadline import Deadline, deadline

log = logging.getLogger(__name__)


class AdaptiveLimit:
    """FIFO semaphore with additive increase and multiplicative decrease of its size.

    It starts at `max_size`. A rate limit halves it, once per burst: of the requests in flight together only the first
    refused one counts, as in TCP. Every success adds 1/size, so the size grows by about one per round of replies,
    up to `max_size`. After a `Retry-After`, no request is admitted before that time.

    Use it in one event loop only.
    """

    def __init__(self, max_size: int, name: str = "") -> None:
        self._max_size = max_size
        self._size = float(max_size)
        self._name = name  # begins its messages in the log
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()  # in the order in which they are admitted
        self._halved_at = float("-inf")  # loop time
        self._held_until = float("-inf")  # loop time before which no request is admitted
        self._wake_up: asyncio.TimerHandle | None = None  # admits requests at `_held_until`

    @property
    def size(self) -> int:
        """Requests that may be in flight now."""
        return int(self._size)

    @asynccontextmanager
    async def slot(self, *, ahead: bool = False) -> AsyncIterator[float]:
        """Acquire a slot for the block, a retry `ahead` of all others; yield the loop time at which it was acquired."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        add = self._waiting.appendleft if ahead else self._waiting.append
        add(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it had been given a slot
                self._leave()
            raise
        try:
            yield loop.time()
        finally:
            self._leave()

    def succeeded(self) -> None:
        """Increase the size after a success."""
        self._size = min(self._max_size, self._size + 1 / self._size)
        self._admit()

    def rate_limited(self, granted_at: float, retry_after_s: float | None = None) -> None:
        """Halve the size after a refused request, and admit none for `retry_after_s` seconds; None: without a pause.

        `granted_at` is the loop time that `slot` yielded. If it was not after the last halving, the size stays: the
        refusal belongs to the same burst. Of several pauses the one that ends last counts.
        """
        loop = asyncio.get_running_loop()
        if granted_at > self._halved_at:
            self._halved_at = loop.time()
            self._size = max(1.0, self._size / 2)
            log.info("%s: rate limited, at most %d requests in flight now", self._name, self.size)
        if retry_after_s is not None and loop.time() + retry_after_s > self._held_until:
            self._held_until = loop.time() + retry_after_s
            if self._wake_up is not None:
                self._wake_up.cancel()
            self._wake_up = loop.call_at(self._held_until, self._admit)

    def open_up(self) -> None:
        """Admit all waiting requests, which then fail without being sent."""
        self._held_until = float("-inf")
        self._size = self._max_size = self._max_size + len(self._waiting)
        if self._wake_up is not None:
            self._wake_up.cancel()
        self._admit()

    def _leave(self) -> None:
        self._in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        # A timer may fire slightly early; without the tolerance the queue would not be woken again.
        held = asyncio.get_running_loop().time() < self._held_until - 0.001
        while self._waiting and self._in_flight < self.size and not held:
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)


class Queue:
    """Time limits of the requests in flight, which count from the last answer to a request that was sent before.

    A server that works on one request at a time begins a request when it has answered those sent before, so the time
    of a request must not count while it waits for them.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._limits: list[Deadline] = []  # in the order in which the requests were sent

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Limit the time of a request; the block sends it, and ends without an exception if it was answered."""
        async with deadline(self._seconds) as limit:
            self._limits.append(limit)
            try:
                yield
                answered = asyncio.get_running_loop().time()
                # the server may have begun these only now
                for later in self._limits[self._limits.index(limit) + 1 :]:
                    later.renew(answered)
            finally:
                self._limits.remove(limit)


ALONE_S = 0.5
"""Seconds to wait for the first answer: a refusal arrives sooner, and a request that takes longer is being answered."""


class Pilot:
    """Sends requests one after another until one is answered, so that a wrong key or parameter is refused only once."""

    def __init__(self) -> None:
        self._answered = False
        self._alone = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until a request may be sent; the block sends it.

        Until the first answer the block holds a lock. A request that has waited `ALONE_S` seconds for it is sent
        without it.
        """
        async with AsyncExitStack() as lock_holder:
            if not self._answered:
                with suppress(TimeoutError):
                    async with asyncio.timeout(ALONE_S):
                        await lock_holder.enter_async_context(self._alone)
            if self._answered:
                # Release the lock before the block: other requests need not wait for this one.
                await lock_holder.aclose()
            yield

    def answered(self) -> None:
        """Note that a request was answered."""
        self._answered = True


PROBE_S = 25.0
"""Seconds within which an endpoint has to answer GET /models, with any status."""


class SilentError(Exception):
    """Endpoint that accepts connections and does not answer."""


_ANSWERED: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
"""Whether an endpoint has answered, with any status, by host and port, as long as this process has a client of it."""


class Probe:
    """Sends GET /models, which costs nothing, to an endpoint before the first request.

    A server that works on one request at a time answers nothing else meanwhile, so only before the first request of
    this process does silence mean a fault. Once it has answered, with any status, no further probe is sent.
    """

    def __init__(self, host: str, ask: Callable[[], Awaitable[object]], timeout_s: float) -> None:
        self._has_answered = _ANSWERED.setdefault(host, asyncio.Event())
        self._ask = ask
        self.timeout_s = min(PROBE_S, timeout_s)
        self._asking: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """Wait until the endpoint has answered; raise why it cannot. All callers wait for the same answer."""
        if not self._has_answered.is_set():
            self._asking = self._asking or asyncio.create_task(self._ask_in_time())
            await asyncio.shield(self._asking)

    def answered(self) -> None:
        """Note that the endpoint has answered."""
        self._has_answered.set()

    def close(self) -> None:
        """Stop the probe."""
        if self._asking is not None:
            self._asking.cancel()

    async def _ask_in_time(self) -> None:
        """Send the request, and note that the endpoint answers; raise `SilentError` if it only accepts connections."""
        from aiohttp import ConnectionTimeoutError

        try:
            async with deadline(self.timeout_s):
                await self._ask()
        except ConnectionTimeoutError:
            raise  # no connection in time: the endpoint cannot be reached, which is not the same as silent
        except TimeoutError:
            if not self._has_answered.is_set():  # the client of another model may have had an answer
                raise SilentError from None
        finally:
            self._asking = None
        self.answered()
