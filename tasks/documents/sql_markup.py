"""SQL as pages and terminals show it: marked where one SQL differs from the other, in short lines."""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from markupsafe import Markup, escape

from tasks.documents.text import visible

MAX_TOKENS = 1_500
"""Longer SQL is not compared word by word: that takes time with the square of the length."""
MIN_LIKENESS = 0.3
"""Below this share of common words everything would be marked, which shows nothing."""

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\w+|\s+|.", re.DOTALL)
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
    return Markup("").join(_written(compared_tokens(sql, other)))


def compared_tokens(sql: str, other: str | None) -> list[tuple[str, bool]]:
    """Return the tokens of a SQL, spaces among them, each with whether the other SQL has none in its place.

    Control characters are spelled out. Nothing differs from None, and nothing is compared where too little is alike.

    >>> [token for token, changed in compared_tokens("SELECT a FROM t", "SELECT b FROM t") if changed]
    ['a']
    """
    tokens = _TOKEN.findall(visible(sql.strip()))
    changed = _changed(tokens, _TOKEN.findall(visible(other.strip()))) if other else [False] * len(tokens)
    return list(zip(tokens, changed, strict=True))


def wrapped_sql(sql: str, width: int) -> str:
    """Return a SQL with line breaks in the place of spaces where a line would be longer; texts in it stay.

    >>> wrapped_sql("SELECT name FROM town WHERE name = 'a long name'", 20).splitlines()
    ['SELECT name FROM', 'town WHERE name =', "'a long name'"]
    """
    lines, space = [""], ""
    for token in _TOKEN.findall(sql.strip()):
        if token.isspace():
            space = token
        elif space and len(lines[-1] + space + token) > width:
            lines.append(token)
            space = ""
        else:
            lines[-1] += space + token
            space = ""
    return "\n".join(lines)


def _written(tokens: Iterable[tuple[str, bool]]) -> Iterator[Markup]:
    marking = False
    for token, mark in tokens:
        if mark != marking:
            yield Markup("<mark>") if mark else Markup("</mark>")
            marking = mark
        yield Markup("<b>{}</b>").format(token) if _KEYWORDS.fullmatch(token) else escape(token)
    if marking:
        yield Markup("</mark>")


def _changed(tokens: Sequence[str], others: Sequence[str]) -> list[bool]:
    """Return for each token whether the other SQL has none in its place; case and space do not count."""
    nothing = [False] * len(tokens)
    places = [place for place, token in enumerate(tokens) if not token.isspace()]
    words = [tokens[place].lower() for place in places]
    other_words = [token.lower() for token in others if not token.isspace()]
    if max(len(words), len(other_words)) > MAX_TOKENS:
        return nothing
    matcher = SequenceMatcher(None, words, other_words, autojunk=False)
    if matcher.ratio() < MIN_LIKENESS:
        return nothing
    changed = list(nothing)
    for kind, start, end, _, _ in matcher.get_opcodes():
        if kind in ("replace", "delete"):
            first, last = places[start], places[end - 1]
            changed[first : last + 1] = [True] * (last + 1 - first)
    return changed
