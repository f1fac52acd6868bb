"""Anthropic's Message Batches (guide "Batch processing" and API reference, types of the anthropic SDK 2.12)."""

import datetime
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from tasks.backbone.batches.provider import (
    BatchState,
    Exchange,
    Item,
    Result,
    id_of,
    json_from,
    results_from,
)
from tasks.backbone.endpoint.formats.answer import part

PATH = "messages/batches"
CLOCKS_S = 120
"""Seconds by which the provider's clock may be behind ours."""
STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP statuses of the types of errors (API reference "Errors")."""


class AnthropicBatches:
    """Batches of messages. A batch has no metadata: one is found again by its time and its number of requests."""

    most_requests = 100_000
    most_bytes = 250 * 10**6

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def submit(self, items: Sequence[Item], token: str) -> str:
        """Create a batch of the requests."""
        requests = [{"custom_id": item.key, "params": item.body} for item in items]
        return id_of(await json_from(self._exchange, PATH, {"requests": requests}))

    async def find(self, token: str, since: float, requests: int) -> str | None:
        """Return the id of the first batch of this size since that time.

        If it is another program's, its answers have other ids: the requests then count as not answered, and are sent
        again.
        """
        page = await json_from(self._exchange, f"{PATH}?limit=100")
        for batch in reversed([each for each in page.get("data") or () if isinstance(each, dict)]):
            counts = batch.get("request_counts") or {}
            if _seconds(batch) >= since - CLOCKS_S and sum(counts.values()) == requests:
                return id_of(batch)
        return None

    async def state(self, batch_id: str) -> BatchState:
        """Return the state of a batch."""
        return _state(await json_from(self._exchange, _path(batch_id)))

    async def results(self, state: BatchState) -> Sequence[Result]:
        """Return the answers in the file of results."""
        return await results_from(self._exchange, state, _result)

    async def cancel(self, batch_id: str) -> BatchState:
        """Have the batch cancelled (API reference, "Cancel a Message Batch")."""
        return _state(await json_from(self._exchange, f"{_path(batch_id)}/cancel", {}))


def _path(batch_id: str) -> str:
    return f"{PATH}/{quote(batch_id, safe='')}"


def _state(batch: dict[str, Any]) -> BatchState:
    status, counts = str(batch.get("processing_status")), batch.get("request_counts") or {}
    return BatchState(
        status == "ended",
        status,
        sum(counts.values()) - (counts.get("processing") or 0),
        _seconds(batch, "ended_at") - _seconds(batch) if batch.get("ended_at") else None,
        # the place of `results_url`, which is not followed: the key would go to whatever it names
        (f"{_path(id_of(batch))}/results",) if status == "ended" else (),
    )


def _seconds(batch: dict[str, Any], name: str = "created_at") -> float:
    try:
        return datetime.datetime.fromisoformat(str(batch.get(name))).timestamp()
    except ValueError:
        return 0.0


def _result(line: dict[str, Any]) -> Result:
    result = part(line, "result")
    match result.get("type"):
        case "succeeded":
            return Result(line["custom_id"], 200, json.dumps(result.get("message")))
        case "errored":
            error = part(result, "error")
            kind = str(part(error, "error").get("type"))
            return Result(line["custom_id"], STATUSES.get(kind, 500), json.dumps(error))
    return Result(line["custom_id"], 0, json.dumps({"type": result.get("type")}))
