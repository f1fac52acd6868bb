"""Backbone with a reply cache."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tasks.backbone.cache.base import ReplyCache
from tasks.backbone.protocol import Backbone, Reply, Request, request_key
from tasks.core.errors import BackboneError

log = logging.getLogger(__name__)

GRACE_S = 15.0
"""Seconds to wait for calls in flight after a Ctrl-C."""
UNSENT_S = 0.2
"""Seconds in which the requests that were not sent fail, so that they do not count as calls in flight."""


class CachedBackbone:
    """Backbone that looks up every request before sending it, and stores every reply before returning it.

    Any reply may be reused: the sample index is part of every key, so a repeated sample is requested as such
    (`Request.sample`), and at temperature 0 it changes nothing. Identical requests at the same time are sent
    once; the other callers get the reply as cached.

    A cached reply costs nothing now: its call has `cached` True, 0.0 seconds, no retries and `cost_usd` 0.0,
    and keeps the tokens as they were reported, and what it cost when it was paid as `from_scratch_usd`.

    A call in flight outlives its caller: cancelled (Ctrl-C, a question's deadline), its reply still goes into
    the cache when it comes, but in no stage's cost. `drain` waits for such replies.
    """

    def __init__(self, inner: Backbone, cache: ReplyCache, name: str = "") -> None:
        """Wrap the backbone that is paid. The cache stays open when this is closed; its entries have the name."""
        self.inner = inner
        self._cache = cache
        self._name = name
        self._in_flight: dict[str, asyncio.Task[Reply]] = {}
        cache.stop_on_failure(self._wind_down)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The inner backbone's."""
        return self.inner.identity

    async def complete(self, request: Request) -> Reply:
        """Answer from the cache, from a call in flight, or by a call.

        Raises:
            BackboneError: there is no answer; see the inner backbone.
            StoreError: the cache cannot be read; no request is sent.
        """
        key = request_key(self.identity, request)
        call = self._in_flight.get(key)
        if call is not None:
            return _as_cached(await asyncio.shield(call))
        call = asyncio.create_task(self._answer(key, request))
        self._in_flight[key] = call
        call.add_done_callback(lambda done: self._landed(key, done))
        return await asyncio.shield(call)

    async def drain(self, grace_s: float = GRACE_S, stop_now: asyncio.Event | None = None) -> int:
        """Send no further requests, wait for calls in flight, and cancel those that take too long; return how many.

        The wait also ends when `stop_now` is set. Replies to cancelled calls may have been paid for and are lost.
        """
        self._wind_down()
        calls = list(self._in_flight.values())
        if not calls:
            return 0
        await asyncio.wait(calls, timeout=min(UNSENT_S, grace_s))
        stopping = asyncio.create_task((stop_now or asyncio.Event()).wait())
        landing = asyncio.create_task(asyncio.wait(calls))
        await asyncio.wait((landing, stopping), timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        landing.cancel()
        late = [call for call in calls if not call.done()]
        for call in late:
            call.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        if late:
            log.warning("%s: %d replies had not come when the run ended", self._name, len(late))
        return len(late)

    async def _answer(self, key: str, request: Request) -> Reply:
        kept = await self._cache.aget(key)
        if kept is not None:
            return _as_cached(kept)
        self._cache.check_room()
        try:
            reply = await self.inner.complete(request)
        except BackboneError:
            self._cache.check_room()  # it was not sent, since another reply could not be stored meanwhile
            raise
        await self._cache.aput(reply, request, self.identity, self._name)
        return reply

    def _wind_down(self) -> None:
        if wind_down := getattr(self.inner, "wind_down", None):
            wind_down()

    def _landed(self, key: str, call: asyncio.Task[Reply]) -> None:
        self._in_flight.pop(key, None)
        if not call.cancelled() and call.exception() is not None:
            # Retrieve the exception, or asyncio logs it if every caller has been cancelled.
            log.debug("%s: a call failed: %s", self._name, call.exception())


def _as_cached(reply: Reply) -> Reply:
    call = reply.call
    cached = replace(
        call, cached=True, seconds=0.0, retries=0, cost_usd=0.0, from_scratch_usd=call.uncached_cost_usd
    )
    return replace(reply, call=cached)
