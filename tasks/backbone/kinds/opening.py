"""Opens the backbones of a run, each in its layers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tasks.backbone.batches.backbone import BatchBackbone, Shown, unseen
from tasks.backbone.batches.choice import provider_of
from tasks.backbone.cache.backbone import CachedBackbone
from tasks.backbone.cache.store import ReplyCache
from tasks.backbone.check.known import KnownEndpoints
from tasks.backbone.check.response_mode import find_response_mode
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.endpoint.formats.identity import address_of
from tasks.backbone.endpoint.samples import SampledBackbone
from tasks.backbone.kinds.kind import kind_of
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.pace import Pace
from tasks.backbone.pricing import Budget, BudgetedBackbone
from tasks.backbone.protocol import Backbone, Reply, Request
from tasks.backbone.recordings.observed import Observations, ObservedBackbone
from tasks.backbone.tiers import FLEX, FlexBackbone
from tasks.core.errors import ConfigurationError
from tasks.core.outcome import STANDARD
from tasks.settings.backbone import BackboneSettings


@dataclass(frozen=True)
class Layers:
    """What the backbones of one run share; None leaves a layer out."""

    cache: ReplyCache | None = None
    """Where paid replies are kept. Free ones come faster than from a file, and would hide the paid ones there."""
    budget: Budget | None = None
    observations: Observations | None = None
    endpoints: KnownEndpoints | None = None
    """What is known about endpoints."""
    pace: Pace = field(default_factory=lambda: Pace(None))
    """Whether the run is on time; until then requests are sent in the cheaper tier."""
    shown: Shown = unseen
    """Shows the work of each batch."""
    report: Callable[[str], object] = bool
    """Shows in one line how far a batch is."""
    stop_now: asyncio.Event | None = None
    """Once this is set, calls in flight are given up."""
    given_up: Callable[[int], object] = bool
    """Called with the number of calls in flight that were given up."""


async def with_response_mode(settings: BackboneSettings, layers: Layers) -> BackboneSettings:
    """Return the settings with a response mode in place of "auto".

    Raises:
        CrosscheckError: as `find_response_mode`.
    """
    if layers.endpoints is None or not kind_of(settings).endpoint:
        return settings
    return await find_response_mode(settings, layers.endpoints)


@asynccontextmanager
async def open_backbone(
    settings: BackboneSettings, layers: Layers = Layers()
) -> AsyncIterator[MeteredBackbone]:
    """Open a backbone for one run, in the running event loop; yield what stages see of it.

    On exit, also by Ctrl-C, nothing more is sent, calls in flight get `GRACE_S` seconds to reach the
    cache, and the connections are closed. The cache stays open.

    Raises:
        ConfigurationError, DataError: as `check_backbone`.
        CrosscheckError: as `find_response_mode`.
    """
    settings = await with_response_mode(settings, layers)
    kind = kind_of(settings)
    async with AsyncExitStack() as stack:
        backbone = kind.make(settings)
        if isinstance(backbone, AbstractAsyncContextManager):
            await stack.enter_async_context(backbone)
        if isinstance(backbone, EndpointBackbone):
            backbone = _tiered(backbone, settings, layers)
            if isinstance(backbone, BatchBackbone):
                await stack.enter_async_context(backbone)
        if settings.epoch is not None and not kind.replays:
            backbone = _EpochBackbone(backbone, settings.epoch)
        if layers.cache and kind.paid:
            backbone = cached = CachedBackbone(backbone, layers.cache, settings.name)
            stack.push_async_callback(_drain, cached, layers)
        if layers.budget:
            backbone = BudgetedBackbone(backbone, layers.budget, settings)
        if layers.observations:
            backbone = ObservedBackbone(backbone, layers.observations)
        yield MeteredBackbone.of(backbone, settings)


async def _drain(cached: CachedBackbone, layers: Layers) -> None:
    layers.given_up(await cached.drain(stop_now=layers.stop_now))


def _tiered(endpoint: EndpointBackbone, settings: BackboneSettings, layers: Layers) -> Backbone:
    """Return the endpoint in the service tier of the settings; it groups samples, except in batches."""
    if settings.tier in (STANDARD, FLEX):
        samples = settings.samples_per_request
        backbone = SampledBackbone(endpoint, samples) if samples > 1 else endpoint
        return (
            FlexBackbone(backbone, settings.flex_wait_s, layers.pace) if settings.tier == FLEX else backbone
        )
    if layers.cache is None:
        raise ConfigurationError(f"backbone.tier={settings.tier}: batches are kept beside the reply cache.")
    provider, store = provider_of(endpoint, settings), layers.cache.batches(address_of(settings))
    return BatchBackbone(endpoint, settings, provider, store, layers.pace, layers.shown, layers.report)


class _EpochBackbone:
    """Backbone whose replies, and the stage results made of them, are not those of another epoch."""

    def __init__(self, inner: Backbone, epoch: str) -> None:
        self.inner = inner
        self._epoch = epoch

    @property
    def identity(self) -> Mapping[str, Any]:
        """The inner backbone's, and the epoch."""
        return {**self.inner.identity, "epoch": self._epoch}

    async def complete(self, request: Request) -> Reply:
        """Answer one request, as the inner backbone does."""
        return await self.inner.complete(request)

    def wind_down(self) -> None:
        """Send nothing more, if the inner backbone can."""
        if wind_down := getattr(self.inner, "wind_down", None):
            wind_down()


def source_of(backbone: Backbone | MeteredBackbone) -> Backbone:
    """Return the backbone inside of all layers: the endpoint, the recording or the offline model."""
    while inner := getattr(backbone, "inner", None):
        backbone = inner
    assert not isinstance(backbone, MeteredBackbone)
    return backbone
