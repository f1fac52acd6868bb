"""Replies to a prompt that ends with SELECT: the query may continue from there, or start again."""

import re
from collections.abc import Sequence

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message
from tasks.backbone.replies.json_text import fenced, without_thoughts
from tasks.backbone.replies.reading import read_sql
from tasks.core.records import Answer
from tasks.sql.parsing import parse

_QUERY = re.compile(r"[\s(]*(?:SELECT|WITH|VALUES)\b", re.IGNORECASE)
_FROM = re.compile(r"\bFROM\b", re.IGNORECASE)
_CONTENT = re.compile(r"\bFROM\b|[\d('\"]", re.IGNORECASE)
"""What "SELECT Sorry" does not have, although it can be parsed."""


async def ask_continuation(backbone: MeteredBackbone, messages: Sequence[Message], dialect: str) -> Answer:
    """Ask for the rest of a query after SELECT, and once again when the reply holds none.

    Raises:
        BackboneError: there is no answer.
    """
    return await backbone.ask_sql(
        messages, lambda text: read_continuation(text.encode("utf-8", "replace").decode(), dialect)
    )


def read_continuation(text: str, dialect: str) -> str | None:
    """Return the query of a reply to a prompt that ends with SELECT, None when there is none.

    SELECT is put back before a reply that continues from it, and what stands behind a fence that closes it is left out.
    A reply that starts again, in a fence, as JSON or after a sentence, is read as any other.

    >>> read_continuation("name FROM pet WHERE id IN (SELECT pet FROM owner);", "sqlite")
    'SELECT name FROM pet WHERE id IN (SELECT pet FROM owner)'
    >>> read_continuation("Here is the query: SELECT name FROM pet", "sqlite")
    'SELECT name FROM pet'
    >>> read_continuation("(SELECT COUNT(*) FROM pet) - (SELECT COUNT(*) FROM owner)", "sqlite")
    'SELECT (SELECT COUNT(*) FROM pet) - (SELECT COUNT(*) FROM owner)'
    >>> read_continuation("I cannot answer that.", "sqlite") is None
    True
    """
    text = _before_closing_fence(without_thoughts(text).strip())
    inside = next((content.strip() for _, content in fenced(text)), text)
    if not inside or _is_query(inside, dialect):
        return read_sql(text)
    anew, continued = read_sql(inside), read_sql(f"SELECT {inside}")
    candidates = (anew, continued) if inside.startswith("{") else (continued, anew)
    for sql in candidates:
        if sql is not None and _CONTENT.search(sql) and parse(sql, dialect).tree is not None:
            return sql
    return next((sql for sql in candidates if sql is not None and _FROM.search(sql)), None)


def _before_closing_fence(text: str) -> str:
    """Return the text before its only fence mark where that closes a query, as if the prompt had opened a fence."""
    before, mark, after = text.partition("```")
    closes = mark and before.strip() and not after[:1].strip() and not _QUERY.match(after)
    return before.strip() if closes and "```" not in after else text


def _is_query(text: str, dialect: str) -> bool:
    """Return whether a text begins with a query of its own; after SELECT, a parenthesis may begin an expression."""
    from sqlglot import exp

    if not _QUERY.match(text) or not text.startswith("("):
        return _QUERY.match(text) is not None
    tree = parse(read_sql(text) or "", dialect).tree
    return isinstance(tree, exp.Query) and not tree.alias
