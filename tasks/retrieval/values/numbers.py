"""Finds the numbers in a question, which the value index looks up."""

import math
import re

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w)")
LARGEST = 2**63 - 1
"""SQLite's largest whole number."""


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
    whole = int(value) if "." in text else int(text)
    return whole if value.is_integer() and abs(whole) <= LARGEST else value
