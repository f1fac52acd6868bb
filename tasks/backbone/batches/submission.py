"""Submission of one batch by several processes: one submits it, the others wait for its id."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tasks.backbone.batches.retrying import RetryingProvider
from tasks.backbone.batches.store import BatchStore, KeptBatch

BEAT_S = 2.0
"""Seconds between two signs of life of a process that submits a batch."""
DEAD_S = 16.0
"""Seconds without a sign of life after which that process counts as dead."""


@asynccontextmanager
async def signs_of_life(store: BatchStore, token: str) -> AsyncIterator[None]:
    """Show other processes that this one is submitting a batch."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            await asyncio.to_thread(store.beat, token)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)


async def submitted_elsewhere(
    kept: KeptBatch, key: str, store: BatchStore, provider: RetryingProvider
) -> str | None:
    """Return the id of a batch that another process was to submit; None if that process died before.

    Its signs of life are compared with each other, not with a clock: the processes may run on different machines.

    Args:
        kept: the batch, without an id.
        key: one of its requests.
        store: where the other process notes the id.
        provider: finds a batch whose id was not noted.
    """
    beats, unchanged_s = kept.beats, 0.0
    while True:
        now = await asyncio.to_thread(store.batch_of, key)
        if now is None or now.token != kept.token:
            return None
        if now.batch_id is not None:
            return now.batch_id
        if (found := await provider.find(kept.token, kept.submitted_at, kept.requests)) is not None:
            return found
        if now.beats != beats:
            beats, unchanged_s = now.beats, 0.0
        elif unchanged_s >= DEAD_S:
            return None
        await provider.sleep(BEAT_S)
        unchanged_s += BEAT_S
