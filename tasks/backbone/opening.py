"""Opens a backbone for one run: its source of replies, in its service tier, and what the run shares."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from tasks.backbone.batches.backbone import BatchBackbone
from tasks.backbone.budget import Budget
from tasks.backbone.cache.store import ReplyCache
from tasks.backbone.endpoint.auto_mode import KnownEndpoints, find_response_mode
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.endpoint.wire import address_of
from tasks.backbone.kind import kind_of
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Backbone
from tasks.backbone.recordings import Observations
from tasks.backbone.replies.format import ReplyFormats
from tasks.backbone.tiers import BATCH, Pace
from tasks.core.errors import ConfigurationError
from tasks.settings.backbone import BackboneSettings

GRACE_S = 15.0
"""Seconds to wait for calls in flight after a Ctrl-C."""


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
    """Shows in one line how far a batch is; `bool` shows nothing."""
    stop: asyncio.Event | None = None
    """Once this is set, no further request is sent; those in flight are awaited."""
    stop_now: asyncio.Event | None = None
    """Once this is set, calls in flight are given up."""
    given_up: Callable[[int], object] = bool
    """Called with the number of calls in flight that were given up; `bool` does nothing."""


def backbone_of(
    source: Backbone, settings: BackboneSettings, resources: RunResources = RunResources()
) -> MeteredBackbone:
    """Return what the stages of a run see of a source of replies."""
    kind = kind_of(settings)
    if kind.replays:
        settings = settings.model_copy(update={"epoch": None})  # recorded replies are the same in every epoch
    return MeteredBackbone(
        source,
        ReplyFormats.of(settings),
        settings=settings,
        cache=resources.cache if kind.paid else None,
        budget=resources.budget,
        observations=resources.observations,
    )


@asynccontextmanager
async def open_backbone(
    settings: BackboneSettings, resources: RunResources = RunResources()
) -> AsyncIterator[MeteredBackbone]:
    """Open a backbone for one run, in the running event loop; yield what stages see of it.

    On exit, also by Ctrl-C, nothing more is sent, and calls in flight get `GRACE_S` seconds. The cache stays open.
    """
    settings = await find_response_mode(settings, resources.endpoints)
    async with AsyncExitStack() as stack:
        source = kind_of(settings).create(settings)
        if isinstance(source, AbstractAsyncContextManager):
            await stack.enter_async_context(source)
        if isinstance(source, EndpointBackbone):
            source = _tiered(source, settings, resources)
            if isinstance(source, BatchBackbone):
                stack.push_async_callback(source.close)
        backbone = backbone_of(source, settings, resources)
        stopping = asyncio.create_task(_wind_down_at(resources.stop, backbone))
        try:
            yield backbone
        finally:
            stopping.cancel()
            resources.given_up(await backbone.drain(GRACE_S, resources.stop_now))


async def _wind_down_at(stop: asyncio.Event | None, backbone: MeteredBackbone) -> None:
    """Send no further request once the user stops the run, not even one that waits for others in flight."""
    if stop:
        await stop.wait()
        backbone.wind_down()


def _tiered(endpoint: EndpointBackbone, settings: BackboneSettings, resources: RunResources) -> Backbone:
    if settings.tier != BATCH:
        endpoint.pace = resources.pace
        endpoint.report = resources.report
        return endpoint
    if resources.cache is None:
        raise ConfigurationError(f"backbone.tier={settings.tier}: batches are kept beside the reply cache.")
    store = resources.cache.batches(address_of(settings))
    return BatchBackbone(endpoint, settings, store, resources.pace, resources.report)
