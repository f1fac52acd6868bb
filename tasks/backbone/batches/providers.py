"""Interfaces for batches: OpenAI's Batch API and Anthropic's Message Batches.

Sources: guide "Batch API" and API reference "Batches" (types of the openai SDK 3.52); guide "Batch processing" and API
reference "Message Batches" (types of the anthropic SDK 2.12).
"""

import datetime
import json
import logging
import math
from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from tasks.backbone.batches.store import KeptBatch
from tasks.backbone.endpoint.client import EndpointBackbone, format_of
from tasks.backbone.endpoint.connection import HttpAnswer, Upload
from tasks.backbone.endpoint.failures import Refusal
from tasks.backbone.endpoint.messages import MESSAGES
from tasks.backbone.endpoint.wire import count, part, parts
from tasks.backbone.protocol import json_object
from tasks.settings.backbone import BackboneSettings

log = logging.getLogger(__name__)

Bodies = Mapping[str, Mapping[str, Any]]
"""Bodies of requests by their keys in the reply cache, 64 hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class BatchState:
    """State of a batch at the provider."""

    status: str  # in the provider's words
    ended: bool  # whether nothing more will be answered
    answered: int  # requests that have an answer
    results: tuple[str, ...] = ()  # paths of files with answers; () before the end, and where there are none
    refused: str = ""  # why the batch was refused as a whole; "" if it was not
    queue_full: bool = False  # whether that was because too many tokens wait in the provider's queue


class BatchProvider:
    """A provider's interface for batches. Every method raises Refusal."""

    max_requests: ClassVar[int]
    """Requests of one batch at most."""
    max_bytes: ClassVar[int]
    """Bytes of the requests of one batch at most."""
    path: ClassVar[str] = "batches"
    cursor: ClassVar[str]
    """Name of the parameter with the id behind which a page of batches begins."""
    _PAGES = 20  # pages of batches that are searched for one, 100 each
    _CLOCKS_S = 120  # seconds by which the provider's clock may be behind ours

    def __init__(self, endpoint: EndpointBackbone, request_path: str) -> None:
        self._endpoint = endpoint
        self._request_url = f"/v1/{request_path}"

    @abstractmethod
    async def submit(self, bodies: Bodies, token: str) -> str:
        """Submit a batch under a token of our own, and return its id."""

    @abstractmethod
    async def find(self, kept: KeptBatch, others: Collection[str]) -> str | None:
        """Return the id of a batch that was submitted, or was about to be; None if the provider does not have it.

        `others` are ids of batches that are not this one.
        """

    @abstractmethod
    def _state(self, batch: Mapping[str, Any]) -> BatchState: ...

    @abstractmethod
    def _answer(self, line: Mapping[str, Any]) -> HttpAnswer | None:
        """Return the answer in a line of results, as HTTP would have brought it; None if the line has none."""

    async def state(self, batch_id: str) -> BatchState:
        """Return the state of a batch."""
        return self._state(await self._json(f"{self.path}/{quote(batch_id, safe='')}"))

    async def answers(self, state: BatchState) -> dict[str, HttpAnswer | None]:
        """Return the answers of an ended batch by key; None for requests that expired or were cancelled.

        If one of two files does not exist any more, the answers are those of the other.
        """
        answers: dict[str, HttpAnswer | None] = {}
        gone: Refusal | None = None
        for path in state.results:
            try:
                text = (await self._endpoint.exchange(path)).text
            except Refusal as refusal:
                if not refusal.gone:
                    raise
                log.warning("%s: %s", path, refusal.message)
                gone = refusal
                continue
            # not `splitlines`, which also splits at separators such as U+2028 inside of a reply
            lines = [line for line in text.split("\n") if line.strip()]
            contents = [content for content in map(json_object, lines) if content is not None]
            if not lines or len(contents) < len(lines):  # cut off, or the page of a proxy
                raise Refusal("garbled", f"{path}: the answers of the batch cannot be read")
            for content in contents:
                key = content.get("custom_id")
                if isinstance(key, str):
                    answers[key] = self._answer(content)
        if gone and not answers:
            raise gone
        return answers

    async def _listed(self, kept: KeptBatch) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the provider's batches, the newest first, until the page on which `kept` must be."""
        path = f"{self.path}?limit=100"
        for _ in range(self._PAGES):
            page = await self._json(path)
            batches = parts(page, "data")
            for batch in batches:
                yield batch
            is_last = not batches or not page.get("has_more")
            if is_last or any(not self._is_in_time(batch, kept) for batch in batches):
                return
            path = f"{self.path}?limit=100&{self.cursor}={quote(_id_of(batches[-1]), safe='')}"

    def _is_in_time(self, batch: Mapping[str, Any], kept: KeptBatch) -> bool:
        """Return whether a batch was created since `kept` was submitted; True if it does not say when."""
        return _created_at(batch) >= kept.submitted_at - self._CLOCKS_S

    async def _json(
        self, path: str, body: Mapping[str, Any] | None = None, upload: Upload | None = None
    ) -> dict[str, Any]:
        content = json_object((await self._endpoint.exchange(path, body, upload)).text)
        if not content:
            raise Refusal("garbled", f"the answer to {path} is no JSON object")
        return content


