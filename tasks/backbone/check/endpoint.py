"""An endpoint that is probed: request bodies are sent as they are, without retries and without a cache."""

import asyncio
import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Any, Self

from tasks.backbone.endpoint.access import Access
from tasks.backbone.endpoint.connection import Connections, HttpAnswer, TooLongAnswerError, deadline
from tasks.backbone.endpoint.failures import Refusal, refusal_of
from tasks.backbone.endpoint.formats.answer import (
    Answer,
    GarbledAnswerError,
    RefusedInBodyError,
    count,
    object_in,
)
from tasks.backbone.endpoint.formats.choice import format_of
from tasks.backbone.endpoint.probe import PROBE_S
from tasks.backbone.endpoint.redirects import Target
from tasks.backbone.replies.json_text import without_thoughts
from tasks.core.errors import BackboneError
from tasks.core.outcome import Usage
from tasks.settings.backbone import BackboneSettings

MOST_CONNECTIONS = 64
_LIMIT_REACHED = re.compile(r"output limit was reached|could not finish the message", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sent:
    """Outcome of one request: an answer, or why there is none."""

    seconds: float
    answer: Answer | None = None
    refusal: Refusal | None = None

    @property
    def why(self) -> str:
        """Why there is no answer; "" if there is one."""
        return self.refusal.message if self.refusal else ""

    @property
    def took(self) -> bool:
        """Whether the endpoint took the request as it was sent, also if the reply needed more tokens than its limit.

        OpenAI refuses the reply of a reasoning model that has used up the limit before it answers.
        """
        return self.answer is not None or bool(_LIMIT_REACHED.search(self.why))

    @property
    def lacks_tokens(self) -> bool:
        """Whether the model used up its limit of tokens before it answered: on its thoughts."""
        if self.answer is None:
            return self.took
        return self.answer.truncated and not without_thoughts(self.answer.text)


@dataclass(frozen=True, slots=True)
class Streamed:
    """Times of a streamed reply, in seconds, the number of its parts, and its tokens as far as they are reported."""

    first_s: float
    seconds: float
    parts: int
    usage: Usage


class Endpoint:
    """An endpoint with the settings of a backbone; use it as `async with Endpoint(settings) as endpoint`."""

    def __init__(self, settings: BackboneSettings) -> None:
        """Read the key and the headers from the environment.

        Raises:
            ConfigurationError: as `Access.of`.
        """
        self.settings = settings
        self._access = Access.of(settings)
        self.format = format_of(settings)
        self._target = Target(self._access.url(self.format.path))

    async def __aenter__(self) -> Self:
        self._connections = Connections(
            self._access, MOST_CONNECTIONS, min(PROBE_S, self.settings.timeout_s), self.format.sdk
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connections.close()

    async def models(self, path: str = "models") -> HttpAnswer:
        """Return the answer to GET /models, or to another path below the base URL, with any status.

        Raises:
            BackboneError: the endpoint cannot be reached, or does not answer.
        """
        try:
            async with deadline(PROBE_S):
                return await self._connections.send(Target(self._access.url(path), "get"))
        except Exception as error:
            reason = self.clean(" ".join(str(error).split()))[:200] or type(error).__name__
            raise BackboneError(reason, transient=True) from error

    async def ask(self, body: Mapping[str, Any]) -> Sent:
        """Send a request; an error of the endpoint or the network is part of the result.

        After a lost connection, the request is sent once more: a server may close an idle connection at any time.
        """
        sent = await self._ask(body)
        return await self._ask(body) if sent.refusal and sent.refusal.kind == "connection" else sent

    async def _ask(self, body: Mapping[str, Any]) -> Sent:
        began = time.monotonic()
        try:
            async with deadline(self.settings.timeout_s):
                found = await self._connections.send(self._target, body)
        except (TooLongAnswerError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            return Sent(time.monotonic() - began, refusal=self._lost(error))
        except Exception as error:  # aiohttp's own
            return Sent(time.monotonic() - began, refusal=self._lost(error))
        return self._read(found, time.monotonic() - began)

    async def count_tokens(self, body: Mapping[str, Any]) -> int | None:
        """Return the input tokens of a request as the endpoint counts them without a charge; None if it does not."""
        target = Target(self._access.url(self.format.counting))
        counted = {name: value for name, value in body.items() if name in self.format.counted}
        try:
            async with deadline(PROBE_S):
                found = await self._connections.send(target, counted)
            return count(object_in(found.text, "number of tokens"), "input_tokens")
        except Exception:  # an endpoint that fails in any way does not count
            return None

    async def stream(self, body: Mapping[str, Any]) -> Streamed | None:
        """Send a request whose reply is streamed; None if the endpoint does not stream."""
        import httpx2

        began, first, parts, usage = time.monotonic(), 0.0, 0, Usage()
        headers = await self._connections.headers()
        try:
            async with (
                deadline(self.settings.timeout_s),
                httpx2.AsyncClient(headers=headers, timeout=None) as client,
                client.stream("POST", self._target.url, json={**body, **self.format.stream}) as response,
            ):
                if response.status_code != 200:
                    return None
                async for line in response.aiter_lines():
                    event = _event(line)
                    if event is None:
                        continue
                    found = self.format.event(event)
                    if found.text:
                        parts += 1
                        first = first or time.monotonic() - began
                    usage = _updated(usage, found.usage)
        except Exception:  # a stream that fails in any way is one that the endpoint does not offer
            return None
        return Streamed(first, time.monotonic() - began, parts, usage) if parts else None

    def clean(self, text: str) -> str:
        """Return a text without the secrets of the endpoint."""
        return self._access.clean(text)

    def _read(self, found: HttpAnswer, seconds: float) -> Sent:
        if found.status != 200:
            return Sent(seconds, refusal=self._refused(found.status, found.headers, found.text))
        try:
            answer = self.format.answer(found.text)
        except RefusedInBodyError as error:
            return Sent(seconds, refusal=self._refused(error.status, found.headers, error.body))
        except GarbledAnswerError as error:
            return Sent(seconds, refusal=Refusal("garbled", self.clean(str(error))))
        return Sent(seconds, answer)

    def _refused(self, status: int, headers: Mapping[str, str], body: str) -> Refusal:
        changes = self.format.changes(self.settings)
        found = refusal_of(status, headers, body, self.settings.key_place, changes)
        return Refusal(found.kind, self.clean(found.message), found.advice)

    def _lost(self, error: Exception) -> Refusal:
        if isinstance(error, TimeoutError):
            return Refusal("timeout", f"no answer within {self.settings.timeout_s:g} s")
        return Refusal("connection", self.clean(" ".join(str(error).split()))[:200] or type(error).__name__)


def _event(line: str) -> dict[str, Any] | None:
    """Return the object of a line of server-sent events; None for any other line."""
    data = line.removeprefix("data:").strip()
    if not line.startswith("data:") or data == "[DONE]":
        return None
    try:
        event = json.loads(data)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _updated(before: Usage, found: Usage) -> Usage:
    """Return the token counts of a stream after a further event, which may bring some of them."""
    return replace(before, **{name: value for name, value in asdict(found).items() if value is not None})
