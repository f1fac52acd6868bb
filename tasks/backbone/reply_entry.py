"""One bought reply: its record, and the row of the reply cache that keeps it."""

import datetime
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.backbone.protocol import Reply, Request, canonical_request
from tasks.records import Call, Usage

CREATE = """
CREATE TABLE IF NOT EXISTS reply (
    key TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    backbone TEXT NOT NULL,
    created_at TEXT NOT NULL,
    input_tokens INTEGER,
    cached_input_tokens INTEGER,
    output_tokens INTEGER,
    reasoning_tokens INTEGER,
    text TEXT NOT NULL,
    finish TEXT NOT NULL,
    seconds REAL NOT NULL,
    retries INTEGER NOT NULL,
    cost_usd REAL,
    request BLOB NOT NULL
)"""
COLUMNS = (
    "key, model, backbone, created_at, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, "
    "text, finish, seconds, retries, cost_usd, request"
)
"""The columns of `CREATE`, in the order of a row."""


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
        path: its file.
        bytes: size of the file and its write-ahead log.
        entries: how many replies.
        oldest: when the first of them was bought, None when empty.
        newest: when the last of them was bought, None when empty.
        models: the same by model, most entries first.
    """

    path: Path
    bytes: int
    entries: int
    oldest: str | None
    newest: str | None
    models: tuple[ModelStats, ...]


def row_of(reply: Reply, request: Request, identity: Mapping[str, Any], backbone: str) -> tuple[Any, ...]:
    """Return the row of a reply that was bought now."""
    call = reply.call
    return (
        call.request,
        call.model,
        backbone,
        timestamp(),
        *(call.usage.input, call.usage.cached_input, call.usage.output, call.usage.reasoning),
        reply.text,
        "length" if reply.truncated else "stop",
        *(call.seconds, call.retries, call.cost_usd),
        zlib.compress(canonical_request(identity, request).encode(), 1),
    )


def timestamp(age: datetime.timedelta = datetime.timedelta()) -> str:
    """Return the time that long ago as the cache writes it: UTC, ISO 8601, to the millisecond."""
    return (datetime.datetime.now(datetime.UTC) - age).isoformat(timespec="milliseconds")


def entry_of(row: tuple[Any, ...]) -> Entry:
    """Return a row as a record, its request unpacked."""
    key, model, backbone, created_at, given, cached, output, reasoning, *rest = row
    text, finish, seconds, retries, cost_usd, request = rest
    return Entry(
        key=key,
        model=model,
        backbone=backbone,
        created_at=created_at,
        usage=Usage(given, cached, output, reasoning),
        text=text,
        finish=finish,
        seconds=seconds,
        retries=retries,
        cost_usd=cost_usd,
        request=json.loads(zlib.decompress(request)),
    )


def reply_of(row: tuple[Any, ...]) -> Reply:
    """Return the reply in a row as it was bought; its request stays packed."""
    key, model, _, _, given, cached, output, reasoning, text, finish, seconds, retries, cost_usd, _ = row
    call = Call(
        request=key,
        model=model,
        usage=Usage(given, cached, output, reasoning),
        cached=False,
        seconds=seconds,
        retries=retries,
        cost_usd=cost_usd,
    )
    return Reply(text, call, truncated=finish == "length")
