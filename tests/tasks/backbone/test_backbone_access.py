"""Where requests go and what is read of an answer: addresses, headers, sizes, against a real server."""

import gzip
import importlib
import json
import logging
import resource
import socket
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tasks.backbone.endpoint import connection
from tasks.backbone.endpoint.access import Access
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.kind import check_backbone
from tasks.core.errors import ConfigurationError
from tasks.settings.backbone import BackboneSettings
from tests.support.fake_openai import Behaviour, FakeOpenAI, error
from tests.tasks.backbone.conftest import KEY, ask, failure

AZURE_KEY = "3f9a1c0d5e7b4a68"
MIB = 2**20


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/v1",
        "file:///etc/passwd",
        "http:///v1",
        "http://host:99999/v1",
        "http://host:0/v1",
        "host/v1",
        "http://[::1/v1",
        "http://ho st/v1",
        "http://host/v1\n",
    ],
)
def test_what_is_no_address_is_refused_before_any_request(settings: BackboneSettings, url: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url is not a valid address"):
        check_backbone(settings.model_copy(update={"base_url": url}))


@pytest.mark.parametrize(
    "url",
    [
        f"http://host/v1?{name}={KEY}"
        for name in ("key", "api_key", "access_token", "sig", "code", "Password", "x")
    ]
    + [f"http://host/v1#{KEY}", f"http://{KEY}@host/v1"],
)
def test_a_secret_in_the_address_is_refused_and_not_repeated(settings: BackboneSettings, url: str) -> None:
    with pytest.raises(ConfigurationError, match="headers_env") as caught:
        check_backbone(settings.model_copy(update={"base_url": url}))
    assert KEY not in str(caught.value)


async def test_a_query_of_the_address_belongs_to_every_request_and_to_the_identity(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    azure = settings.model_copy(update={"base_url": f"{fake_openai.base_url}/?api-version=2024-10-21"})
    assert (await ask(azure)).text == "reply to: q"
    assert (fake_openai.requests[0].query, fake_openai.probes) == ("api-version=2024-10-21", 1)
    identity = EndpointBackbone(azure).identity
    assert identity["base_url"] == f"{fake_openai.base_url}?api-version=2024-10-21"
    assert EndpointBackbone(settings).identity["base_url"] == fake_openai.base_url


async def test_headers_come_from_the_environment_and_appear_nowhere_else(
    fake_openai: FakeOpenAI,
    settings: BackboneSettings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("AZURE_KEY", AZURE_KEY)
    azure = settings.model_copy(update={"api_key_env": None, "headers_env": {"api-key": "AZURE_KEY"}})
    fake_openai.script(Behaviour(), error(400, f"the key {AZURE_KEY} cannot be used"))
    assert (await ask(azure)).text == "reply to: q"
    headers = fake_openai.requests[0].headers
    assert headers["api-key"] == AZURE_KEY and "authorization" not in headers
    caught = await failure(azure)
    assert "the key *** cannot be used" in str(caught)
    told = [caplog.text, str(caught), repr(EndpointBackbone(azure).identity), azure.model_dump_json()]
    assert not [text for text in told if AZURE_KEY in text]


@pytest.mark.parametrize("value", ["Basic dXNlcjpwYXNz", "Bearer 0123", "Signature keyId=1, sig=2"])
async def test_an_authorization_of_any_scheme_is_sent_as_it_is(
    fake_openai: FakeOpenAI, settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("AUTHORIZATION", value)
    gateway = settings.model_copy(
        update={"api_key_env": None, "headers_env": {"Authorization": "AUTHORIZATION"}}
    )
    assert (await ask(gateway)).text == "reply to: q"
    assert fake_openai.requests[0].headers["authorization"] == value


def test_a_header_without_its_variable_is_said_before_any_request(settings: BackboneSettings) -> None:
    with pytest.raises(
        ConfigurationError, match=r"needs a header in the environment variable NO_SUCH_VARIABLE"
    ):
        check_backbone(settings.model_copy(update={"headers_env": {"api-key": "NO_SUCH_VARIABLE"}}))


def test_a_header_of_the_clients_own_is_refused(settings: BackboneSettings) -> None:
    with pytest.raises(ConfigurationError, match="headers_env must not set content-length"):
        check_backbone(settings.model_copy(update={"headers_env": {"Content-Length": "FAKE_API_KEY"}}))


async def test_a_charset_that_does_not_exist_changes_nothing(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    for charset in ("rot13", "no-such", "utf-16", "hex"):
        header = {"content-type": f"application/json; charset={charset}"}
        fake_openai.script(Behaviour(content="SELECT 'é'", headers=header))
        assert (await ask(settings)).text == "SELECT 'é'"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_reply_is_read(
    fake_openai: FakeOpenAI, settings: BackboneSettings, encoding: str
) -> None:
    text = "SELECT 1" * 100_000
    body = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
    packed = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
    fake_openai.script(Behaviour(raw=packed, headers={"content-encoding": encoding}))
    assert (await ask(settings)).text == text


async def test_a_damaged_compression_is_asked_again(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    fake_openai.script(Behaviour(raw=b"no gzip", headers={"content-encoding": "gzip"}))
    assert (await ask(settings)).text == "reply to: q"


@pytest.mark.slow
@pytest.mark.parametrize("status", [200, 500])
async def test_a_gzip_bomb_is_not_unpacked(
    fake_openai: FakeOpenAI, settings: BackboneSettings, status: int
) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(bytes(MIB)) for _ in range(600)) + packer.flush()
    fake_openai.always(Behaviour(status, raw=bomb, headers={"content-encoding": "gzip"}))
    with grows_by_at_most(150):
        caught = await failure(settings.model_copy(update={"timeout_s": 60.0}))
    assert "the answer is longer than 16 MiB" in str(caught) and "backbone.max_tokens" in str(caught)
    assert len(fake_openai.requests) == 1


@pytest.mark.parametrize("length", ["transfer-encoding: chunked", "content-length: 9999999999999", ""])
async def test_a_reply_that_never_ends_is_not_read_on(settings: BackboneSettings, length: str) -> None:
    with endless(length) as url, grows_by_at_most(150):
        settings = settings.model_copy(update={"base_url": url, "timeout_s": 60.0})
        started = time.monotonic()
        caught = await failure(settings)
    assert "the answer is longer than 16 MiB" in str(caught) and not caught.transient
    assert time.monotonic() - started < 50


async def test_the_limit_is_one_of_bytes_after_decompression(
    fake_openai: FakeOpenAI, settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_BYTES", 2 * MIB)
    fake_openai.script(Behaviour(content="x" * MIB))
    assert len((await ask(settings)).text) == MIB
    fake_openai.script(Behaviour(content="x" * 2 * MIB))
    assert "longer than 2 MiB" in str(await failure(settings))


async def test_a_proxy_of_the_environment_is_used_and_netrc_is_not_sent(
    fake_openai: FakeOpenAI, settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The fake server stands for the proxy: it is asked for the whole URL of a host that does not exist."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine model.invalid login me password hunter22\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", fake_openai.base_url.removesuffix("/v1"))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    caught = await failure(settings.model_copy(update={"base_url": "http://model.invalid/v1", "retries": 0}))
    assert "no http://model.invalid/v1/chat/completions here" in str(caught)


@contextmanager
def grows_by_at_most(mebibytes: int) -> Iterator[None]:
    """Check that the highest memory of this process does not rise by more."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < mebibytes


@contextmanager
def endless(length: str) -> Iterator[str]:
    """Serve GET /models, and to anything else a body that never ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    part = b"x" * 65536
    if "chunked" in length:
        part = f"{len(part):x}\r\n".encode() + part + b"\r\n"

    def serve(client: socket.socket) -> None:
        with suppress(OSError), client:
            if client.recv(65536).startswith(b"GET"):
                client.sendall(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                return
            client.sendall(
                f"HTTP/1.1 200 OK\r\n{length}\r\n\r\n".replace("\r\n\r\n\r\n", "\r\n\r\n").encode()
            )
            while True:
                client.sendall(part)

    def listen() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        listener.close()


def test_a_query_of_a_path_is_added_to_that_of_the_address() -> None:
    access = Access.of(BackboneSettings(name="m", base_url="https://host.example/v1?api-version=1"))
    assert access.url("batches?limit=100") == "https://host.example/v1/batches?api-version=1&limit=100"
    assert access.url("models") == "https://host.example/v1/models?api-version=1"


async def test_a_library_that_another_thread_imports_does_not_fail_the_first_requests(
    settings: BackboneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect, which is imported while the first questions are answered, imports `httpx`."""
    connection.import_client()
    slow = "import time\ntime.sleep(0.5)\nclass Client: ...\nAsyncClient = Timeout = URL = Client\n"
    (tmp_path / "httpx.py").write_text(slow, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "httpx", None)
    del sys.modules["httpx"]
    importing = threading.Thread(target=importlib.import_module, args=("httpx",))
    importing.start()
    while "httpx" not in sys.modules:
        time.sleep(0.001)
    assert (await ask(settings)).text == "reply to: q"
    importing.join()
