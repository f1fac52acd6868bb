"""Tables of stored replies, the same in SQLite and PostgreSQL."""

from typing import Any

from sqlalchemy import Column, Dialect, Double, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy.dialects.postgresql import BYTEA
from sqlalchemy.types import TypeDecorator, TypeEngine

LAYOUT = 2
"""Version of the layout: SQLite's `user_version`, in PostgreSQL the end of the table's comment."""
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


_tables = MetaData()

reply_prompt = Table(
    "reply_prompt",
    _tables,
    Column("digest", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
"""One row per prompt, compressed. A prompt that is sent every night is stored once."""

reply = Table(
    "reply",
    _tables,
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
    Column("prompt", Text),
    comment=f"{COMMENT}{LAYOUT}",
)
"""One row per paid reply. The request is compressed, and has no prompt if `prompt` is the digest of one.

Layout 1 had no column `prompt`, and no table of prompts.
"""
ADD_PROMPT = "ALTER TABLE reply ADD COLUMN prompt TEXT"
"""Statement that makes the table of layout 1 one of layout 2, beside the creation of the table of prompts."""
