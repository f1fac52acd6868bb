"""HTTP connections to an endpoint: the SDK's client with a limit on what it reads, and a time limit."""

import asyncio
import importlib
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tasks.backbone.endpoint.access import Access
from tasks.backbone.endpoint.formats.wire import Sdk
from tasks.backbone.endpoint.redirects import Target
from tasks.core.errors import ConfigurationError

if TYPE_CHECKING:
    import httpx2
    from openai._types import RequestOptions

MOST_BYTES = 16 * 2**20
"""Longest body of an answer, before and after decompression."""
MOST_FILE_BYTES = 512 * 2**20
"""The same of a GET, which may have the answers to a whole batch."""
_PACKED = ("gzip", "deflate")
_ANY_HEADER = 47
"""Size of zlib's window with which it reads both formats."""


class TooLongAnswerError(ValueError):
    """Answer with a body of more than `MOST_BYTES`."""

    def __init__(self) -> None:
        super().__init__(f"the answer is longer than {MOST_BYTES // 2**20} MiB")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP answer with any status."""

    status: int  # the HTTP status
    headers: Mapping[str, str]  # names in lower case
    text: str  # the body


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of JSON lines that is sent with a request."""

    name: str
    content: bytes


def imported(sdk: Sdk) -> ModuleType:
    """Import the client of a provider.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        return importlib.import_module(sdk)
    except ModuleNotFoundError as error:
        if error.name != sdk:
            raise
        raise ConfigurationError(
            f'A backbone of the kind {sdk} needs the package {sdk}: pip install "crosscheck-sql[{sdk}]".'
        ) from None


class Connections:
    """Connections to an endpoint, kept open between requests. Make and close it within the event loop.

    Args:
        access: the endpoint.
        most: connections at a time.
        connect_s: timeout of one connection.
        sdk: the provider's client, which also decides by which header the key is sent.
    """

    def __init__(self, access: Access, most: int, connect_s: float, sdk: Sdk = "openai") -> None:
        from openai import DEFAULT_CONNECTION_LIMITS, Timeout

        # The default keeps at most 100 connections open; beyond that, each request would open its own.
        self._limits = type(DEFAULT_CONNECTION_LIMITS)(max_connections=most, max_keepalive_connections=most)
        self._sdk = imported(sdk)
        self._access = access
        headers: dict[str, Any] = {"accept-encoding": ", ".join(_PACKED), **access.headers}
        if not headers.pop("authorization", "") and access.command is None:
            headers["Authorization"] = self._sdk.Omit()
        self._options: RequestOptions = {"headers": headers}
        client = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}[sdk]
        self._client = getattr(self._sdk, client)(
            api_key="none",
            base_url=access.url(""),
            timeout=Timeout(None, connect=connect_s),
            max_retries=0,
            http_client=self._http_client(),
        )

    def _http_client(self) -> "httpx2.AsyncClient":
        return _limited_client()(limits=self._limits, follow_redirects=False)

    async def headers(self) -> dict[str, str]:
        """Return the headers of a request, with the key."""
        self._client.api_key = await self._access.key() or "none"
        every = {**self._client.default_headers, **self._client.auth_headers, **self._options["headers"]}
        return {name: value for name, value in every.items() if isinstance(value, str)}

    async def send(
        self, target: Target, body: Mapping[str, Any] | None = None, upload: Upload | None = None
    ) -> HttpAnswer:
        """Send one request and read its answer; redirects are not followed. With an upload, the body is a form.

        Raises:
            aiohttp.ClientError, OSError, TimeoutError: the connection failed, or the answer is cut off, not HTTP, or
                damaged.
            TooLongAnswerError: the body is too long.
            BackboneError: the program that prints the key fails.
        """
        import httpx2

        self._client.api_key = await self._access.key() or "none"
        try:
            if target.method == "get":
                # Some servers close the connection after an error without saying so, and lose the request that follows:
                # a GET has a connection of its own.
                async with self._http_client() as alone:
                    client = self._client.with_options(http_client=alone)
                    response = await client.get(target.url, cast_to=httpx2.Response, options=self._options)
            elif upload is not None:
                headers = {**self._options["headers"], "Content-Type": "multipart/form-data"}
                response = await self._client.post(
                    target.url,
                    cast_to=httpx2.Response,
                    body=body,
                    files=[("file", (upload.name, upload.content, "application/jsonl"))],
                    options={"headers": headers},
                )
            else:
                response = await self._client.post(
                    target.url, cast_to=httpx2.Response, body=body, options=self._options
                )
        except self._sdk.APIStatusError as error:
            response = error.response
        except self._sdk.APIConnectionError as error:
            raise _cause_of(error) from error
        # UTF-8, which JSON always is, whatever charset the header names.
        text = response.content.decode("utf-8-sig", "replace")
        return HttpAnswer(response.status_code, dict(response.headers), text)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _limited_client() -> "type[httpx2.AsyncClient]":
    """Return the class of an HTTP client that reads no more than `MOST_BYTES` of an answer."""
    import httpx2

    # aiohttp takes half the processor time of the SDK's default transport.
    from openai import DefaultAioHttpClient

    class LimitedClient(DefaultAioHttpClient):
        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            streamed = await super().send(request, **options | {"stream": True})
            try:
                most = MOST_FILE_BYTES if request.method == "GET" else MOST_BYTES
                content = await _content(streamed, most)
            finally:
                await streamed.aclose()
            headers = [
                (name, value)
                for name, value in streamed.headers.raw  # bytes: a server may send any
                if name.lower() not in (b"content-encoding", b"content-length", b"transfer-encoding")
            ]
            return httpx2.Response(streamed.status_code, headers=headers, content=content, request=request)

    return LimitedClient


async def _content(response: "httpx2.Response", most: int) -> bytes:
    """Return the body, decompressed."""
    packed = bytearray()
    if int(response.headers.get("content-length") or 0) > most:
        raise TooLongAnswerError
    async for part in response.aiter_raw():
        packed += part
        if len(packed) > most:
            raise TooLongAnswerError
    if response.headers.get("content-encoding", "").strip().lower() not in _PACKED:
        return bytes(packed)
    unpacking = zlib.decompressobj(wbits=_ANY_HEADER)
    try:
        content = unpacking.decompress(bytes(packed), most + 1)
    except zlib.error as error:
        raise _damaged(str(error)) from error
    if len(content) > most:
        raise TooLongAnswerError
    if not unpacking.eof:
        raise _damaged("its compressed body is cut off")
    return content


def _damaged(why: str) -> Exception:
    import aiohttp

    return aiohttp.ClientPayloadError(why)


def _cause_of(error: Exception) -> BaseException:
    """Return aiohttp's error behind an error of the SDK, which reports a lost connection as a timeout."""
    import aiohttp

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, aiohttp.ClientError | TimeoutError | OSError):
            return cause
        cause = cause.__cause__
    return aiohttp.ClientConnectionError(str(error.__cause__ or error))


