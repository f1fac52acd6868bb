"""The batches of a backbone at its provider: their states, and their cancellation."""

import asyncio
import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tasks.backbone.batches.choice import provider_of
from tasks.backbone.batches.provider import RefusedError
from tasks.backbone.batches.retrying import RetryingProvider
from tasks.backbone.batches.store import KeptBatch
from tasks.backbone.cache.store import ReplyCache
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.endpoint.formats.identity import address_of
from tasks.core.errors import ConfigurationError, did_you_mean
from tasks.core.wording import duration
from tasks.documents.model import Block, Column, Document, Sentence, Table
from tasks.settings.backbone import BackboneSettings

UNSUBMITTED = "not known to be submitted"
ENDED = "ended"
GONE = "gone: the provider no longer has it"


@dataclass(frozen=True, slots=True)
class ShownBatch:
    """A batch and its state."""

    kept: KeptBatch
    status: str  # in the provider's words
    ended: bool
    answered: int | None = None  # requests that have an answer; None if the provider did not say

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "id": self.kept.batch_id,
            "submitted": _moment(self.kept).isoformat(),
            "requests": self.kept.requests,
            "answered": self.answered,
            "status": self.status,
            "ended": self.ended,
            "seconds": self.kept.seconds,
        }


async def find_batches(
    settings: BackboneSettings, cache: ReplyCache, cancelled: Sequence[str] | None = None
) -> list[ShownBatch]:
    """Return the batches of a backbone's endpoint, the latest first; cancel some that have not ended.

    Args:
        settings: settings of the backbone.
        cache: the reply cache, whose database has the batches.
        cancelled: ids of the batches to cancel; () for all that have not ended, None for none.

    Raises:
        ConfigurationError: an id is not that of a batch of this endpoint; nothing is cancelled.
        BackboneError: the provider does not answer.
    """
    kept = cache.batches(address_of(settings)).kept()
    known = {each.batch_id for each in kept if each.batch_id}
    for batch_id in cancelled or ():
        if batch_id not in known:
            raise ConfigurationError(
                f'"{batch_id}" is no batch of this endpoint in the reply cache. {did_you_mean(batch_id, known)} '
                "All of them: leave out --cancel."
            )
    async with EndpointBackbone(settings) as endpoint:
        provider = RetryingProvider(
            provider_of(endpoint, settings), settings, endpoint.message, asyncio.Event()
        )
        found = [await _state(each, provider) for each in kept]
        if cancelled is None:
            return found
        return [
            await _cancelled(each, provider)
            if not each.ended and each.kept.batch_id and (not cancelled or each.kept.batch_id in cancelled)
            else each
            for each in found
        ]


async def _state(kept: KeptBatch, provider: RetryingProvider) -> ShownBatch:
    if kept.seconds is not None:
        return ShownBatch(kept, ENDED, ended=True)
    if kept.batch_id is None:
        return ShownBatch(kept, UNSUBMITTED, ended=False)
    try:
        state = await provider.state(kept.batch_id)
    except RefusedError:
        return ShownBatch(kept, GONE, ended=True)
    return ShownBatch(replace(kept, seconds=state.seconds), state.status, state.ended, state.answered)


async def _cancelled(shown: ShownBatch, provider: RetryingProvider) -> ShownBatch:
    try:
        state = await provider.cancel(shown.kept.batch_id or "")
    except RefusedError:
        return replace(shown, status=GONE, ended=True)
    return replace(shown, status=state.status, ended=state.ended, answered=state.answered)


def batches_document(settings: BackboneSettings, found: Sequence[ShownBatch]) -> Document:
    """Return the batches as a table."""
    title = f"Batches of {settings.name}"
    if not found:
        return Document(title, (Sentence("None: no batch was submitted to this endpoint."),))
    columns = (
        Column("batch", "text"), Column("submitted", "text"), Column("requests"), Column("answered"),
        Column("status", "text"), Column("took"),
    )  # fmt: skip
    table = Table("", columns, tuple(map(_row, found)), keep=2)
    blocks: list[Block] = [table]
    if left := sum(not each.ended for each in found):
        blocks.append(
            Sentence(
                f"Not ended: {left:,}. The command that submitted a batch collects its answers.",
                "note",
            )
        )
    return Document(title, tuple(blocks))


def _row(shown: ShownBatch) -> tuple[str, ...]:
    kept = shown.kept
    return (
        kept.batch_id or "–",
        f"{_moment(kept).astimezone():%Y-%m-%d %H:%M}",
        f"{kept.requests:,}",
        "–" if shown.answered is None else f"{shown.answered:,}",
        shown.status,
        duration(kept.seconds),
    )


def _moment(kept: KeptBatch) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(kept.submitted_at, datetime.UTC)
