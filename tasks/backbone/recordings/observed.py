"""Backbone that keeps requests and replies, for a recording or for traces."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from tasks.backbone.protocol import Backbone, Message, Reply, Request, request_digest, shown
from tasks.backbone.recordings.file import ReplyPosition
from tasks.backbone.stored_text import stored_text


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request's messages, those that an earlier one of the conversation had left out, and the reply to them."""

    messages: tuple[Message, ...]
    reply: str  # as it is stored (`tasks.backbone.stored_text`)


@dataclass(frozen=True, slots=True)
class Observation:
    """One request and its reply."""

    place: ReplyPosition | None  # where in the run it was asked; None outside of a question's path
    key: str  # the request's key in the reply cache (`Call.request`)
    digest: str  # the request's `request_digest`, by which recordings know it
    exchange: Exchange  # messages and reply; without messages where only replies are kept
    truncated: bool  # whether the model stopped at its token limit
    tool_calls: bool = False  # whether it called tools


class Observations:
    """Requests and replies of a run's backbones, by question.

    Args:
        recorded: replies are kept until the end, for a recording.
        traced: messages and replies are kept until their question is dropped, for traces.
    """

    def __init__(self, *, recorded: bool = False, traced: bool = False) -> None:
        self._recorded = recorded
        self._traced = traced
        self._observed: dict[str, list[Observation]] = {}

    def add(self, request: Request, reply: Reply) -> None:
        """Keep a request and its reply."""
        origin = request.origin
        observation = Observation(
            place=ReplyPosition(origin.question, origin.stage, origin.round) if origin else None,
            key=reply.call.request,
            digest=request_digest(request) if self._recorded else "",
            exchange=Exchange(
                tuple(shown(request.messages[request.known :])) if self._traced else (), stored_text(reply)
            ),
            truncated=reply.truncated,
            tool_calls=bool(reply.calls),
        )
        self._observed.setdefault(origin.question if origin else "", []).append(observation)

    def exchange(self, question: str, key: str) -> Exchange | None:
        """Return the messages and the reply of a question's request by its key; None if they are not kept."""
        for observation in reversed(self._observed.get(question, [])):
            if observation.key == key and observation.exchange.messages:
                return observation.exchange
        return None

    def __iter__(self) -> Iterator[Observation]:
        """Yield all observations by question, in the order of their requests."""
        return chain.from_iterable(self._observed.values())

    def drop(self, question: str) -> None:
        """Drop the messages of a question that is not traced, and its replies too where nothing is recorded."""
        dropped = self._observed.pop(question, [])
        if self._recorded:
            self._observed[question] = [
                replace(each, exchange=replace(each.exchange, messages=())) for each in dropped
            ]


class ObservedBackbone:
    """Backbone whose requests and replies are kept; several may share their observations."""

    def __init__(self, inner: Backbone, observations: Observations) -> None:
        self.inner = inner
        self._observations = observations

    @property
    def identity(self) -> Mapping[str, Any]:
        """The inner backbone's."""
        return self.inner.identity

    async def complete(self, request: Request) -> Reply:
        """Answer one request as the inner backbone does."""
        reply = await self.inner.complete(request)
        self._observations.add(request, reply)
        return reply
