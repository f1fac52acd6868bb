"""Backbones from their settings."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tasks.backbone.cache.backbone import GRACE_S, CachedBackbone
from tasks.backbone.cache.store import ReplyCache
from tasks.backbone.endpoint.client import OpenAIBackbone, api_key
from tasks.backbone.protocol import Backbone
from tasks.backbone.recordings.replay import open_recording
from tasks.settings.backbone import BackboneSettings


def check_backbone(settings: BackboneSettings) -> None:
    """Find what would keep the backbone from being asked, before anything is paid.

    Raises:
        ConfigurationError: the API key is missing, or there is no recording to serve.
        DataError: what should be served is no recording.
    """
    if settings.kind == "openai":
        api_key(settings)
    if settings.kind == "replay":
        open_recording(settings)


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

    The offline backbone and recordings are not cached: they cost nothing and answer faster than a file, and their
    replies would only hide the paid ones in the cache's listing.

    Args:
        settings: which backbone.
        cache: where paid replies are kept; None to keep none.
        grace_s: seconds for calls in flight at the end.
        stop_now: once this is set, calls in flight are given up.

    Raises:
        ConfigurationError, DataError: as `check_backbone`.
    """
    if settings.kind == "replay":
        yield open_recording(settings)
        return
    check_backbone(settings)
    if settings.kind == "offline":
        from tasks.backbone.offline import OfflineBackbone

        yield OfflineBackbone()
        return
    async with OpenAIBackbone(settings) as client:
        if cache is None:
            yield client
            return
        cached = CachedBackbone(client, cache, settings.name)
        try:
            yield cached
        finally:
            await cached.drain(grace_s, stop_now)
