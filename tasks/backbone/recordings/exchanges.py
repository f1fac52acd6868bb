"""A backbone that is overheard: what questions asked it and what it said, until nobody needs that any more."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.backbone.protocol import Backbone, Message, Reply, Request


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request's messages and the reply to them."""

    messages: tuple[Message, ...]
    reply: str


class OverheardBackbone:
    """Passes requests and replies on, and keeps both by question: for backbones whose replies no cache keeps."""

    def __init__(self, inner: Backbone) -> None:
        self._inner = inner
        self._heard: dict[str, dict[str, Exchange]] = {}

    @property
    def identity(self) -> Mapping[str, Any]:
        """The inner backbone's."""
        return self._inner.identity

    async def complete(self, request: Request) -> Reply:
        """Answer one request as the inner backbone does."""
        reply = await self._inner.complete(request)
        if request.origin:
            heard = self._heard.setdefault(request.origin.question, {})
            heard[reply.call.request] = Exchange(request.messages, reply.text)
        return reply

    def heard(self, question: str, key: str) -> Exchange | None:
        """Return what a question asked with the request of that key (`Call.request`); None where it did not."""
        return self._heard.get(question, {}).get(key)

    def forget(self, question: str) -> None:
        """Drop what a question asked."""
        self._heard.pop(question, None)
