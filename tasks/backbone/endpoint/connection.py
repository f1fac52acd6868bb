"""HTTP connections to an endpoint, with the headers of its provider's SDK and limits on size and time."""

import importlib
import json
import zlib
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tasks.backbone.endpoint.access import BEARER, Access
from tasks.backbone.endpoint.wire import Sdk
from tasks.core.errors import ConfigurationError

if TYPE_CHECKING:
    import httpx2

MAX_BYTES = 16 * 2**20
"""Longest body of an answer, before and after decompression."""
MAX_FILE_BYTES = 512 * 2**20
"""Longest answer to a GET, which may be the answers to a whole batch."""
_PACKED = ("gzip", "deflate")
_ANY_HEADER = 47
"""Size of zlib's window with which it reads both formats."""


class TooLongAnswerError(ValueError):
    """Answer with a body of more than `MAX_BYTES`."""

    def __init__(self) -> None:
        super().__init__(f"the answer is longer than {MAX_BYTES // 2**20} MiB")


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


def require(sdk: Sdk) -> None:
    """Check that the client of a provider is installed; its import takes half a second."""
    if find_spec(sdk) is None:
        raise ConfigurationError(
            f'A backbone of the kind {sdk} needs the package {sdk}: pip install "crosscheck-sql[{sdk}]".'
        )


def import_client() -> None:
    """Import what connections to an endpoint need, while a server starts."""
    import aiohttp  # noqa: F401
    import httpx2  # noqa: F401
    import openai  # noqa: F401


class Connections:
    """Connections to an endpoint, at most `max_connections`, kept open. Make and close it within the event loop.

    Redirects are not followed: the key goes to the endpoint alone.
    """

    def __init__(self, access: Access, max_connections: int, connect_s: float, sdk: Sdk) -> None:
        # The SDK uses `httpx` where that is imported, and fails while another thread, such as Prefect's, imports it.
        import httpx  # noqa: F401

        # aiohttp takes half the processor time of the SDK's default transport.
        from openai import DEFAULT_CONNECTION_LIMITS, DefaultAioHttpClient, Timeout

        # The default keeps at most 100 connections open; beyond that, each request would open its own.
        limits_class = type(DEFAULT_CONNECTION_LIMITS)  # that of httpx or of httpx2, whichever the SDK uses
        limits = limits_class(max_connections=max_connections, max_keepalive_connections=max_connections)
        timeout = Timeout(None, connect=connect_s)
        self._new_client = partial(
            DefaultAioHttpClient, limits=limits, timeout=timeout, follow_redirects=False
        )
        self._client = self._new_client()
        self._access = access
        provider = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}[sdk]
        self._sdk = getattr(importlib.import_module(sdk), provider)(
            api_key="none", base_url=access.url(""), http_client=self._client
        )

    async def post(
        self, path: str, body: Mapping[str, Any], upload: Upload | None = None
    ) -> "AbstractAsyncContextManager[httpx2.Response]":
        """Return a request that is sent as its block is entered; with an upload, its body is a form."""
        headers = await self._headers()
        content: dict[str, Any]
        if upload is None:
            headers["content-type"] = "application/json"
            content = {"content": json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()}
        else:
            content = {"data": body, "files": [("file", (upload.name, upload.content, "application/jsonl"))]}
        return self._client.stream("POST", self._access.url(path), headers=headers, **content)

    async def send(
        self, path: str, body: Mapping[str, Any] | None = None, upload: Upload | None = None
    ) -> HttpAnswer:
        """Send one request and read its answer; without a body it is a GET."""
        if body is not None:
            async with await self.post(path, body, upload) as response:
                return await answer_in(response, MAX_BYTES)
        # Some servers close the connection after an error without saying so, and lose the request that follows:
        # a GET has a connection of its own.
        headers = await self._headers()
        async with (
            self._new_client() as client,
            client.stream("GET", self._access.url(path), headers=headers) as response,
        ):
            return await answer_in(response, MAX_FILE_BYTES)

    async def _headers(self) -> dict[str, str]:
        """Return the headers of a request in lower case: those of the SDK with the key, replaced by the settings'."""
        configured = await self._access.all_headers()
        key = ""
        # A bearer token is the SDK's key, which it sends as its provider demands; another scheme is sent as it is.
        if configured.get("authorization", "").startswith(BEARER):
            key = configured.pop("authorization").removeprefix(BEARER)
        self._sdk.api_key = key or "none"
        sdk_headers = {**self._sdk.auth_headers, **self._sdk.default_headers}
        headers = {name.lower(): value for name, value in sdk_headers.items() if isinstance(value, str)}
        if not key:
            headers.pop("authorization", None)
        headers.pop("content-type", None)  # `post` sets it
        return headers | {"accept-encoding": ", ".join(_PACKED)} | configured

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


async def answer_in(response: "httpx2.Response", max_bytes: int) -> HttpAnswer:
    """Read an answer, decompressed; TooLongAnswerError beyond `max_bytes`."""
    packed = bytearray()
    if int(response.headers.get("content-length") or 0) > max_bytes:
        raise TooLongAnswerError
    async for part in response.aiter_raw():
        packed += part
        if len(packed) > max_bytes:
            raise TooLongAnswerError
    is_packed = response.headers.get("content-encoding", "").strip().lower() in _PACKED
    content = _unpacked(bytes(packed), max_bytes) if is_packed else packed
    # UTF-8, which JSON always is, whatever charset the header names.
    return HttpAnswer(response.status_code, dict(response.headers), content.decode("utf-8-sig", "replace"))


def _unpacked(packed: bytes, max_bytes: int) -> bytes:
    """Return the content of a compressed body, of at most so many bytes."""
    import aiohttp

    unpacking = zlib.decompressobj(wbits=_ANY_HEADER)
    try:
        content = unpacking.decompress(packed, max_bytes + 1)
    except zlib.error as error:
        if packed.lstrip().startswith((b"{", b"[", b"data:", b"event:", b":")):
            return packed  # not compressed, though the header says so
        raise aiohttp.ClientPayloadError(str(error)) from error
    if len(content) > max_bytes:
        raise TooLongAnswerError
    if not unpacking.eof:
        raise aiohttp.ClientPayloadError("its compressed body is cut off")
    return content
