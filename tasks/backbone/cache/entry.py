"""Table of stored replies, the same in SQLite and PostgreSQL, its rows and records, and statistics of a reply cache."""

import datetime
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Column, Dialect, Double, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy.dialects.postgresql import BYTEA
from sqlalchemy.types import TypeDecorator, TypeEngine

from tasks.backbone.protocol import Reply, Request, canonical_request
from tasks.backbone.stored_text import TOOL_CALLS, stored_text, with_calls
from tasks.core.errors import StoreError, first_problem
from tasks.core.outcome import Call, Usage
from tasks.core.wording import shorten

LENGTH = "length"
"""Why a reply ended: at the token limit."""
LAYOUT = 1
"""Version of the table's layout: SQLite's `user_version`, in PostgreSQL the end of the table's comment."""
COMMENT = "Crosscheck's replies, layout "


class ReplyText(TypeDecorator[str]):
    """Column type for any text of a model: text in SQLite, bytes in PostgreSQL.

    PostgreSQL's text type rejects NUL, and both databases reject lone surrogates (SQLite then stores bytes).
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the column's type."""
        return dialect.type_descriptor(BYTEA() if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | bytes | None:
        """Return the stored form of a text."""
        if value is None:
            return None
        content = value.encode("utf-8", "surrogatepass")
        readable = dialect.name == "sqlite" and content == value.encode("utf-8", "replace")
        return value if readable else content

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Return the text of a stored value; its bytes where they are damaged."""
        if not isinstance(value, bytes | memoryview):
            return value
        try:
            return bytes(value).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return bytes(value)


reply = Table(
    "reply",
    MetaData(),
    Column("key", Text, primary_key=True),
    Column("model", Text, nullable=False),
    Column("backbone", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("input_tokens", Integer),
    Column("cached_input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("reasoning_tokens", Integer),
    Column("text", ReplyText, nullable=False),
    Column("finish", Text, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("retries", Integer, nullable=False),
    Column("cost_usd", Double),
    Column("request", LargeBinary, nullable=False),
    comment=f"{COMMENT}{LAYOUT}",
)
"""One row per paid reply; the request is compressed."""


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
class DamagedEntry:
    """A stored reply that cannot be read."""

    key: str  # sha256 of the canonical request
    what: str  # what is wrong with it


class DamagedEntriesError(StoreError):
    """Entries of a reply cache that cannot be read."""

    def __init__(self, place: str, entries: Sequence[DamagedEntry]) -> None:
        named = shorten([f"{entry.key} ({entry.what})" for entry in entries], 5)
        super().__init__(
            f"The reply cache {place} is damaged in {len(entries):,} of its entries: {named}. "
            "`crosscheck cache prune --damaged` removes them; what is removed is paid for again when it is needed."
        )


@dataclass(frozen=True, slots=True)
class ModelStats:
    """The replies of one model."""

    model: str  # the model
    entries: int  # how many replies
    cost_usd: float | None  # what those with a known cost cost together; None when none has
    unpriced: int  # how many have no known cost


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Statistics of a reply cache."""

    place: str  # its file, or the address of its database without a password
    bytes: int  # its size there
    entries: int  # how many replies
    oldest: str | None  # when the first of them came, None when empty
    newest: str | None  # when the last of them came, None when empty
    models: tuple[ModelStats, ...]  # the same by model, most entries first


_USAGE = tuple(field.name for field in fields(Usage) if field.name != "cache_write")
"""Token counts that are stored. Writes to the provider's prompt cache are in the cost that is stored."""
_COPIED = ("model", "seconds", "retries", "cost_usd")
"""Columns that are called as the fields of a call."""
_NO_TEXT = "its text is no UTF-8"


def row_of(reply: Reply, request: Request, identity: Mapping[str, Any], backbone: str) -> dict[str, Any]:
    """Return the database row of a new reply."""
    call = reply.call
    sent = canonical_request(identity, request).encode("utf-8", "surrogatepass")
    return {
        "key": call.request,
        "backbone": backbone,
        "created_at": timestamp(),
        "text": stored_text(reply),
        "finish": _finish(reply),
        "request": zlib.compress(sent, 1),
        **{name: getattr(call, name) for name in _COPIED},
        **{f"{name}_tokens": getattr(call.usage, name) for name in _USAGE},
    }


def timestamp(age: datetime.timedelta = datetime.timedelta()) -> str:
    """Return the time that long ago as stored in the cache: UTC, ISO 8601, to the millisecond."""
    return (datetime.datetime.now(datetime.UTC) - age).isoformat(timespec="milliseconds")


def entry_of(row: Mapping[str, Any]) -> Entry | DamagedEntry:
    """Return the record of a row, its request decompressed."""
    if not isinstance(row["text"], str):
        return DamagedEntry(row["key"], _NO_TEXT)
    try:
        request = json.loads(zlib.decompress(row["request"]))
        return _entries().validate_python({**row, "usage": _usage(row), "request": request})
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


def _finish(reply: Reply) -> str:
    reasons = [*([TOOL_CALLS] if reply.calls else ()), *([LENGTH] if reply.truncated else ())]
    return " ".join(reasons) or "stop"


def _usage(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[f"{name}_tokens"] for name in _USAGE}


@cache
def _entries() -> TypeAdapter[Entry]:
    return TypeAdapter(Entry)
