"""One bought reply: its record, and the row of the reply cache that keeps it; what a cache holds, counted."""

import datetime
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.backbone.protocol import Reply, Request, canonical_request
from tasks.records import Call, Usage


@dataclass(frozen=True, slots=True)
class Entry:
    """One bought reply.

    Attributes:
        key: sha256 of the canonical request.
        model: the model that answered.
        backbone: name of the backbone that asked.
        created_at: when it was bought, UTC, ISO 8601.
        usage: tokens, as reported then.
        text: the reply.
        finish: "length" when the model stopped at its token limit, else "stop".
        seconds: how long it took, retries included.
        retries: attempts beyond the first.
        cost_usd: what was paid, at the price of that day; None when that was unknown.
        request: the canonical request, plain JSON.
    """

    key: str
    model: str
    backbone: str
    created_at: str
    usage: Usage
    text: str
    finish: str
    seconds: float
    retries: int
    cost_usd: float | None
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelStats:
    """The replies of one model.

    Attributes:
        model: the model.
        entries: how many replies.
        cost_usd: what those with a known cost cost together; None when none has.
        unpriced: how many have no known cost.
    """

    model: str
    entries: int
    cost_usd: float | None
    unpriced: int


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache holds.

    Attributes:
        place: its file, or the address of its database without a password.
        bytes: how much room it takes there.
        entries: how many replies.
        oldest: when the first of them was bought, None when empty.
        newest: when the last of them was bought, None when empty.
        models: the same by model, most entries first.
    """

    place: str
    bytes: int
    entries: int
    oldest: str | None
    newest: str | None
    models: tuple[ModelStats, ...]


def row_of(reply: Reply, request: Request, identity: Mapping[str, Any], backbone: str) -> dict[str, Any]:
    """Return the row of a reply that was bought now."""
    call = reply.call
    return {
        "key": call.request,
        "model": call.model,
        "backbone": backbone,
        "created_at": timestamp(),
        "input_tokens": call.usage.input,
        "cached_input_tokens": call.usage.cached_input,
        "output_tokens": call.usage.output,
        "reasoning_tokens": call.usage.reasoning,
        "text": reply.text,
        "finish": "length" if reply.truncated else "stop",
        "seconds": call.seconds,
        "retries": call.retries,
        "cost_usd": call.cost_usd,
        "request": zlib.compress(canonical_request(identity, request).encode(), 1),
    }


def timestamp(age: datetime.timedelta = datetime.timedelta()) -> str:
    """Return the time that long ago as the cache writes it: UTC, ISO 8601, to the millisecond."""
    return (datetime.datetime.now(datetime.UTC) - age).isoformat(timespec="milliseconds")


def entry_of(row: Mapping[str, Any]) -> Entry:
    """Return a row as a record, its request unpacked."""
    plain = ("key", "model", "backbone", "created_at", "text", "finish", "seconds", "retries", "cost_usd")
    return Entry(
        **{name: row[name] for name in plain},
        usage=_usage(row),
        request=json.loads(zlib.decompress(row["request"])),
    )


def reply_of(row: Mapping[str, Any]) -> Reply:
    """Return the reply in a row as it was bought; its request stays packed."""
    call = Call(
        request=row["key"],
        model=row["model"],
        usage=_usage(row),
        cached=False,
        seconds=row["seconds"],
        retries=row["retries"],
        cost_usd=row["cost_usd"],
    )
    return Reply(row["text"], call, truncated=row["finish"] == "length")


def _usage(row: Mapping[str, Any]) -> Usage:
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens")
    return Usage(*(row[name] for name in names))
