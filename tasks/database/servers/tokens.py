"""Tokens of SQL as PostgreSQL and MySQL read it: names, strings, comments and signs, in linear time."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from typing import Literal, NamedTuple

ONLY_QUERIES = "The sandbox only lets a query read this database: {} is not allowed."


class RefusedError(Exception):
    """SQL that the sandbox does not give to the server; the message says why."""


class Token(NamedTuple):
    """A token that the server acts on."""

    # "word", an unquoted name, keyword or number; "name", a quoted name; "string"; or "sign"
    kind: Literal["word", "name", "string", "sign"]
    text: str  # a word or name as it is compared, in lower case; a sign; "" for a string

    @property
    def is_name(self) -> bool:
        """Whether it may be the name of a function or table."""
        return self.kind in ("word", "name")


_POSTGRESQL = re.compile(
    r"""(?sx)
    (?P<space>[ \t\n\r\f\v]+ | --[^\n\r]*) | (?P<nested>/\*)
    | (?P<escapes>[eE]'(?:[^'\\]|\\.|'')*') | (?P<refused>[uU]&")
    | (?P<string>'[^']*') | (?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$)
    | (?P<name>"(?:[^"]|"")*")
    | (?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*|[0-9]+) | (?P<sign>.)
    """
)
_MYSQL = r"""(?sx)
    (?P<space>[\x01-\x20]+ | \#[^\n]* | --(?=[\x01-\x20\x7f]|\Z)[^\n]* | /\*(?![!+]|M!).*?\*/) | (?P<refused>/\*)
    | (?P<string>'%s') | %s | (?P<name>`(?:[^`]|``)*`)
    | (?P<word>[A-Za-z0-9_$\x80-\U0010ffff]+) | (?P<sign>.)
    """
_ESCAPED = r"(?:[^%(mark)s\\]|\\.)*"
_PLAIN = r"[^%(mark)s]*"
_NEST = re.compile(r"/\*|\*/")
_OPEN = frozenset({"'", '"', "`"})


def postgresql_tokens(sql: str) -> Iterator[Token]:
    """Yield the tokens of PostgreSQL's SQL, where strings have no escapes unless they say so.

    Raises:
        RefusedError: a string, name or comment has no end, or a name is written in code points.
    """
    place, after_escapes = 0, False
    while found := _POSTGRESQL.match(sql, place):
        kind, text, place = str(found.lastgroup), found[0], found.end()
        if kind == "nested":
            place = _end_of_nested(sql, place)
        elif kind == "dollar":
            place = sql.find(text, place) + len(text)
            if place < found.end():
                raise RefusedError(ONLY_QUERIES.format(f"a string that begins with {text} and has no end"))
            yield Token("string", "")
        elif kind == "string" and after_escapes:  # PostgreSQL reads it with escapes, too
            raise RefusedError(ONLY_QUERIES.format("a string in several parts"))
        else:
            yield from _plain(kind, text, str.lower)
        if kind not in ("space", "nested"):
            after_escapes = kind == "escapes"


def mysql_tokens(sql: str, *, escapes: bool = True, ansi: bool = False) -> Iterator[Token]:
    """Yield the tokens of MySQL's and MariaDB's SQL.

    Args:
        sql: the SQL.
        escapes: whether a backslash in a string escapes what is behind it (`sql_mode` without NO_BACKSLASH_ESCAPES).
        ansi: whether double quotes are around names (ANSI_QUOTES).

    Raises:
        RefusedError: a string, name or comment has no end, or a comment is executed.
    """
    place, pattern = 0, _mysql(escapes, ansi)
    while found := pattern.match(sql, place):
        yield from _plain(str(found.lastgroup).rstrip("_"), found[0], _folded)
        place = found.end()


@cache
def _mysql(escapes: bool, ansi: bool) -> re.Pattern[str]:
    inner = _ESCAPED if escapes else _PLAIN
    double = '(?P<name_>"(?:[^"]|"")*")' if ansi else f'(?P<string_>"{inner % {"mark": chr(34)}}")'
    return re.compile(_MYSQL % (inner % {"mark": "'"}, double))


def _plain(kind: str, text: str, fold: Callable[[str], str]) -> Iterator[Token]:
    if kind == "refused" or (kind == "sign" and text in _OPEN):
        raise RefusedError(ONLY_QUERIES.format(f"what begins with {text}"))
    if kind == "word":
        yield Token("word", fold(text))
    elif kind == "name":
        yield Token("name", fold(text[1:-1]))
    elif kind in ("string", "escapes"):
        yield Token("string", "")
    elif kind == "sign":
        yield Token("sign", text)


def _end_of_nested(sql: str, place: int) -> int:
    depth = 1
    for mark in _NEST.finditer(sql, place):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    raise RefusedError(ONLY_QUERIES.format("a comment that has no end"))


def _folded(name: str) -> str:
    """Return a name as a server compares it at its most tolerant: without case, accents and widths.

    >>> _folded("PROCE\u017f\u017fLIST")
    'processlist'
    """
    if name.isascii():
        return name.lower()
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", name) if not unicodedata.combining(sign))
    return plain.upper().lower()
