"""OpenAI's Batch API (guide "Batch API" and API reference "Batches", types of the openai SDK 3.52)."""

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
from tasks.backbone.endpoint.connection import Upload

WINDOW = "24h"
NAME = "crosscheck"
"""Key of our token in a batch's metadata."""
ENDED = ("completed", "failed", "expired", "cancelled")
QUEUE_FULL = "token_limit_exceeded"
"""Code of the error of a batch whose tokens exceed what may wait in the queue."""
PAGES = 20
"""Pages of batches that are searched for one, 100 each, the newest first."""


class OpenAIBatches:
    """Batches of one endpoint, for chat completions or responses.

    Args:
        exchange: sends a request.
        path: path of the requests in a batch, below the base URL.
    """

    most_requests = 50_000
    most_bytes = 200 * 10**6

    def __init__(self, exchange: Exchange, path: str) -> None:
        self._exchange = exchange
        self._url = f"/v1/{path}"

    async def submit(self, items: Sequence[Item], token: str) -> str:
        """Upload the requests as a file, and create a batch of it whose metadata have the token."""
        content = "".join(
            json.dumps({"custom_id": item.key, "method": "POST", "url": self._url, "body": item.body}) + "\n"
            for item in items
        )
        upload = Upload(f"{token}.jsonl", content.encode())
        file = await json_from(self._exchange, "files", {"purpose": "batch"}, upload)
        batch = await json_from(
            self._exchange,
            "batches",
            {
                "input_file_id": file.get("id"),
                "endpoint": self._url,
                "completion_window": WINDOW,
                "metadata": {NAME: token},
            },
        )
        return id_of(batch)

    async def find(self, token: str, since: float, requests: int) -> str | None:
        """Return the id of the batch whose metadata have the token."""
        path = "batches?limit=100"
        for _ in range(PAGES):
            page = await json_from(self._exchange, path)
            batches = [each for each in page.get("data") or () if isinstance(each, dict)]
            for batch in batches:
                if (batch.get("metadata") or {}).get(NAME) == token:
                    return id_of(batch)
            oldest = min((each.get("created_at") or 0 for each in batches), default=0)
            if not batches or not page.get("has_more") or oldest < since:
                break
            path = f"batches?limit=100&after={quote(id_of(batches[-1]), safe='')}"
        return None

    async def state(self, batch_id: str) -> BatchState:
        """Return the state of a batch."""
        return _state(await json_from(self._exchange, _path(batch_id)))

    async def results(self, state: BatchState) -> Sequence[Result]:
        """Return the answers in the output file and in the error file."""
        return await results_from(self._exchange, state, _result)

    async def cancel(self, batch_id: str) -> BatchState:
        """Have the batch cancelled, which takes up to 10 minutes (API reference, "Cancel batch")."""
        return _state(await json_from(self._exchange, f"{_path(batch_id)}/cancel", {}))


def _path(batch_id: str) -> str:
    return f"batches/{quote(batch_id, safe='')}"


def _state(batch: dict[str, Any]) -> BatchState:
    status, counts = str(batch.get("status")), batch.get("request_counts") or {}
    files = [batch.get(name) for name in ("output_file_id", "error_file_id")]
    errors = [each for each in (batch.get("errors") or {}).get("data") or () if isinstance(each, dict)]
    said = "; ".join(str(each.get("message") or each.get("code")) for each in errors[:3])
    return BatchState(
        status in ENDED,
        status,
        (counts.get("completed") or 0) + (counts.get("failed") or 0),
        _seconds(batch) if status in ENDED else None,
        tuple(f"files/{quote(str(file), safe='')}/content" for file in files if file)
        if status in ENDED
        else (),
        (said or "no reason is given") if status == "failed" else "",
        any(each.get("code") == QUEUE_FULL for each in errors),
    )


def _seconds(batch: dict[str, Any]) -> float | None:
    ends = [batch.get(f"{name}_at") for name in ENDED]
    times = [each for each in ends if isinstance(each, int | float)]
    created = batch.get("created_at")
    return max(times) - created if times and isinstance(created, int | float) else None


def _result(line: dict[str, Any]) -> Result:
    response = line.get("response")
    if isinstance(response, dict) and isinstance(response.get("status_code"), int):
        return Result(line["custom_id"], response["status_code"], json.dumps(response.get("body")))
    return Result(line["custom_id"], 0, json.dumps(line.get("error")))
