"""HTTP server for `/v1/chat/completions` that returns errors on demand.

It runs in a thread of its own with its own event loop, so the same object serves an async test, a synchronous
one, and a whole command line in a subprocess. Raw asyncio streams and no web framework: a cut-off body or a
dropped connection is exactly what a framework prevents.

    def test_something(fake_openai):
        fake_openai.answer = lambda body: '{"sql": "SELECT 1"}'     # every ordinary reply
        fake_openai.script(rate_limit(retry_after=0.1), server_error())   # the next two, in order of arrival
        ... base_url=fake_openai.base_url ...
        assert len(fake_openai.requests) == 3
"""

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import pytest

Body = dict[str, Any]


@dataclass(frozen=True)
class Behaviour:
    """How one request is answered.

    Attributes:
        status: HTTP status.
        body: the answer's body; None for an ordinary reply made by the server's `answer`.
        headers: further headers.
        content: the reply's text instead of that of `answer`; only without `body`.
        choice: keys merged into the reply's choice, e.g. {"finish_reason": "length"}.
        usage: the reply's usage, None to leave it out, absent (the default {}) for a plausible one.
        delay: seconds before the answer, instead of the server's latency.
        hang: never answer.
        drop: close the connection without an answer.
        cut_to: send only this share of the body, with its full Content-Length.
        cut_json: send only this share of the body, as if it were all of it.
        raw: the body as bytes, instead of all of that.
        model: name of the model that answers, "" for the one that was requested.
        drip: seconds between the four pieces in which the body is sent; None: at once.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    content: str | None = None
    choice: Body = field(default_factory=dict)
    usage: Body | None = field(default_factory=dict)
    delay: float | None = None
    hang: bool = False
    drop: bool = False
    cut_to: float | None = None
    cut_json: float | None = None
    raw: bytes | None = None
    drip: float | None = None
    model: str = ""


def error(
    status: int, message: str, *, code: str | None = None, type_: str = "", **headers: str
) -> Behaviour:
    """An `error` object in OpenAI's form."""
    body = {"error": {"message": message, "type": type_ or None, "param": None, "code": code}}
    return Behaviour(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def reply(text: str, **more: Any) -> Behaviour:
    """An ordinary reply with this text."""
    return Behaviour(content=text, **more)


def tool_calls(*calls: tuple[str, str], text: str | None = None) -> Behaviour:
    """A reply that calls tools, each by its name and its arguments as the model writes them.

    In the form of OpenAI's guide "Function calling" and of the type `ChatCompletionMessageToolCall` of its SDK.
    """
    called = [
        {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for place, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text, "tool_calls": called}
    written = "".join(arguments for _, arguments in calls)
    return Behaviour(content=written, choice={"message": message, "finish_reason": "tool_calls"})


def rate_limit(retry_after: float | None = None) -> Behaviour:
    """429, with the header retry-after-ms if `retry_after` (seconds) is given."""
    headers = {} if retry_after is None else {"retry_after_ms": str(retry_after * 1000)}
    return error(
        429, "Rate limit reached for requests", code="rate_limit_exceeded", type_="requests", **headers
    )


def no_capacity() -> Behaviour:
    """429 for a request of the tier "flex", as OpenAI's guide "Flex processing" describes it."""
    return error(429, "Resource Unavailable", code="resource_unavailable")


def quota_exhausted() -> Behaviour:
    """429 with the code that OpenAI gives when the credit is gone."""
    message = "You exceeded your current quota, please check your plan and billing details."
    return error(429, message, code="insufficient_quota", type_="insufficient_quota")


def unauthorized(key: str = "sk-wrong") -> Behaviour:
    """401, quoting the key as some endpoints do."""
    return error(401, f"Incorrect API key provided: {key}.", code="invalid_api_key")


def server_error(status: int = 500) -> Behaviour:
    """A 5xx whose body is a proxy's HTML page."""
    return Behaviour(status, "<html><body>upstream failed</body></html>", {"content-type": "text/html"})


def hang() -> Behaviour:
    """Take the request and never answer."""
    return Behaviour(hang=True)


def dropped() -> Behaviour:
    """Take the request and close the connection."""
    return Behaviour(drop=True)


def cut_off() -> Behaviour:
    """Half of the promised body, then a closed connection."""
    return Behaviour(cut_to=0.5)


def cut_json() -> Behaviour:
    """A whole HTTP answer around half of a JSON body."""
    return Behaviour(cut_json=0.5)


def empty() -> Behaviour:
    """A reply whose content is null."""
    return Behaviour(choice={"message": {"role": "assistant", "content": None}})


def out_of_tokens(text: str = "") -> Behaviour:
    """A reply that stopped at the token limit."""
    return Behaviour(content=text, choice={"finish_reason": "length"})


@dataclass(frozen=True)
class Received:
    """One request as it arrived.

    Attributes:
        body: the JSON body.
        headers: names in lower case.
        at: `time.monotonic()` of its arrival.
        query: of its URL.
    """

    body: Body
    headers: dict[str, str]
    at: float
    query: str = ""

    @property
    def prompt(self) -> str:
        """The last message's text."""
        return prompt_of(self.body)


def prompt_of(body: Body) -> str:
    """Return the text of the last message of a request, or the last tool's result, in any protocol."""
    last = (body.get("messages") or body["input"])[-1]
    content = last.get("content", last.get("output"))
    if isinstance(content, str):
        return content
    return "".join(block.get("text", block.get("content")) for block in content)


class FakeOpenAI:
    """The server. Use it as a context manager, or through the fixture `fake_openai`.

    Attributes:
        answer: makes an ordinary reply's text from the request's body.
        latency: seconds before every answer.
        delay: seconds before the answer to a request's body, instead of `latency`; None: `latency`.
        keep: whether requests are kept in `requests`.
        capacity: requests in flight above which 429 is the answer; None for no limit.
        requests: everything that arrived, in order.
        in_flight: requests being answered now.
        most_in_flight: the highest that `in_flight` has been.
        one_at_a_time: whether a request, GET /models too, waits for the answer to the one before.
        models: status of GET /v1/models; None: no answer.
        probes: how often that was asked.
        listed: entries of GET /v1/models.
        tier: service tier that the reply to a body names.
        respond: decides by the body how a request is answered; None: as ever.
        replies: the bodies of all ordinary replies.
        takes_n: whether as many replies are given as `n` says.
    """

    path = "/v1/chat/completions"

    def __init__(self) -> None:
        self.answer: Callable[[Body], str] = lambda body: f"reply to: {prompt_of(body)}"
        self.latency = 0.0
        self.delay: Callable[[Body], float] | None = None
        self.keep = True
        self.capacity: int | None = None
        self.requests: list[Received] = []
        self.arrived = 0  # HTTP requests of any kind
        self.in_flight = 0
        self.most_in_flight = 0
        self.one_at_a_time = False
        self.models: int | None = 404
        self.probes = 0
        self.listed: list[Body] = []
        self.tier: Callable[[Body], str] = lambda body: body.get("service_tier", "default")
        self.respond: Callable[[Body], Behaviour | None] = lambda body: None
        self.replies: list[Body] = []
        self.takes_n = False
        self._script: deque[Behaviour] = deque()
        self._always: Behaviour | None = None
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._port = 0
        self._working = asyncio.Lock()
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="fake-openai", daemon=True)

    @property
    def base_url(self) -> str:
        """What a backbone's `base_url` is set to."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def prompts(self) -> list[str]:
        """The last message of every request."""
        return [received.prompt for received in self.requests]

    def script(self, *behaviours: Behaviour) -> None:
        """Answer the next requests so, one each in order of arrival; after them as ever."""
        self._script.extend(behaviours)

    def always(self, behaviour: Behaviour | None) -> None:
        """Set the behaviour for requests beyond the script; None: an ordinary reply."""
        self._always = behaviour

    def wait_for(self, requests: int, timeout: float = 300.0) -> None:
        """Block until that many requests have arrived.

        Raises:
            TimeoutError: they have not in time.
        """
        deadline = time.monotonic() + timeout
        while len(self.requests) < requests:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.requests)} of {requests} requests arrived in {timeout} s")
            time.sleep(0.002)

    def __enter__(self) -> "FakeOpenAI":
        self._thread.start()
        if not self._ready.wait(60):
            raise RuntimeError("the fake server did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=512)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._one_request(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            self._connections.discard(task)
            writer.close()

    async def _one_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        payload = await reader.readexactly(int(headers.get("content-length", 0)))
        async with self._working if self.one_at_a_time else nullcontext():
            self.arrived += 1
            return await self._answered(first, headers, payload, writer)

    async def _answered(
        self, first: str, headers: dict[str, str], payload: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        method, target, _ = first.split(" ", 2)
        path, _, query = target.partition("?")
        if (method, path) == ("GET", "/v1/models"):
            self.probes += 1
            if self.models is None:
                await asyncio.sleep(3600)
            self._send(writer, self.models or 404, {"data": self.listed})
            return True
        if (method, path) != ("POST", self.path):
            self._send(writer, 404, {"error": {"message": f"no {path} here", "code": "not_found"}})
            return True
        body = json.loads(payload)
        if self.keep:
            self.requests.append(Received(body, headers, time.monotonic(), query))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._behave(self.respond(body) or self._next(), body, writer)
        finally:
            self.in_flight -= 1

    def _next(self) -> Behaviour:
        if self._script:
            return self._script.popleft()
        if self.capacity is not None and self.in_flight > self.capacity:
            return rate_limit()
        return self._always or Behaviour()

    async def _behave(self, how: Behaviour, body: Body, writer: asyncio.StreamWriter) -> bool:
        if how.hang:
            await asyncio.sleep(3600)
        if how.drop:
            writer.transport.abort()
            return False
        usual = self.delay(body) if self.delay else self.latency
        delay = usual if how.delay is None else how.delay
        if delay:
            await asyncio.sleep(delay)
        content = self._reply(how, body) if how.body is None else how.body
        if how.body is None and self.keep:
            self.replies.append(content)
        if how.drip is None:
            self._send(writer, how.status, content, how)
        else:
            head, payload = self._encoded(how.status, content, how)
            writer.write(head)
            for start in range(0, len(payload), quarter := len(payload) // 4 + 1):
                await asyncio.sleep(how.drip)
                writer.write(payload[start : start + quarter])
                await writer.drain()
        await writer.drain()
        return how.cut_to is None

    def _reply(self, how: Behaviour, body: Body) -> Body:
        text = self.answer(body) if how.content is None else how.content
        replies = body.get("n") or 1 if self.takes_n else 1
        asked = sum(len(message.get("content") or "") for message in body["messages"]) // 4 + 1
        written = (len(text) // 4 + 1) * replies
        usage = (
            {"prompt_tokens": asked, "completion_tokens": written, "total_tokens": asked + written}
            if how.usage == {}
            else how.usage
        )
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        more = [choice | {"index": place} for place in range(1, replies)]
        completion: Body = {
            "id": "chatcmpl-fake",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": how.model or body["model"],
            "choices": [choice | how.choice, *more],
            "service_tier": self.tier(body),
        }
        return completion if usage is None else completion | {"usage": usage}

    def _send(
        self, writer: asyncio.StreamWriter, status: int, content: Any, how: Behaviour | None = None
    ) -> None:
        head, payload = self._encoded(status, content, how or Behaviour())
        writer.write(head + payload)

    def _encoded(self, status: int, content: Any, how: Behaviour) -> tuple[bytes, bytes]:
        payload = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        if how.raw is not None:
            payload = how.raw
        if how.cut_json is not None:
            payload = payload[: int(len(payload) * how.cut_json)]
        headers = {"content-type": "application/json", "content-length": str(len(payload))} | how.headers
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        sent = payload if how.cut_to is None else payload[: int(len(payload) * how.cut_to)]
        return f"HTTP/1.1 {status} Whatever\r\n{head}\r\n".encode("latin-1"), sent


@pytest.fixture
def fake_openai() -> Iterator[FakeOpenAI]:
    """A fresh server for one test."""
    with FakeOpenAI() as server:
        yield server
