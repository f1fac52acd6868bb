"""The first request of each kind is sent alone, so that a refused setting is refused once."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

ALONE_S = 5.0
"""Longest wait for the first request of a kind; one that takes longer is being answered, not refused."""


class Pilots:
    """Sends requests of a kind one after another, until the first of them is answered.

    Requests are of one kind if they differ in the messages and the seed only. An endpoint that refuses a parameter
    does so at once.
    """

    def __init__(self) -> None:
        self._accepted: set[str] = set()
        self._turns: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def turn(self, kind: str) -> AsyncIterator[None]:
        """Wait until a request of the kind may be sent; the block sends it."""
        turn, alone = self._turns.setdefault(kind, asyncio.Lock()), False
        if kind not in self._accepted:
            with suppress(TimeoutError):
                async with asyncio.timeout(ALONE_S):
                    alone = await turn.acquire()
        if alone and kind in self._accepted:
            turn.release()
            alone = False
        try:
            yield
        finally:
            if alone:
                turn.release()

    def accept(self, kind: str) -> None:
        """Note that a request of the kind was answered."""
        self._accepted.add(kind)


def kind_of_request(body: Mapping[str, Any]) -> str:
    """Return a key that is equal for requests with the same parameters.

    >>> kind_of_request({"messages": [], "seed": 3, "temperature": 0.0})
    '{"temperature": 0.0}'
    """
    return json.dumps({name: value for name, value in body.items() if name not in ("messages", "seed")})
