"""Hostile text made visible on every output, SQL with its differences marked, and equal rows made one."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import groupby

from markupsafe import Markup, escape

from tasks.documents.model import Cell, Span, Table, plain

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)


def visible(text: str) -> str:
    """Return text with control and direction characters spelled out.

    Questions and SQL may hold anything; escape codes would repaint a terminal, and direction marks show SQL in
    another order than it runs in.

    >>> visible("SELECT 1 " + chr(27) + "[2J" + chr(0x202E))
    'SELECT 1 ␛[2J<U+202E>'
    """
    return _CONTROL.sub(_spell_out, text.replace("\r\n", "\n"))


def _spell_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else f"<U+{code:04X}>"


MAX_TOKENS = 1_500
"""Longer SQL is not compared word by word: that takes time with the square of the length."""
MIN_LIKENESS = 0.3
"""Below this share of common words everything would be marked, which shows nothing."""

_TOKEN = re.compile(r"'(?:[^']++|'')*+'|\"[^\"]*\"|`[^`]*`|\w+|\s+|.", re.DOTALL)
_KEYWORDS = re.compile(
    "all|and|asc?|between|by|case|cast|cross|desc|distinct|else|end|except|exists|from|full|group|having|in|inner|"
    "intersect|is|join|left|like|limit|natural|not|null|offset|on|or|order|outer|over|partition|recursive|right|"
    "select|then|union|using|values|when|where|with",
    re.IGNORECASE,
)


def mark_sql(sql: str, other: str | None) -> Markup:
    """Return a SQL as HTML in which every character that could act is escaped.

    What the other run's SQL does not have is marked; without one, nothing is.
    """
    return Markup("".join(_marked_html(compared_tokens(sql, other))))  # noqa: S704


def compared_tokens(sql: str, other: str | None) -> list[tuple[str, bool]]:
    """Return the tokens of a SQL, spaces among them, each with whether the other SQL has none in its place.

    Control characters are spelled out. Nothing differs from None, and nothing is compared where too little is alike.

    >>> [token for token, changed in compared_tokens("SELECT a FROM t", "SELECT b FROM t") if changed]
    ['a']
    """
    tokens = _TOKEN.findall(visible(sql.strip()))
    changed = _changed(tokens, _TOKEN.findall(visible(other.strip()))) if other else [False] * len(tokens)
    return list(zip(tokens, changed, strict=True))


def _marked_html(tokens: Iterable[tuple[str, bool]]) -> Iterator[str]:
    for marked, group in groupby(tokens, lambda pair: pair[1]):
        parts = (f"<b>{token}</b>" if _KEYWORDS.fullmatch(token) else escape(token) for token, _ in group)
        text = "".join(parts)
        yield f"<mark>{text}</mark>" if marked else text


def _changed(tokens: Sequence[str], others: Sequence[str]) -> list[bool]:
    """Return for each token whether the other SQL has none in its place; case and space do not count."""
    nothing = [False] * len(tokens)
    positions = [position for position, token in enumerate(tokens) if not token.isspace()]
    words = [tokens[position].lower() for position in positions]
    other_words = [token.lower() for token in others if not token.isspace()]
    if max(len(words), len(other_words)) > MAX_TOKENS:
        return nothing
    matcher = SequenceMatcher(None, words, other_words, autojunk=False)
    if matcher.ratio() < MIN_LIKENESS:
        return nothing
    changed = list(nothing)
    for kind, start, end, _, _ in matcher.get_opcodes():
        if kind in ("replace", "delete"):
            first, last = positions[start], positions[end - 1]
            changed[first : last + 1] = [True] * (last + 1 - first)
    return changed


def folded(table: Table) -> Table:
    """Join the names, in the first cells, of successive rows that are equal but for their names.

    >>> rows = (("bird", "60 of 113"), ("spider", "60 of 113"), None, ("strict", "60 of 113"))
    >>> folded(Table("Scores", ("", "right"), rows)).rows
    (('bird, spider', '60 of 113'), None, ('strict', '60 of 113'))
    """
    return replace(table, rows=tuple(_joined_rows(table)))


def _joined_rows(table: Table) -> Iterator[tuple[Cell, ...] | None]:
    for cells, group in groupby(table.rows, lambda row: row and row[1:]):
        alike = [row for row in group if row]
        names = (plain(row[0]) for row in alike if isinstance(row[0], str | tuple | Span))
        yield (", ".join(names), *cells) if cells else None
