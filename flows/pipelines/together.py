"""Stages of one question that run at the same time."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar, overload

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@overload
async def together(one: Awaitable[A], two: Awaitable[B], /) -> tuple[A, B]: ...
@overload
async def together(one: Awaitable[A], two: Awaitable[B], three: Awaitable[C], /) -> tuple[A, B, C]: ...
@overload
async def together(*stages: Awaitable[A]) -> tuple[A, ...]: ...
async def together(*stages: Awaitable[Any]) -> tuple[Any, ...]:
    """Run stages at the same time, and return their results in their order.

    All are awaited, also when one fails: the others' calls are paid for and have to be recorded.

    Raises:
        BaseException: that of the first stage, in their order, that failed.
    """
    found = await asyncio.gather(*stages, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return tuple(found)
