"""The SQL of demonstrations as tokens: names, values, and everything in between."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from tasks.backbone.offline.lexicon import words_of
from tasks.backbone.offline.query import is_reserved
from tasks.backbone.offline.schema import PromptSchema

SqlKind = Literal["name", "value", "number", "other"]

_TOKEN = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\d+(?:\.\d+)?|[^\W\d]\w*|<=|>=|<>|!=|\S", re.UNICODE
)
_FUNCTIONS = words_of(
    """
    count sum avg min max total round abs length lower upper strftime substr substring cast date julianday iif coalesce
    ifnull nullif instr replace trim group_concat real integer text numeric float row_number rank
    """
)


@dataclass(frozen=True, slots=True)
class SqlToken:
    """One token.

    Attributes:
        text: as written.
        plain: out of its quotes.
        kind: "name" for tables, columns and aliases; "value" for text, "number" for numbers.
    """

    text: str
    plain: str
    kind: SqlKind


def sql_tokens(sql: str, schema: PromptSchema) -> tuple[SqlToken, ...]:
    """Split SQL; text in double quotes is a name where the schema has it, else a value, as SQLite reads it."""
    found = []
    for text in _TOKEN.findall(sql[:4000]):
        plain = text[1:-1].replace(text[0] * 2, text[0]) if text[0] in "'\"`" and len(text) > 1 else text
        if text[0] == "'":
            kind: SqlKind = "value"
        elif text[0] == '"':
            kind = "name" if schema.find(plain) or schema.table(plain) else "value"
        elif text[0] == "`":
            kind = "name"
        elif text[0].isdigit():
            kind = "number"
        elif text[0].isalpha() or text[0] == "_":
            kind = "other" if is_reserved(text) or text.lower() in _FUNCTIONS else "name"
        else:
            kind = "other"
        found.append(SqlToken(text, plain, kind))
    return tuple(found)


def aliases(tokens: Sequence[SqlToken]) -> frozenset[str]:
    """Return the names that the query itself gives, in lower case: behind AS, or behind a table."""
    found = set()
    for before, token in pairwise(tokens):
        if token.kind == "name" and (before.text.upper() == "AS" or before.kind == "name"):
            found.add(token.plain.lower())
    return frozenset(found)


def fits(tokens: Sequence[SqlToken], schema: PromptSchema) -> bool:
    """Whether every name of a query is one of the schema or its own."""
    own = aliases(tokens)
    names = [token.plain for token in tokens if token.kind == "name" and token.plain.lower() not in own]
    return any(schema.table(name) for name in names) and all(
        schema.find(name) or schema.table(name) for name in names
    )


def joined(texts: Sequence[str]) -> str:
    """Write tokens as SQL again."""
    sql = " ".join(texts)
    sql = re.sub(r"\s+([,)])", r"\1", re.sub(r"\(\s+", "(", sql))
    sql = re.sub(r"\s*\.\s*", ".", sql)
    return re.sub(r"\b(count|sum|avg|min|max|strftime|cast|round)\s+\(", r"\1(", sql, flags=re.IGNORECASE)
