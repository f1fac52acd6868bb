"""Rows and records of stored replies, and statistics of a reply cache."""

import datetime
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tasks.backbone.protocol import TOOL_CALLS, Reply, Request, read_calls, stored_request, stored_text
from tasks.core.outcome import Call, Usage

LENGTH = "length"
"""Why a reply ended: at the token limit."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored reply, with its request."""

    key: str  # sha256 of the canonical request
    text: str = ""  # the reply; with tool calls, a JSON object with the keys text and tool_calls
    # "length" when the model stopped at its token limit, "tool_calls" when it called tools, both with a blank between
    # them, else "stop"
    finish: str = ""
    request: Mapping[str, Any] = field(default_factory=dict)  # the canonical request, plain JSON
    damage: str = ""  # why it cannot be read; "" if it can


@dataclass(frozen=True, slots=True)
class Rows:
    """The database rows of one reply."""

    reply: Mapping[str, Any]
    prompt: Mapping[str, Any]


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


_USAGE = tuple(count.name for count in fields(Usage) if count.name != "cache_write")
"""Token counts that are stored. Writes to the provider's prompt cache are in the cost that is stored."""
_COPIED = ("model", "seconds", "retries", "cost_usd")
"""Columns that are called as the fields of a call."""


def rows_of(reply: Reply, request: Request, identity: Mapping[str, Any], backbone: str) -> Rows:
    """Return the database rows of a new reply to a request; `identity` and `backbone` (a name) say who replied."""
    call = reply.call
    finish = [TOOL_CALLS] if reply.calls else []
    if reply.truncated:
        finish.append(LENGTH)
    prompt, rest_of_request = (
        part.encode("utf-8", "surrogatepass") for part in stored_request(identity, request)
    )
    digest = hashlib.sha256(prompt).hexdigest()
    row = {
        "key": call.request,
        "backbone": backbone,
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        "text": stored_text(reply),
        "finish": " ".join(finish) or "stop",
        "request": zlib.compress(rest_of_request, 1),
        "prompt": digest,
        **{name: getattr(call, name) for name in _COPIED},
        **{f"{name}_tokens": getattr(call.usage, name) for name in _USAGE},
    }
    return Rows(row, {"digest": digest, "content": zlib.compress(prompt, 1)})


def entry_of(row: Mapping[str, Any]) -> Entry:
    """Return the record of a row of replies with the `content` of its prompt, its request decompressed."""
    try:
        text = _text(row)
    except ValueError as error:
        return Entry(row["key"], damage=str(error))
    try:
        request = _unpacked(row["request"])
        if row["prompt"]:
            request |= _unpacked(row["content"])
    except (zlib.error, ValueError) as error:
        return Entry(row["key"], damage=f"its request, not its reply: {error}")
    return Entry(row["key"], text, row["finish"], request)


def reply_of(row: Mapping[str, Any]) -> Reply:
    """Return the reply in a row as it came; its request stays packed. ValueError if it is damaged."""
    copied = {name: row[name] for name in _COPIED}
    usage = Usage(**{name: row[f"{name}_tokens"] for name in _USAGE})
    call = Call(request=row["key"], usage=usage, cached=False, **copied)
    stored = _text(row)
    text, calls = read_calls(stored) if row["finish"].startswith(TOOL_CALLS) else (stored, ())
    return Reply(text, call, truncated=LENGTH in row["finish"], calls=calls)


def _text(row: Mapping[str, Any]) -> str:
    if not isinstance(row["text"], str):
        raise ValueError("its text is no UTF-8")
    return row["text"]


def _unpacked(part: bytes | None) -> dict[str, Any]:
    """Return a part of a request; raise ValueError or zlib.error if it is missing or damaged."""
    if part is None:
        raise ValueError("its prompt is missing")
    content = json.loads(zlib.decompress(part))
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    return content
