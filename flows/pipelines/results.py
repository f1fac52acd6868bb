"""Results of stages of one question that ran at the same time."""

from collections.abc import Sequence
from typing import TypeVar, overload

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@overload
def results(found: tuple[A | BaseException, B | BaseException], /) -> tuple[A, B]: ...
@overload
def results(found: tuple[A | BaseException, B | BaseException, C | BaseException], /) -> tuple[A, B, C]: ...
@overload
def results(found: Sequence[A | BaseException], /) -> tuple[A, ...]: ...
def results(found: Sequence[object], /) -> tuple[object, ...]:
    """Return what `asyncio.gather(..., return_exceptions=True)` has found.

    It awaits all stages, also when one fails: the others' calls are paid for and have to be recorded.

    Raises:
        BaseException: that of the first stage, in their order, that failed.
    """
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return tuple(found)
