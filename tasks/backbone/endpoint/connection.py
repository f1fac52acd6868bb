"""HTTP connections to an endpoint, with limits on size and time."""

import asyncio
import json
import ssl
import urllib.request
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.backbone.endpoint.access import Access

if TYPE_CHECKING:
    import aiohttp

MAX_BYTES = 16 * 2**20
"""Longest body of an answer, before and after decompression."""
MAX_FILE_BYTES = 512 * 2**20
"""Longest answer to a GET, which may be the answers to a whole batch."""
PART_BYTES = 2**16
"""Bytes of an answer that are read at once."""
KEEP_ALIVE_S = 5.0
"""Seconds after which an unused connection is closed; most servers keep it for as long, or longer."""
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


class Connections:
    """Connections to an endpoint, at most `max_connections`, kept open. Make and close it within the event loop.

    `headers` are those of the protocol. Redirects are not followed: the key goes to the endpoint alone.
    """

    def __init__(
        self, access: Access, max_connections: int, connect_s: float, headers: dict[str, str]
    ) -> None:
        import certifi

        self._access = access
        self._max_connections = max_connections
        self._connect_s = connect_s
        own = {
            "accept": "application/json",
            "accept-encoding": ", ".join(_PACKED),
            "user-agent": "crosscheck",
        }
        self._headers = own | headers
        self._certificates = ssl.create_default_context()
        self._certificates.load_verify_locations(certifi.where())
        self._session = self._new_session()

    def _new_session(self) -> "aiohttp.ClientSession":
        import aiohttp

        connector = aiohttp.TCPConnector(
            limit=self._max_connections, keepalive_timeout=KEEP_ALIVE_S, ssl=self._certificates
        )
        timeout = aiohttp.ClientTimeout(sock_connect=self._connect_s)
        # aiohttp would take the proxy from the environment together with passwords from ~/.netrc.
        proxy = _proxy_to(self._access.base.scheme, self._access.base.hostname or "")
        return aiohttp.ClientSession(connector=connector, timeout=timeout, proxy=proxy, auto_decompress=False)

    async def post(
        self, path: str, body: Mapping[str, Any], upload: Upload | None = None
    ) -> "aiohttp.client._RequestContextManager":
        """Return a request that is sent as its block is entered; with an upload, its body is a form."""
        import aiohttp

        headers = self._headers | await self._access.all_headers()
        data: aiohttp.FormData | bytes
        if upload is None:
            headers["content-type"] = "application/json"
            data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        else:
            data = aiohttp.FormData(dict(body))
            data.add_field("file", upload.content, filename=upload.name, content_type="application/jsonl")
        return self._session.post(self._url(path), data=data, headers=headers, allow_redirects=False)

    async def send(
        self, path: str, body: Mapping[str, Any] | None = None, upload: Upload | None = None
    ) -> HttpAnswer:
        """Send one request and read its answer; without a body it is a GET.

        Raises aiohttp.ClientError, OSError or TimeoutError if the connection failed or the answer is damaged, and
        TooLongAnswerError.
        """
        if body is not None:
            async with await self.post(path, body, upload) as response:
                return await answer_in(response, MAX_BYTES)
        # Some servers close the connection after an error without saying so, and lose the request that follows:
        # a GET has a connection of its own.
        headers = self._headers | await self._access.all_headers()
        async with (
            self._new_session() as session,
            session.get(self._url(path), headers=headers, allow_redirects=False) as response,
        ):
            return await answer_in(response, MAX_FILE_BYTES)

    def _url(self, path: str) -> Any:
        from yarl import URL

        return URL(self._access.url(path), encoded=True)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


def _proxy_to(scheme: str, host: str) -> str | None:
    """Return the proxy that the environment names for a host; None for no proxy."""
    proxies = urllib.request.getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    return None if urllib.request.proxy_bypass(host) else proxy


async def answer_in(response: "aiohttp.ClientResponse", max_bytes: int) -> HttpAnswer:
    """Read an answer, decompressed; TooLongAnswerError beyond `max_bytes`."""
    packed = bytearray()
    if (response.content_length or 0) > max_bytes:
        raise TooLongAnswerError
    async for part in response.content.iter_chunked(PART_BYTES):
        packed += part
        if len(packed) > max_bytes:
            raise TooLongAnswerError
    is_packed = response.headers.get("content-encoding", "").strip().lower() in _PACKED
    content = _unpacked(bytes(packed), max_bytes) if is_packed else packed
    headers = {name.lower(): value for name, value in response.headers.items()}
    # UTF-8, which JSON always is, whatever charset the header names.
    return HttpAnswer(response.status, headers, content.decode("utf-8-sig", "replace"))


def _unpacked(packed: bytes, max_bytes: int) -> bytes:
    import aiohttp

    unpacking = zlib.decompressobj(wbits=_ANY_HEADER)
    try:
        content = unpacking.decompress(packed, max_bytes + 1)
    except zlib.error as error:
        if packed.lstrip().startswith((b"{", b"[", b"data:")):
            return packed  # not compressed, though the header says so
        raise aiohttp.ClientPayloadError(str(error)) from error
    if len(content) > max_bytes:
        raise TooLongAnswerError
    if not unpacking.eof:
        raise aiohttp.ClientPayloadError("its compressed body is cut off")
    return content


HELD_UP_S = 0.2
"""Seconds after a limit from which on it is this process that stood still (stopped with Ctrl-Z, for instance), and
those in which what the endpoint sent meanwhile is received."""


class Deadline:
    """Time limit of a block: it ends with TimeoutError so many seconds after it began, or after it was last renewed."""

    def __init__(self, limit: asyncio.Timeout, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
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
        timer = Deadline(limit, seconds)
        try:
            yield timer
        finally:
            timer.cancel()
