"""Where requests go and what is read of an answer: addresses, headers, keys, sizes, against a real server."""

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
from typing import Any

import pytest

from tasks.backbone.endpoint import access as key_command
from tasks.backbone.endpoint import connection
from tasks.backbone.endpoint.access import Access
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.endpoint.failures import Refusal
from tasks.backbone.kind import check_backbone
from tasks.core.errors import BackboneError, ConfigurationError
from tasks.settings.backbone import BackboneSettings
from tests.support.fake_openai import Behaviour, FakeOpenAI, error, unauthorized
from tests.tasks.backbone.conftest import ASK, KEY, Endpoint, make_settings

AZURE_KEY = "3f9a1c0d5e7b4a68"
MIB = 2**20


SECRETS = ("key", "api_key", "access_token", "sig", "code", "Password", "x")
NO_ADDRESS = ("ftp://host/v1", "file:///etc/passwd", "http:///v1", "http://host:99999/v1", "http://host:0/v1",
              "host/v1", "http://[::1/v1", "http://ho st/v1", "http://host/v1\n")  # fmt: skip


@pytest.mark.parametrize(("setting", "value", "said"), [
    *(("base_url", url, "base_url is not a valid address") for url in NO_ADDRESS),
    *(("base_url", f"http://host/v1?{name}={KEY}", "headers_env") for name in SECRETS),
    ("base_url", f"http://host/v1#{KEY}", "headers_env"),
    ("base_url", f"http://{KEY}@host/v1", "headers_env"),
    ("headers_env", {"api-key": "NONE"}, "needs a header in the environment variable NONE"),
    ("headers_env", {"Content-Length": "FAKE_API_KEY"}, "headers_env must not set content-length"),
])  # fmt: skip
def test_what_cannot_be_an_address_or_a_header_is_refused_and_a_secret_not_repeated(
    settings: BackboneSettings, setting: str, value: Any, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        check_backbone(settings.model_copy(update={setting: value}))
    assert KEY not in str(caught.value)


async def test_a_query_of_the_address_is_in_every_request_and_in_the_identity(endpoint: Endpoint) -> None:
    azure = f"{endpoint.server.base_url}/?api-version=2024-10-21"
    assert (await endpoint.ask(base_url=azure)).text == "reply to: q"
    assert (endpoint.server.requests[0].query, endpoint.server.probes) == ("api-version=2024-10-21", 1)
    identity = endpoint.open(base_url=azure).identity
    assert identity["base_url"] == f"{endpoint.server.base_url}?api-version=2024-10-21"
    assert endpoint.open().identity["base_url"] == endpoint.server.base_url


async def test_headers_come_from_the_environment_and_appear_nowhere_else(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("AZURE_KEY", AZURE_KEY)
    azure = {"api_key_env": None, "headers_env": {"api-key": "AZURE_KEY"}}
    endpoint.server.script(Behaviour(), error(400, f"the key {AZURE_KEY} cannot be used"))
    assert (await endpoint.ask(**azure)).text == "reply to: q"
    headers = endpoint.server.requests[0].headers
    assert headers["api-key"] == AZURE_KEY and "authorization" not in headers
    caught = await endpoint.failure(**azure)
    assert "the key *** cannot be used" in str(caught)
    settings = endpoint.changed(**azure)
    told = [caplog.text, str(caught), repr(EndpointBackbone(settings).identity), settings.model_dump_json()]
    assert not [text for text in told if AZURE_KEY in text]


@pytest.mark.parametrize("answer", [
    Behaviour(302, {}, {"location": f"/login?key={AZURE_KEY}"}),
    Behaviour(401, '{"error": {"message": "%s is no key"}}'.replace("%s", AZURE_KEY.replace("5", r"\u0035"))),
])  # fmt: skip
async def test_a_key_in_a_header_or_escaped_in_json_is_in_no_refusal(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, answer: Behaviour
) -> None:
    monkeypatch.setenv("AZURE_KEY", AZURE_KEY)
    endpoint.server.always(answer)
    async with endpoint.open(api_key_env="AZURE_KEY") as backbone:
        with pytest.raises(Refusal) as caught:
            await backbone.ask_once({"model": "m", "messages": [{"role": "user", "content": "q"}]})
    assert "***" in caught.value.message and AZURE_KEY not in caught.value.message


@pytest.mark.parametrize("value", ["Basic dXNlcjpwYXNz", "Bearer 0123", "Signature keyId=1, sig=2"])
async def test_an_authorization_of_any_scheme_is_sent_as_it_is(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("AUTHORIZATION", value)
    gateway = {"Authorization": "AUTHORIZATION"}
    assert (await endpoint.ask(api_key_env=None, headers_env=gateway)).text == "reply to: q"
    assert endpoint.server.requests[0].headers["authorization"] == value


async def test_a_charset_that_does_not_exist_changes_nothing(endpoint: Endpoint) -> None:
    for charset in ("rot13", "no-such", "utf-16", "hex"):
        header = {"content-type": f"application/json; charset={charset}"}
        endpoint.server.script(Behaviour(content="SELECT 'é'", headers=header))
        assert (await endpoint.ask()).text == "SELECT 'é'"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_reply_is_read(endpoint: Endpoint, encoding: str) -> None:
    text = "SELECT 1" * 100_000
    body = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
    packed = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
    endpoint.server.script(Behaviour(raw=packed, headers={"content-encoding": encoding}))
    assert (await endpoint.ask()).text == text
    endpoint.server.script(Behaviour(raw=b"damaged", headers={"content-encoding": encoding}))
    assert (await endpoint.ask()).text == "reply to: q", "it is asked again"


@pytest.mark.slow
@pytest.mark.parametrize("status", [200, 500])
async def test_a_gzip_bomb_is_not_unpacked(endpoint: Endpoint, status: int) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(bytes(MIB)) for _ in range(600)) + packer.flush()
    endpoint.server.always(Behaviour(status, raw=bomb, headers={"content-encoding": "gzip"}))
    with grows_by_at_most(150):
        caught = await endpoint.failure(timeout_s=60.0)
    assert "the answer is longer than 16 MiB" in str(caught) and "backbone.max_tokens" in str(caught)
    assert len(endpoint.server.requests) == 1


@pytest.mark.parametrize("length", ["transfer-encoding: chunked", "content-length: 9999999999999", ""])
async def test_a_reply_that_never_ends_is_not_read_on(endpoint: Endpoint, length: str) -> None:
    with endless(length) as url, grows_by_at_most(150):
        started = time.monotonic()
        caught = await endpoint.failure(base_url=url, timeout_s=60.0)
    assert "the answer is longer than 16 MiB" in str(caught) and not caught.transient
    assert time.monotonic() - started < 50


async def test_the_limit_is_one_of_unpacked_bytes(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_BYTES", 2 * MIB)
    endpoint.server.script(Behaviour(content="x" * MIB))
    assert len((await endpoint.ask()).text) == MIB
    endpoint.server.script(Behaviour(content="x" * 2 * MIB))
    assert "longer than 2 MiB" in str(await endpoint.failure())


async def test_a_proxy_of_the_environment_is_used_and_netrc_is_not_sent(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The fake server stands for the proxy: it is asked for the whole URL of a host that does not exist."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine model.invalid login me password hunter22\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", endpoint.server.base_url.removesuffix("/v1"))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    caught = await endpoint.failure(base_url="http://model.invalid/v1", retries=0)
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
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    assert (await endpoint.ask()).text == "reply to: q"
    importing.join()


def command(folder: Path, code: str) -> list[str]:
    (folder / "print_token.py").write_text(code)
    return [sys.executable, "-S", str(folder / "print_token.py")]


def counting(folder: Path) -> list[str]:
    """A program that prints token-1-secret, token-2-secret, ..."""
    file = folder / "runs"
    return command(
        folder,
        f"from pathlib import Path\nfile = Path({str(file)!r})\n"
        "runs = (file.read_text() if file.exists() else '') + 'x'\nfile.write_text(runs)\n"
        "print(f'token-{len(runs)}-secret')",
    )


async def test_an_expired_token_is_replaced_and_no_message_holds_one(
    fake_openai: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(fake_openai, api_key_env=None, api_key_command=counting(tmp_path))
    async with EndpointBackbone(settings) as backbone:
        await backbone.complete(ASK)
        await backbone.complete(ASK)
        monkeypatch.setattr(key_command, "KEPT_S", 0.0)
        backbone._access.command._valid_until = 0.0  # type: ignore[union-attr]  # three minutes later
        await backbone.complete(ASK)
        fake_openai.script(unauthorized("token-3-secret or token-1-secret"))
        with pytest.raises(
            BackboneError, match="The key in the output of api_key_command is not accepted"
        ) as caught:
            await backbone.complete(ASK)
    sent = [each.headers["authorization"] for each in fake_openai.requests]
    assert sent[:3] == ["Bearer token-1-secret"] * 2 + ["Bearer token-2-secret"]
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("code", "why"), [
    ("import sys; sys.exit('not logged in')", "exit code 1: not logged in"),
    ("print()", "it printed no key on one line"),
    ("print('WARNING: old'); print('token')", "it printed no key on one line"),
    (None, "FileNotFoundError"),
])  # fmt: skip
async def test_a_program_that_prints_no_key_is_reported_before_anything_is_sent(
    fake_openai: FakeOpenAI, tmp_path: Path, code: str | None, why: str
) -> None:
    program = command(tmp_path, code) if code else [str(tmp_path / "missing")]
    settings = make_settings(fake_openai, api_key_env=None, api_key_command=program)
    with pytest.raises(ConfigurationError, match=why):
        check_backbone(settings)
    async with EndpointBackbone(settings) as backbone:
        with pytest.raises(BackboneError, match=why) as caught:
            await backbone.complete(ASK)
    assert (
        caught.value.fatal and caught.value.transient and not fake_openai.requests and not fake_openai.probes
    )


def test_two_settings_that_give_the_key_are_refused(fake_openai: FakeOpenAI) -> None:
    with pytest.raises(ConfigurationError, match="api_key_env and api_key_command both give the key"):
        check_backbone(make_settings(fake_openai, api_key_command=["true"]))
