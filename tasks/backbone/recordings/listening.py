"""A backbone that is listened to: what it says is kept for a recording."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.backbone.protocol import Backbone, Reply, Request, request_digest
from tasks.backbone.recordings.file import Place


@dataclass(frozen=True, slots=True)
class Heard:
    """A reply without its bill; `request` is the `request_digest` of what was asked."""

    request: str
    text: str
    truncated: bool


class ListeningBackbone:
    """Passes requests and replies on, and remembers the replies."""

    def __init__(self, inner: Backbone) -> None:
        self._inner = inner
        self._at: dict[Place, Heard] = {}
        self._to: dict[str, Heard] = {}

    @property
    def identity(self) -> Mapping[str, Any]:
        """The inner backbone's."""
        return self._inner.identity

    async def complete(self, request: Request) -> Reply:
        """Answer one request as the inner backbone does."""
        reply = await self._inner.complete(request)
        heard = Heard(request_digest(request), reply.text, reply.truncated)
        if request.origin:
            origin = request.origin
            self._at[Place(origin.question, origin.stage, origin.round)] = heard
        self._to[reply.call.request] = heard
        return reply

    def heard(self, place: Place, key: str) -> Heard | None:
        """Return what was said at a place; else to the request with that key of the reply cache, whoever asked."""
        return self._at.get(place) or self._to.get(key)
