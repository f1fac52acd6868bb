"""Samples of one request, which the endpoint answers in one HTTP request: its prompt is paid for once."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.protocol import Reply, Request, request_digest

log = logging.getLogger(__name__)

WINDOW_S = 0.02
"""Seconds that the first of a request's samples waits for others."""


@dataclass
class _Group:
    """Samples of one request that are sent together, each with the future of its reply."""

    timer: asyncio.TimerHandle
    members: list[tuple[Request, "asyncio.Future[Reply | None]"]] = field(default_factory=list)


class SampledBackbone:
    """Backbone that sends the samples of a request that are requested at the same time with the parameter `n`.

    With a seed, they have the seed of the first of them. A sample that the endpoint leaves out is requested by itself;
    an endpoint that answers one only gets no further requests with `n`.
    """

    def __init__(self, inner: EndpointBackbone, most: int) -> None:
        """Wrap a client; `most` is the highest number of samples in one request."""
        self.inner = inner
        self._most = most
        self._groups: dict[str, _Group] = {}
        self._sending: set[asyncio.Task[None]] = set()

    @property
    def identity(self) -> Mapping[str, Any]:
        """The inner backbone's: how many samples share a request changes no request."""
        return self.inner.identity

    def wind_down(self) -> None:
        """Send no further requests."""
        self.inner.wind_down()

    async def complete(self, request: Request) -> Reply:
        """Answer one sample."""
        if self._most == 1:
            return await self.inner.complete(request)
        loop = asyncio.get_running_loop()
        key = f"{request_digest(replace(request, sample=0))} {request.tier}"
        if key not in self._groups:
            self._groups[key] = _Group(loop.call_later(WINDOW_S, self._send, key))
        members = self._groups[key].members
        waiting: asyncio.Future[Reply | None] = loop.create_future()
        members.append((request, waiting))
        if len(members) >= self._most:
            self._send(key)
        return await waiting or await self.inner.complete(request)

    def _send(self, key: str) -> None:
        group = self._groups.pop(key)
        group.timer.cancel()
        sending = asyncio.get_running_loop().create_task(self._answer(group.members))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def _answer(self, members: Sequence[tuple[Request, "asyncio.Future[Reply | None]"]]) -> None:
        try:
            reply = await self.inner.complete(*(request for request, _ in members))
        except BaseException as error:
            for _, waiting in members:
                if not waiting.done():
                    waiting.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        replies = [replace(reply, further=()), *reply.further]
        if len(replies) == 1 < len(members) and self._most > 1:
            log.info("the endpoint ignores n: each sample is requested by itself")
            self._most = 1
        for index, (_, waiting) in enumerate(members):
            if not waiting.done():
                waiting.set_result(replies[index] if index < len(replies) else None)
