"""Fakes of OpenAI's Batch API (guide "Batch API", API reference "Batches" and "Files") and of Anthropic's Message
Batches (guide "Batch processing", API reference "Message Batches"), with the ledger of what they charge for.

A test checks their answers against the SDKs' own types.
"""

import asyncio
import datetime
import email
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs

from tests.support.fake_anthropic import FakeAnthropic
from tests.support.fake_openai import Behaviour, Body, FakeOpenAI

Fate = Literal["answered", "busy", "wrong", "expired", "cancelled", "unsent"]


@dataclass
class Batch:
    """A batch at the provider."""

    id: str
    created_at: float
    requests: list[Body]
    metadata: Body
    status: str = ""  # set when it has ended, or to end it so
    results: list[Body] = field(default_factory=list)
    errors: list[Body] = field(default_factory=list)
    refused: Body | None = None  # the error of a batch that was refused as a whole


def json_lines(lines: list[Body]) -> str:
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


class _Batches(FakeOpenAI):
    """What both providers have in common.

    Attributes:
        seconds: seconds until a batch has ended.
        fate: what becomes of a request, by its body.
        ledger: how often each request was charged, by its id.
        batches: all batches, in the order of their submission.
        refuse: errors with which the next batches are refused as a whole.
        lose: number of further batches that are accepted without an answer: the connection is dropped.
        room: requests for which the queue has room; None: for any number.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.05
        self.fate: Callable[[Body], Fate] = lambda body: "answered"
        self.ledger: Counter[str] = Counter()
        self.batches: dict[str, Batch] = {}
        self.refuse: list[Body] = []
        self.lose = 0
        self.room: int | None = None

    def _accept(self, requests: list[Body], metadata: Body, writer: asyncio.StreamWriter) -> bool:
        """Take a batch and answer with it; return whether the connection stays."""
        batch = Batch(f"batch_{len(self.batches)}", time.time(), requests, metadata)
        if self.refuse:
            batch.refused, batch.status = self.refuse.pop(0), "failed"
        queued = sum(len(each.requests) for each in self.batches.values() if not self._ended(each))
        if self.room is not None and queued + len(requests) > self.room:
            batch.refused, batch.status = (
                refusal("token_limit_exceeded", "Enqueued token limit reached"),
                "failed",
            )
        self.batches[batch.id] = batch
        if self.lose:
            self.lose -= 1
            return False
        self._send(writer, 200, self._shown(batch))
        return True

    def _page(self, query: str, cursor: str) -> Body:
        """A page of the list of batches, the newest first."""
        fields = dict(parse_qs(query))
        names = list(reversed(self.batches))
        (after,), (limit,) = fields.get(cursor, [""]), fields.get("limit", ["20"])
        names = names[names.index(after) + 1 :] if after else names
        data = [self._shown(self.batches[name]) for name in names[: int(limit)]]
        return {"data": data, "has_more": len(names) > int(limit)}

    def _cancelled(self, name: str) -> Body:
        self.batches[name].status = self.batches[name].status or "cancelled"
        return self._shown(self.batches[name])

    def _shown(self, batch: Batch) -> Body:
        raise NotImplementedError

    def _ended(self, batch: Batch) -> bool:
        """Return whether a batch has ended; answer its requests at that moment."""
        if batch.status in ("failed", "ended") or batch.results or batch.errors:
            return True
        stopped = batch.status in ("expired", "cancelled")
        if not stopped and time.time() < batch.created_at + self.seconds:
            return False
        for number, request in enumerate(batch.requests):
            half = stopped and number % 2 == 1
            self._answer(batch, request, batch.status if half else self.fate(self._body(request)))
        batch.status = batch.status if stopped else "ended"
        return True

    def _body(self, request: Body) -> Body:
        raise NotImplementedError

    def _answer(self, batch: Batch, request: Body, fate: str) -> None:
        raise NotImplementedError


class FakeOpenAIBatches(_Batches):
    """OpenAI's chat completions, files and batches."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, str] = {}
        self.gone: tuple[str, ...] = ()  # files of batches that are not there any more: "error_file_id"

    async def _answered(
        self, first: str, headers: dict[str, str], payload: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        method, target, _ = first.split(" ", 2)
        path, _, query = target.partition("?")
        place = path.removeprefix("/v1/").split("/")
        match method, place:
            case "POST", ["files"]:
                form = email.message_from_bytes(
                    f"Content-Type: {headers['content-type']}\r\n\r\n".encode() + payload
                )
                (content,) = [
                    part.get_payload(decode=True) for part in form.walk() if part.get_filename() is not None
                ]
                assert isinstance(content, bytes)
                self._send(writer, 200, self._file(content.decode()))
            case "POST", ["batches"]:
                body = json.loads(payload)
                requests = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
                return self._accept(requests, body["metadata"], writer)
            case "GET", ["batches"]:
                self._send(writer, 200, {"object": "list", **self._page(query, "after")})
            case "GET", ["batches", name] if name in self.batches:
                self._send(writer, 200, self._shown(self.batches[name]))
            case "POST", ["batches", name, "cancel"] if name in self.batches:
                self._send(writer, 200, self._cancelled(name))
            case "GET", ["files", name, "content"] if name.partition("-")[2] not in self.gone:
                self._send(writer, 200, self.files[name])
            case _:
                return await super()._answered(first, headers, payload, writer)
        await writer.drain()
        return True

    def _file(self, content: str) -> Body:
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return {
            "id": name, "object": "file", "bytes": len(content), "created_at": int(time.time()),
            "filename": "x.jsonl", "purpose": "batch", "status": "processed",
        }  # fmt: skip

    def _shown(self, batch: Batch) -> Body:
        ended = self._ended(batch)
        files = {}
        for name, lines in (("output_file_id", batch.results), ("error_file_id", batch.errors)):
            if ended and lines:
                files[name] = f"{batch.id}-{name}"
                self.files[files[name]] = json_lines(lines)
        errors = {"object": "list", "data": [batch.refused]} if batch.refused else None
        status = {"ended": "completed", "": "in_progress"}.get(batch.status, batch.status)
        return {
            "id": batch.id, "object": "batch", "endpoint": "/v1/chat/completions", "errors": errors,
            "input_file_id": "file-0", "completion_window": "24h", "metadata": batch.metadata,
            "status": status,
            "created_at": int(batch.created_at), **files,
            **({f"{status}_at": int(batch.created_at) + 90} if ended else {}),
            "request_counts": {
                "total": len(batch.requests), "completed": len(batch.results), "failed": len(batch.errors)
            },
        }  # fmt: skip

    def _body(self, request: Body) -> Body:
        body: Body = request["body"]
        return body

    def _answer(self, batch: Batch, request: Body, fate: str) -> None:
        line: Body = {"id": f"batch_req_{request['custom_id']}", "custom_id": request["custom_id"]}
        if fate == "answered":
            self.ledger[request["custom_id"]] += 1
            reply = self._reply(self.respond(request["body"]) or Behaviour(), request["body"])
            response = {"status_code": 200, "request_id": "r", "body": reply}
            batch.results.append({**line, "response": response, "error": None})
        elif fate == "unsent":  # as people report in OpenAI's community forum (November 2025)
            response = {"status_code": 0, "request_id": "", "body": None}
            batch.results.append({**line, "response": response, "error": None})
        elif fate in ("busy", "wrong"):
            status = 429 if fate == "busy" else 400
            error = {"error": {"message": f"it is {fate}", "type": "x", "code": None, "param": None}}
            response = {"status_code": status, "request_id": "r", "body": error}
            batch.errors.append({**line, "response": response, "error": None})
        else:
            error = {"code": f"batch_{fate}", "message": "This request could not be executed in time."}
            batch.errors.append({**line, "response": None, "error": error})


class FakeAnthropicBatches(_Batches, FakeAnthropic):
    """Anthropic's messages and message batches; `asked` has the first lines of all requests."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def _answered(
        self, first: str, headers: dict[str, str], payload: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        self.asked.append(first)
        method, target, _ = first.split(" ", 2)
        path, _, query = target.partition("?")
        match method, path.removeprefix("/v1/messages/batches").split("/"):
            case "POST", [""]:
                return self._accept(json.loads(payload)["requests"], {}, writer)
            case "GET", [""]:
                ids = {"first_id": None, "last_id": None}
                self._send(writer, 200, {**self._page(query, "after_id"), **ids})
            case "GET", ["", name] if name in self.batches:
                self._send(writer, 200, self._shown(self.batches[name]))
            case "POST", ["", name, "cancel"] if name in self.batches:
                self._send(writer, 200, self._cancelled(name))
            case "GET", ["", name, "results"]:
                self._send(writer, 200, json_lines(self.batches[name].results))
            case _:
                return await super()._answered(first, headers, payload, writer)
        await writer.drain()
        return True

    def _shown(self, batch: Batch) -> Body:
        ended = self._ended(batch)

        def at(seconds: int) -> str:
            return datetime.datetime.fromtimestamp(batch.created_at + seconds, datetime.UTC).isoformat()

        kinds = Counter(line["result"]["type"] for line in batch.results)
        counts = {name: kinds[name] for name in ("succeeded", "errored", "canceled", "expired")}
        return {
            "id": batch.id, "type": "message_batch", "processing_status": "ended" if ended else "in_progress",
            "created_at": at(0), "expires_at": at(86400),
            "ended_at": at(90) if ended else None, "archived_at": None, "cancel_initiated_at": None,
            "request_counts": {"processing": len(batch.requests) - len(batch.results), **counts},
            "results_url": f"{self.base_url}/messages/batches/{batch.id}/results" if ended else None,
        }  # fmt: skip

    def _body(self, request: Body) -> Body:
        body: Body = request["params"]
        return body

    def _answer(self, batch: Batch, request: Body, fate: str) -> None:
        result: Body = {"type": {"cancelled": "canceled"}.get(fate, fate)}
        if fate == "answered":
            self.ledger[request["custom_id"]] += 1
            result = {
                "type": "succeeded",
                "message": self._reply(self.respond(request["params"]) or Behaviour(), request["params"]),
            }
        elif fate in ("busy", "wrong"):
            kind = "overloaded_error" if fate == "busy" else "invalid_request_error"
            error = {"type": "error", "error": {"type": kind, "message": f"it is {fate}"}, "request_id": None}
            result = {"type": "errored", "error": error}
        batch.results.append({"custom_id": request["custom_id"], "result": result})


def refusal(code: str, message: str) -> dict[str, Any]:
    """The error of a batch that is refused as a whole, in OpenAI's form."""
    return {"code": code, "message": message, "line": None, "param": None}
