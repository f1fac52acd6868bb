"""Limits on concurrent requests: one that adapts to the endpoint's rate limits, and one for the first of each kind."""

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from tasks.backbone.endpoint.connection import Deadline, deadline

log = logging.getLogger(__name__)


class AdaptiveLimit:
    """FIFO semaphore with additive increase and multiplicative decrease of its size.

    It starts at `most`. A rate limit halves it, once per burst: of the requests in flight together only the first
    refused one counts, as in TCP. Every success adds 1/size, so the size grows by about one per round of replies,
    up to `most`. After a `Retry-After`, no request is admitted before that time.

    Use it in one event loop only.
    """

    def __init__(self, most: int, name: str = "") -> None:
        self._most = most
        self._size = float(most)
        self._name = name
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._halved_at = float("-inf")
        self._held_until = float("-inf")
        self._wake_up: asyncio.TimerHandle | None = None

    @property
    def size(self) -> int:
        """Requests that may be in flight now."""
        return int(self._size)

    @asynccontextmanager
    async def slot(self, *, ahead: bool = False) -> AsyncIterator[float]:
        """Acquire a slot for the block, a retry `ahead` of all others; yield the loop time at which it was acquired."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.appendleft(turn) if ahead else self._waiting.append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise
        try:
            yield loop.time()
        finally:
            self._leave()

    def succeeded(self) -> None:
        """Increase the size after a success."""
        self._size = min(self._most, self._size + 1 / self._size)
        self._admit()

    def rate_limited(self, granted_at: float, retry_after_s: float | None = None) -> None:
        """Halve the size, unless the request was sent before the last halving.

        Args:
            granted_at: loop time at which the refused request acquired its slot.
            retry_after_s: seconds during which no request is admitted; None for no pause.
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
        self._size = self._most = self._most + len(self._waiting)
        if self._wake_up is not None:
            self._wake_up.cancel()
        self._admit()

    def _leave(self) -> None:
        self._in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._in_flight < self.size and not self._held():
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)

    def _held(self) -> bool:
        # A timer may fire slightly early; without the tolerance the queue would not be woken again.
        return asyncio.get_running_loop().time() < self._held_until - 0.001


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
        """Limit the time of a request; the block sends it, and ends without an exception if it was answered.

        Raises:
            TimeoutError: the time was over.
        """
        async with deadline(self._seconds) as limit:
            self._limits.append(limit)
            try:
                yield
                for later in self._limits[self._limits.index(limit) + 1 :]:
                    later.renew()
            finally:
                self._limits.remove(limit)


ALONE_S = 5.0
"""Longest wait for the first request of a kind; one that takes longer is being answered, not refused."""


class Pilots:
    """Sends requests of a kind one after another, until the first of them is answered.

    Requests are of one kind if they differ in the messages and the seed only. An endpoint that refuses a parameter
    does so at once.
    """

    def __init__(self) -> None:
        self._accepted: set[str] = set()
        self._turns: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def turn(self, kind: str) -> AsyncIterator[None]:
        """Wait until a request of the kind may be sent; the block sends it."""
        turn, alone = self._turns.setdefault(kind, asyncio.Lock()), False
        if kind not in self._accepted:
            with suppress(TimeoutError):
                async with asyncio.timeout(ALONE_S):
                    alone = await turn.acquire()
        if alone and kind in self._accepted:
            turn.release()
            alone = False
        try:
            yield
        finally:
            if alone:
                turn.release()

    def accept(self, kind: str) -> None:
        """Note that a request of the kind was answered."""
        self._accepted.add(kind)


_OF_ONE_REQUEST = ("messages", "input", "system", "seed", "prompt_cache_key")


def kind_of_request(body: Mapping[str, Any]) -> str:
    """Return a key that is equal for requests with the same parameters, in any protocol.

    >>> kind_of_request({"messages": [], "seed": 3, "temperature": 0.0})
    '{"temperature": 0.0}'
    """
    return json.dumps({name: value for name, value in body.items() if name not in _OF_ONE_REQUEST})
