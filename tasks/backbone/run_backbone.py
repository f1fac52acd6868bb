"""A backbone as one run uses it: its replies are cached, its cost is limited, and its exchanges are kept."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tasks.backbone.batches.backbone import BatchBackbone
from tasks.backbone.cache.store import ReplyCache
from tasks.backbone.endpoint.auto_mode import KnownEndpoints, find_response_mode
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.endpoint.formats.answer import address_of
from tasks.backbone.endpoint.samples import SampledBackbone
from tasks.backbone.kinds.kind import kind_of
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.pricing import Budget
from tasks.backbone.protocol import Backbone, Reply, Request, request_key
from tasks.backbone.recordings import Observations
from tasks.backbone.tiers import FLEX, FlexBackbone, Pace
from tasks.core.errors import BackboneError, ConfigurationError
from tasks.core.outcome import STANDARD
from tasks.settings.backbone import BackboneSettings

log = logging.getLogger(__name__)

GRACE_S = 15.0
"""Seconds to wait for calls in flight after a Ctrl-C."""
UNSENT_S = 0.2
"""Seconds in which the requests that were not sent fail, so that they do not count as calls in flight."""


@dataclass(frozen=True)
class RunResources:
    """What the backbones of one run share; None: without it."""

    cache: ReplyCache | None = None
    """Where paid replies are kept. Free ones come faster than from a file, and would hide the paid ones there."""
    budget: Budget | None = None
    observations: Observations | None = None
    endpoints: KnownEndpoints | None = None
    """What is known about endpoints."""
    pace: Pace = field(default_factory=lambda: Pace(None))
    """Whether the run is on time; until then requests are sent in the cheaper tier."""
    report: Callable[[str], object] = bool
    """Shows in one line how far a batch is."""
    stop_now: asyncio.Event | None = None
    """Once this is set, calls in flight are given up."""
    given_up: Callable[[int], object] = bool
    """Called with the number of calls in flight that were given up."""


class RunBackbone:
    """Backbone of one run around a source of replies: an endpoint, the offline model, a recording, a user's own.

    Any cached reply may be reused: the sample index is part of every key, so a repeated sample is requested as such
    (`Request.sample`), and at temperature 0 it changes nothing. With an epoch, replies are not those of another epoch.
    Equal requests at the same time are sent once; the other callers get the reply as cached. A cached reply costs
    nothing now: its call has `cached` True, 0.0 seconds, no retries and `cost_usd` 0.0, and keeps the tokens as they
    were reported, and what it cost when it was paid as `from_scratch_usd`.

    A call in flight outlives its caller: cancelled (Ctrl-C, a question's deadline), its reply still goes into the cache
    when it comes, but in no stage's cost. `drain` waits for such replies.
    """

    def __init__(
        self, source: Backbone, settings: BackboneSettings, resources: RunResources = RunResources()
    ) -> None:
        kind = kind_of(settings)
        self.source = source
        self._settings = settings
        self._cache = resources.cache if kind.paid else None
        self._budget = resources.budget
        self._observations = resources.observations
        self._epoch = None if kind.replays else settings.epoch
        self._in_flight: dict[str, asyncio.Task[Reply]] = {}
        if self._cache:
            self._cache.stop_on_failure(self.wind_down)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The source's, and the epoch."""
        return self.source.identity if self._epoch is None else {**self.source.identity, "epoch": self._epoch}

    async def complete(self, request: Request) -> Reply:
        """Answer a request from the cache, from an equal call in flight, or by a call."""
        if self._cache is None:
            reply = await self._answer("", request)
        else:
            key = request_key(self.identity, request)
            call = self._in_flight.get(key)
            joined = call is not None
            if call is None:
                call = self._in_flight[key] = asyncio.create_task(self._answer(key, request))
                call.add_done_callback(lambda done: self._landed(key, done))
            reply = await asyncio.shield(call)
            reply = _as_cached(reply) if joined else reply
        if self._observations:
            self._observations.add(request, reply)
        return reply

    async def _answer(self, key: str, request: Request) -> Reply:
        # 1. A stored reply costs nothing.
        if self._cache and (stored := await self._cache.aget(key)) is not None:
            return _as_cached(stored)
        # 2. A request is sent only if there is money for it, and room for its reply.
        if self._cache:
            self._cache.check_room()
        if self._budget:
            self._budget.check()
        # 3. The request.
        try:
            reply = await self.source.complete(request)
        except BackboneError:
            if self._cache:
                self._cache.check_room()  # it was not sent, since another reply could not be stored meanwhile
            raise
        # 4. Its reply is charged, and stored before it is used.
        if self._budget:
            self._budget.charge(request, reply, self._settings)
        if self._cache:
            await self._cache.aput(reply, request, self.identity, self._settings.name)
        return reply

    async def drain(self, grace_s: float = GRACE_S, stop_now: asyncio.Event | None = None) -> int:
        """Send no further requests, wait for calls in flight, and cancel those that take too long; return how many.

        The wait also ends when `stop_now` is set. Replies to cancelled calls may have been paid for and are lost.
        """
        self.wind_down()
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
            log.warning("%s: %d replies had not come when the run ended", self._settings.name, len(late))
        return len(late)

    def wind_down(self) -> None:
        """Send nothing more, if the source can."""
        if wind_down := getattr(self.source, "wind_down", None):
            wind_down()

    def _landed(self, key: str, call: asyncio.Task[Reply]) -> None:
        self._in_flight.pop(key, None)
        if not call.cancelled() and call.exception() is not None:
            # Retrieve the exception, or asyncio logs it if every caller has been cancelled.
            log.debug("%s: a call failed: %s", self._settings.name, call.exception())


def _as_cached(reply: Reply) -> Reply:
    call = reply.call
    cached = replace(
        call, cached=True, seconds=0.0, retries=0, cost_usd=0.0, from_scratch_usd=call.uncached_cost_usd
    )
    return replace(reply, call=cached)


@asynccontextmanager
async def open_backbone(
    settings: BackboneSettings, resources: RunResources = RunResources()
) -> AsyncIterator[MeteredBackbone]:
    """Open a backbone for one run, in the running event loop; yield what stages see of it.

    On exit, also by Ctrl-C, nothing more is sent, and calls in flight get `GRACE_S` seconds. The cache stays open.
    """
    settings = await find_response_mode(settings, resources.endpoints)
    async with AsyncExitStack() as stack:
        source = kind_of(settings).make(settings)
        if isinstance(source, AbstractAsyncContextManager):
            await stack.enter_async_context(source)
        if isinstance(source, EndpointBackbone):
            source = _tiered(source, settings, resources)
            if isinstance(source, BatchBackbone):
                await stack.enter_async_context(source)
        backbone = RunBackbone(source, settings, resources)
        try:
            yield MeteredBackbone.of(backbone, settings)
        finally:
            resources.given_up(await backbone.drain(stop_now=resources.stop_now))


def _tiered(endpoint: EndpointBackbone, settings: BackboneSettings, resources: RunResources) -> Backbone:
    """Return the endpoint in the service tier of the settings; it groups samples, except in batches."""
    if settings.tier in (STANDARD, FLEX):
        backbone: Backbone = endpoint
        if settings.samples_per_request > 1:
            backbone = SampledBackbone(endpoint, settings.samples_per_request)
        if settings.tier == FLEX:
            backbone = FlexBackbone(backbone, settings.flex_wait_s, resources.pace)
        return backbone
    if resources.cache is None:
        raise ConfigurationError(f"backbone.tier={settings.tier}: batches are kept beside the reply cache.")
    store = resources.cache.batches(address_of(settings))
    return BatchBackbone(endpoint, settings, store, resources.pace, resources.report)


def source_of(backbone: Backbone | MeteredBackbone) -> Backbone:
    """Return what answers in the end: the endpoint, the recording or the offline model."""
    while inner := getattr(backbone, "inner", getattr(backbone, "source", None)):
        backbone = inner
    assert not isinstance(backbone, MeteredBackbone)
    return backbone
