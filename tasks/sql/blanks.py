"""Blanks of a SQL text that have no meaning."""

import re

_PART = re.compile(
    r"""'[^']*(?:'|\Z)|"[^"]*(?:"|\Z)|`[^`]*(?:`|\Z)|\[[^\]]*(?:\]|\Z)|--[^\n]*\n?|/\*.*?(?:\*/|\Z)|\s+""",
    re.DOTALL,
)
"""A literal, a quoted name or a comment, which stays as it is, or blanks."""


def single_blanks(sql: str) -> str:
    r"""Return a SQL with single blanks between its words. Literals, quoted names and comments stay as they are.

    >>> single_blanks("SELECT  a\n FROM t WHERE b = 'x  y' ")
    "SELECT a FROM t WHERE b = 'x  y'"
    """
    return _PART.sub(lambda found: " " if found[0].isspace() else found[0], sql).strip()
