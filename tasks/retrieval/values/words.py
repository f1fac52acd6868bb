"""The words of values and questions, as the value index keeps and looks them up."""

import math
import re
import unicodedata

_PIECE = re.compile(r"[^\s\x00-\x20\x7f]+")
_AROUND = ".,;:!?\"'()[]{}<>‘’“”`"
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w)")
LARGEST = 2**63 - 1
"""SQLite's largest whole number."""


def words(text: str) -> list[str]:
    """Return the pieces of a text between white space: in lower case, without accents and punctuation around them.

    >>> words('Where is "Nürburgring" (R&B, C++)?')
    ['where', 'is', 'nurburgring', 'r&b', 'c++']
    """
    folded = _folded(text)
    pieces = folded.split(" ") if folded.isascii() and folded.isprintable() else _PIECE.findall(folded)
    return [word for piece in pieces if (word := piece.strip(_AROUND))]


def numbers(text: str) -> tuple[int | float, ...]:
    """Return the numbers in a text, each once, whole ones as `int`.

    >>> numbers("In 1990 over 1,250 of 3.50 or -2.0, not 7th or v2")
    (1990, 1250, 3.5, -2)
    """
    found = (_number(match.replace(",", "")) for match in _NUMBER.findall(text))
    return tuple(dict.fromkeys(number for number in found if number is not None))


def _number(text: str) -> int | float | None:
    value = float(text)
    if not math.isfinite(value):
        return None
    if value.is_integer():
        whole = int(float(text)) if "." in text else int(text)
        return whole if abs(whole) <= LARGEST else value
    return value


def _folded(text: str) -> str:
    lowered = text.lower()
    if lowered.isascii():
        return lowered
    split = unicodedata.normalize("NFKD", lowered)
    return "".join(character for character in split if not unicodedata.combining(character)).lower()
