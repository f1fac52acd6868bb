"""Rows and records of stored replies, and statistics of a reply cache."""

import datetime
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tasks.backbone.protocol import TOOL_CALLS, Reply, Request, stored_request, stored_text, with_calls
from tasks.core.errors import StoreError, first_problem
from tasks.core.outcome import Call, Usage
from tasks.core.wording import shorten

LENGTH = "length"
"""Why a reply ended: at the token limit."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored reply."""

    key: str  # sha256 of the canonical request
    model: str  # the model that answered
    backbone: str  # name of the backbone that sent the request
    created_at: str  # when it came, UTC, ISO 8601
    usage: Usage  # tokens, as reported then
    text: str  # the reply; with tool calls, a JSON object with the keys text and tool_calls
    # "length" when the model stopped at its token limit, "tool_calls" when it called tools, both with a blank between
    # them, else "stop"
    finish: str
    seconds: float  # how long it took, retries included
    retries: int  # attempts beyond the first
    cost_usd: float | None  # what was paid, at the price of that day; None when that was unknown
    request: Mapping[str, Any]  # the canonical request, plain JSON


@dataclass(frozen=True, slots=True)
class Rows:
    """The database rows of one reply."""

    reply: Mapping[str, Any]
    prompt: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DamagedEntry:
    """A stored reply that cannot be read."""

    key: str  # sha256 of the canonical request
    what: str  # what is wrong with it


class DamagedEntriesError(StoreError):
    """Entries of a reply cache that cannot be read."""

    def __init__(self, location: str, entries: Sequence[DamagedEntry]) -> None:
        named = shorten([f"{entry.key} ({entry.what})" for entry in entries], 5)
        super().__init__(
            f"The reply cache {location} is damaged in {len(entries):,} of its entries: {named}. "
            "`crosscheck clean --replies damaged` removes them; what is removed is paid for again when it is needed."
        )


@dataclass(frozen=True, slots=True)
class ModelStats:
    """The replies of one model."""

    model: str  # the model
    entries: int  # how many replies
    bytes: int  # size of their texts and requests, without the prompts, which other replies may share
    cost_usd: float | None  # what those with a known cost cost together; None when none has
    unpriced: int  # how many have no known cost


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Statistics of a reply cache."""

    bytes: int  # its size
    models: tuple[ModelStats, ...]  # most entries first

    @property
    def entries(self) -> int:
        """How many replies there are."""
        return sum(model.entries for model in self.models)


_USAGE = tuple(field.name for field in fields(Usage) if field.name != "cache_write")
"""Token counts that are stored. Writes to the provider's prompt cache are in the cost that is stored."""
_COPIED = ("model", "seconds", "retries", "cost_usd")
"""Columns that are called as the fields of a call."""
_NO_TEXT = "its text is no UTF-8"
_ENTRY = TypeAdapter(Entry)


def rows_of(reply: Reply, request: Request, identity: Mapping[str, Any], backbone: str) -> Rows:
    """Return the database rows of a new reply."""
    call = reply.call
    prompt, sent = (part.encode("utf-8", "surrogatepass") for part in stored_request(identity, request))
    digest = hashlib.sha256(prompt).hexdigest()
    row = {
        "key": call.request,
        "backbone": backbone,
        "created_at": timestamp(),
        "text": stored_text(reply),
        "finish": " ".join([TOOL_CALLS] * bool(reply.calls) + [LENGTH] * reply.truncated) or "stop",
        "request": zlib.compress(sent, 1),
        "prompt": digest,
        **{name: getattr(call, name) for name in _COPIED},
        **{f"{name}_tokens": getattr(call.usage, name) for name in _USAGE},
    }
    return Rows(row, {"digest": digest, "content": zlib.compress(prompt, 1)})


def timestamp() -> str:
    """Return the time as stored in the cache: UTC, ISO 8601, to the millisecond."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def entry_of(row: Mapping[str, Any]) -> Entry | DamagedEntry:
    """Return the record of a row of replies with the `content` of its prompt, its request decompressed."""
    if not isinstance(row["text"], str):
        return DamagedEntry(row["key"], _NO_TEXT)
    try:
        parts = [row["request"], *([row["content"]] if row["prompt"] else ())]
        request = {name: value for part in parts for name, value in _unpacked(part).items()}
        return _ENTRY.validate_python({**row, "usage": _usage(row), "request": request})
    except ValidationError as error:
        return DamagedEntry(row["key"], first_problem(error))
    except (zlib.error, ValueError) as error:
        return DamagedEntry(row["key"], f"its request, not its reply: {error}")


def reply_of(row: Mapping[str, Any]) -> Reply | DamagedEntry:
    """Return the reply in a row as it came; its request stays packed."""
    if not isinstance(row["text"], str):
        return DamagedEntry(row["key"], _NO_TEXT)
    copied = {name: row[name] for name in _COPIED}
    call = Call(request=row["key"], usage=Usage(**_usage(row)), cached=False, **copied)
    reply = Reply(row["text"], call, truncated=LENGTH in row["finish"])
    if not row["finish"].startswith(TOOL_CALLS):
        return reply
    try:
        return with_calls(reply)
    except ValueError as error:
        return DamagedEntry(row["key"], str(error))


def _unpacked(part: bytes | None) -> dict[str, Any]:
    """Return a part of a request; raise ValueError or zlib.error if it is missing or damaged."""
    if part is None:
        raise ValueError("its prompt is missing")
    content = json.loads(zlib.decompress(part))
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    return content


def _usage(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[f"{name}_tokens"] for name in _USAGE}