HELD_UP_S = 0.2
"""Seconds after a limit from which on it is this process that stood still (stopped with Ctrl-Z, for instance), and
those in which what the endpoint sent meanwhile is received."""


class Deadline:
    """Time limit of a block: it ends with TimeoutError so many seconds after it began, or after it was last renewed."""

    def __init__(self, limit: asyncio.Timeout, seconds: float) -> None:
        self._limit, self._seconds = limit, seconds
        self._alarm: asyncio.TimerHandle | None = None
        self.renew()

    def renew(self) -> None:
        """Let the time count from now."""
        self.cancel()
        loop = asyncio.get_running_loop()
        self._due = loop.time() + self._seconds
        self._alarm = loop.call_at(self._due, self._end)

    def cancel(self) -> None:
        """Lift the limit."""
        if self._alarm:
            self._alarm.cancel()

    def _end(self) -> None:
        if self._limit.when() is None:
            now = asyncio.get_running_loop().time()
            self._limit.reschedule(now + HELD_UP_S if now > self._due + HELD_UP_S else now)


@asynccontextmanager
async def deadline(seconds: float) -> AsyncIterator[Deadline]:
    """End the block after so many seconds with TimeoutError, as `asyncio.timeout` does.

    Where the process stood still at that time, replies that have come meanwhile are paid for, and are received first.
    """
    async with asyncio.timeout(None) as limit:
        found = Deadline(limit, seconds)
        try:
            yield found
        finally:
            found.cancel()
