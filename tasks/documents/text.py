"""Hostile text made visible, on a terminal, in Markdown and on a page alike."""

import re

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
    return _CONTROL.sub(_spell, text.replace("\r\n", "\n"))


def _spell(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else f"<U+{code:04X}>"
