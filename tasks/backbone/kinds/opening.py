"""Open a backbone for one run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from tasks.backbone.cache.backbone import CachedBackbone
from tasks.backbone.cache.store import ReplyCache
from tasks.backbone.kinds.kind import kind_of
from tasks.backbone.protocol import Backbone
from tasks.settings.backbone import BackboneSettings


@asynccontextmanager
async def open_backbone(
    settings: BackboneSettings,
    *,
    cache: ReplyCache | None,
    stop_now: asyncio.Event | None = None,
) -> AsyncIterator[Backbone]:
    """Open a backbone for one run, in the running event loop.

    On exit, also by Ctrl-C, nothing more is sent, calls in flight get `GRACE_S` seconds to reach the
    cache, and the connections are closed. The cache stays open.

    Replies that cost nothing are not cached: they come faster than from a file, and would only hide the paid ones in
    the cache's listing. Paid replies are kept in `cache`, if there is one. Once `stop_now` is set, calls in flight are
    given up.

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
            await cached.drain(stop_now=stop_now)
