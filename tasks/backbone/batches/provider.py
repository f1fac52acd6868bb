"""What a provider of batches does: it takes many requests at once, and has their answers within a day."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tasks.backbone.endpoint.connection import HttpAnswer, Upload
from tasks.backbone.endpoint.failures import Refusal
from tasks.core.errors import CrosscheckError

Exchange = Callable[[str, Mapping[str, Any] | None, Upload | None], Awaitable[HttpAnswer | Refusal]]
"""Sends one request: path below the base URL, body, file; a GET without a body."""


@dataclass(frozen=True, slots=True)
class Item:
    """One request of a batch."""

    key: str  # the request's key in the reply cache, 64 hexadecimal digits
    body: Mapping[str, Any]  # its body


@dataclass(frozen=True, slots=True)
class BatchState:
    """State of a batch at the provider."""

    ended: bool  # whether nothing more will be answered
    status: str  # in the provider's words
    answered: int  # requests that have an answer
    seconds: float | None = None  # from its submission to its end by the provider's clock; None before
    # paths of files with answers; () before the end, and where there are none
    results: tuple[str, ...] = ()
    refused: str = ""  # why the batch was refused as a whole, "" if it was not
    queue_full: bool = False  # whether that was because too many tokens wait in the provider's queue


@dataclass(frozen=True, slots=True)
class Result:
    """Answer to one request of a batch."""

    key: str
    status: int  # as of an HTTP answer; 0: not answered, since the batch expired or was cancelled
    text: str  # body of the answer


class RefusedError(CrosscheckError):
    """Request about a batch that was refused or failed."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal

    @property
    def missing(self) -> bool:
        """Whether the provider does not have the batch or its answers, or no longer."""
        return self.refusal.message.startswith(("HTTP 404", "HTTP 410"))


class BatchProvider(Protocol):
    """A provider's interface for batches. Every method raises RefusedError."""

    most_requests: int
    """Requests of one batch at most."""
    most_bytes: int
    """Bytes of the requests of one batch at most."""

    async def submit(self, items: Sequence[Item], token: str) -> str:
        """Submit a batch under a token of our own, and return its id."""
        ...

    async def find(self, token: str, since: float, requests: int) -> str | None:
        """Return the id of a batch that was submitted under a token, if the provider has it.

        `since` is when it was submitted at the earliest, in seconds since the epoch; `requests` is its size.
        """
        ...

    async def state(self, batch_id: str) -> BatchState:
        """Return the state of a batch."""
        ...

    async def results(self, state: BatchState) -> Sequence[Result]:
        """Return the answers of an ended batch."""
        ...

    async def cancel(self, batch_id: str) -> BatchState:
        """Have the provider end a batch, and return its state. Answers that it has by its end can be collected."""
        ...


async def json_from(
    exchange: Exchange, path: str, body: Mapping[str, Any] | None = None, upload: Upload | None = None
) -> dict[str, Any]:
    """Send a request, and return the JSON object that it is answered with.

    Raises:
        RefusedError: it failed, or the answer is no JSON object.
    """
    answer = await text_from(exchange, path, body, upload)
    try:
        content = json.loads(answer)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise RefusedError(Refusal("garbled", f"the answer to {path} is no JSON object"))
    return content


async def text_from(
    exchange: Exchange, path: str, body: Mapping[str, Any] | None = None, upload: Upload | None = None
) -> str:
    """Send a request, and return the text of its answer.

    Raises:
        RefusedError: it failed.
    """
    answer = await exchange(path, body, upload)
    if isinstance(answer, Refusal):
        raise RefusedError(answer)
    return answer.text


def id_of(content: Mapping[str, Any]) -> str:
    """Return the id in what a provider says about a batch.

    Raises:
        RefusedError: there is none.
    """
    if not isinstance(content.get("id"), str):
        raise RefusedError(Refusal("garbled", "the answer about a batch has no id"))
    return str(content["id"])


async def results_from(
    exchange: Exchange, state: BatchState, read: Callable[[dict[str, Any]], Result]
) -> Sequence[Result]:
    """Return the answers in the files of a batch, each line as it is read.

    A line that is no object with an id is left out, and its request has no answer.

    Raises:
        RefusedError: a file cannot be had.
    """
    found = []
    for path in state.results:
        # not `splitlines`, which also splits at separators such as U+2028 inside of a reply
        for line in (await text_from(exchange, path)).split("\n"):
            try:
                content = json.loads(line)
            except ValueError:
                continue
            if isinstance(content, dict) and isinstance(content.get("custom_id"), str):
                found.append(read(content))
    return found
