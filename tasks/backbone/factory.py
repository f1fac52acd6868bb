"""Backbones from their settings."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tasks.backbone.cache.backbone import GRACE_S, CachedBackbone
from tasks.backbone.cache.store import ReplyCache
from tasks.backbone.endpoint.client import OpenAIBackbone, api_key
from tasks.backbone.protocol import Backbone
from tasks.backbone.recordings.replay import open_recording
from tasks.settings.backbone import BackboneSettings
from tasks.settings.kinds import BACKBONES


@dataclass(frozen=True)
class BackboneKind:
    """One kind of backbones: what `kind:` in a backbone's settings names.

    Attributes:
        make: makes a backbone from its settings. If that is an async context manager, it is entered for the run; if
            it has a method `wind_down`, that is called when nothing more is to be sent.
        settings: the model of its settings.
        check: finds what would keep the backbone from being asked, before anything is paid; raises
            ConfigurationError.
        paid: whether replies cost money or time: they are then kept in the reply cache.
        replays: whether it answers from a recording.
    """

    make: Callable[[Any], Backbone]
    settings: type[BackboneSettings] = BackboneSettings
    check: Callable[[Any], object] = bool
    paid: bool = True
    replays: bool = False


def _offline(settings: BackboneSettings) -> Backbone:
    from tasks.backbone.offline import OfflineBackbone

    return OfflineBackbone()


BACKBONES.register("openai")(BackboneKind(OpenAIBackbone, check=api_key))
BACKBONES.register("offline")(BackboneKind(_offline, paid=False))
BACKBONES.register("replay")(BackboneKind(open_recording, check=open_recording, paid=False, replays=True))


def kind_of(settings: BackboneSettings) -> BackboneKind:
    """Return the kind of a backbone.

    Raises:
        ConfigurationError: there is none of that name.
    """
    found: BackboneKind = BACKBONES.get(settings.kind)
    return found


def check_backbone(settings: BackboneSettings) -> None:
    """Find what would keep the backbone from being asked, before anything is paid.

    Raises:
        ConfigurationError: the API key is missing, or there is no recording to serve.
        DataError: what should be served is no recording.
    """
    kind_of(settings).check(settings)


@asynccontextmanager
async def open_backbone(
    settings: BackboneSettings,
    *,
    cache: ReplyCache | None,
    grace_s: float = GRACE_S,
    stop_now: asyncio.Event | None = None,
) -> AsyncIterator[Backbone]:
    """Open a backbone for one run, in the running event loop.

    On exit, also by Ctrl-C, nothing more is sent, calls in flight get `grace_s` seconds to reach the
    cache, and the connections are closed. The cache stays open.

    Replies that cost nothing are not cached: they come faster than from a file, and would only hide the paid ones
    in the cache's listing.

    Args:
        settings: which backbone.
        cache: where paid replies are kept; None to keep none.
        grace_s: seconds for calls in flight at the end.
        stop_now: once this is set, calls in flight are given up.

    Raises:
        ConfigurationError, DataError: as `check_backbone`.
    """
    kind = kind_of(settings)
    async with AsyncExitStack() as stack:
        backbone = kind.make(settings)
        if isinstance(backbone, AbstractAsyncContextManager):
            await stack.enter_async_context(backbone)
        if cache is None or not kind.paid:
            yield backbone
            return
        cached = CachedBackbone(backbone, cache, settings.name)
        try:
            yield cached
        finally:
            await cached.drain(grace_s, stop_now)
