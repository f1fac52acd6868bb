"""Cells of results as rules compare them: as Python does, without tolerance, and NaN equal to itself.

1 == 1.0 == True, NULL == NULL, '1' != 1. Runs inside the sandboxed workers, so it imports nothing heavy.
"""

from collections.abc import Hashable, Iterable
from typing import Any

Row = tuple[Any, ...]
Cells = tuple[Hashable, ...]

_PLAIN = frozenset({int, str, bytes, bool, type(None)})
_NAN = ("not a number",)


def comparable_rows(rows: Iterable[Row]) -> list[Cells]:
    """Return rows whose cells are hashable and equal exactly when the values are."""
    return [tuple([v if type(v) in _PLAIN else comparable(v) for v in row]) for row in rows]


def comparable(value: Any) -> Hashable:
    """Return a hashable stand-in that is equal exactly when the values are; NaN gets one of its own.

    >>> comparable(float("nan")) == comparable(float("nan"))
    True
    """
    if isinstance(value, list | tuple):
        return tuple(comparable(v) for v in value)
    if isinstance(value, dict):
        return frozenset((comparable(k), comparable(v)) for k, v in value.items())
    if isinstance(value, set | frozenset):
        return frozenset(comparable(v) for v in value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    try:
        if value != value:
            return _NAN
        hash(value)
    except (TypeError, ValueError, ArithmeticError):  # a signalling NaN, an array, an unhashable object
        return (type(value).__name__, repr(value))
    return value  # type: ignore[no-any-return]