class OpenAIBatches(BatchProvider):
    """Batches of chat completions or responses."""

    max_requests = 50_000
    max_bytes = 200 * 10**6
    _ENDED = ("completed", "failed", "expired", "cancelled")
    cursor = "after"
    _TOKEN = "crosscheck"  # noqa: S105 - the key of our token in a batch's metadata

    async def submit(self, bodies: Bodies, token: str) -> str:
        """Upload the requests as a file, and create a batch of it whose metadata have the token."""
        lines = [
            json.dumps({"custom_id": key, "method": "POST", "url": self._request_url, "body": body})
            for key, body in bodies.items()
        ]
        upload = Upload(f"{token}.jsonl", "".join(f"{line}\n" for line in lines).encode())
        file = await self._json("files", {"purpose": "batch"}, upload)
        batch = {
            "input_file_id": file.get("id"),
            "endpoint": self._request_url,
            "completion_window": "24h",
            "metadata": {self._TOKEN: token},
        }
        return _id_of(await self._json(self.path, batch))

    async def find(self, kept: KeptBatch, others: Collection[str]) -> str | None:
        """Return the id of the batch whose metadata have the token."""
        async for batch in self._listed(kept):
            if part(batch, "metadata").get(self._TOKEN) == kept.token:
                return _id_of(batch)
        return None

    def _state(self, batch: Mapping[str, Any]) -> BatchState:
        status = str(batch.get("status"))
        ended = status in self._ENDED
        counts = part(batch, "request_counts")
        files = [batch.get("output_file_id"), batch.get("error_file_id")] if ended else []
        errors = parts(batch.get("errors"), "data")
        reasons = "; ".join(str(error.get("message") or error.get("code")) for error in errors[:3])
        return BatchState(
            status=status,
            ended=ended,
            answered=(count(counts, "completed") or 0) + (count(counts, "failed") or 0),
            results=tuple(f"files/{quote(str(file), safe='')}/content" for file in files if file),
            refused=(reasons or "no reason is given") if status == "failed" else "",
            queue_full=any(error.get("code") == "token_limit_exceeded" for error in errors),
        )

    def _answer(self, line: Mapping[str, Any]) -> HttpAnswer | None:
        response = part(line, "response")
        status = response.get("status_code")
        if not isinstance(status, int) or not status:  # 0 of a request that was never sent to the model
            return None
        return HttpAnswer(status, {}, json.dumps(response.get("body")))


class AnthropicBatches(BatchProvider):
    """Batches of messages. A batch has no metadata: one is found again by its time and its number of requests."""

    max_requests = 100_000
    max_bytes = 250 * 10**6
    path = "messages/batches"
    cursor = "after_id"
    _STATUSES: ClassVar[Mapping[str, int]] = {
        "invalid_request_error": 400,
        "authentication_error": 401,
        "billing_error": 402,
        "permission_error": 403,
        "not_found_error": 404,
        "request_too_large": 413,
        "rate_limit_error": 429,
        "api_error": 500,
        "timeout_error": 504,
        "overloaded_error": 529,
    }
    """HTTP statuses of the types of errors (API reference, "Errors")."""

    async def submit(self, bodies: Bodies, token: str) -> str:
        """Create a batch of the requests."""
        requests = [{"custom_id": key, "params": body} for key, body in bodies.items()]
        return _id_of(await self._json(self.path, {"requests": requests}))

    async def find(self, kept: KeptBatch, others: Collection[str]) -> str | None:
        """Return the id of the first batch with as many requests that was created since `kept` was submitted.

        It may be another program's, or an earlier one of ours: only the ids of its answers tell.
        """
        first_id = None
        async for batch in self._listed(kept):  # the newest first
            is_candidate = self._is_in_time(batch, kept) and _total(batch) == kept.requests
            if is_candidate and (batch_id := _id_of(batch)) not in others:
                first_id = batch_id
        return first_id

    def _state(self, batch: Mapping[str, Any]) -> BatchState:
        status = str(batch.get("processing_status"))
        # the place of `results_url`, which is not followed: the key would go to whatever it names
        results = f"{self.path}/{quote(_id_of(batch), safe='')}/results"
        ended = status == "ended"
        answered = _total(batch) - (count(batch.get("request_counts"), "processing") or 0)
        return BatchState(status, ended, answered, (results,) if ended else ())

    def _answer(self, line: Mapping[str, Any]) -> HttpAnswer | None:
        result = part(line, "result")
        match result.get("type"):
            case "succeeded":
                return HttpAnswer(200, {}, json.dumps(result.get("message")))
            case "errored":
                error = part(result, "error")
                error_type = str(part(error, "error").get("type"))
                return HttpAnswer(self._STATUSES.get(error_type, 500), {}, json.dumps(error))
        return None  # such as "canceled" and "expired"


def provider_of(endpoint: EndpointBackbone, settings: BackboneSettings) -> BatchProvider:
    """Return the interface for batches of an endpoint."""
    wire = format_of(settings)
    return (AnthropicBatches if wire is MESSAGES else OpenAIBatches)(endpoint, wire.path)


def _id_of(content: Mapping[str, Any]) -> str:
    if not isinstance(content.get("id"), str):
        raise Refusal("garbled", "the answer about a batch has no id")
    return str(content["id"])


def _created_at(batch: Mapping[str, Any]) -> float:
    """Return when a batch was created, in seconds since the epoch; infinity if it does not say so."""
    created_at = batch.get("created_at")
    if isinstance(created_at, int):  # of OpenAI
        return created_at
    try:
        return datetime.datetime.fromisoformat(str(created_at)).timestamp()
    except ValueError:
        return math.inf


def _total(batch: Mapping[str, Any]) -> int:
    """Return the number of requests in a batch of Anthropic, which counts them by their state."""
    counts = part(batch, "request_counts")
    return sum(count(counts, state) or 0 for state in counts)
