"""A webhook that a real Prefect server calls when a nightly run goes wrong."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.states import Completed, Failed, Running

from flows.orchestration import notifications
from flows.orchestration.crashed_runs import TAG
from flows.orchestration.notifications import WEBHOOK, notify_of_nights
from flows.orchestration.settings import CLIENT, apply, local_settings
from tasks.errors import ConfigurationError
from tasks.settings.home import Home

VERDICT = 'Of 3 evaluations, 1 is significantly worse than its baseline: demo | "weak" | rsl-sql.'


class Receiver(HTTPServer):
    """A local webhook that keeps what is posted to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: Queue[Any] = Queue()
        self.url = f"http://127.0.0.1:{self.server_port}/hook/s3cret"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.server.received.put((self.path, json.loads(body)))

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def client(prefect_server: str, tmp_path: Path) -> Iterator[None]:
    """Prefect, in this process, talks to the shared server."""
    home = Home(tmp_path / "home")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"PREFECT_API_URL": prefect_server, **local_settings(home), **CLIENT}.items():
            patch.setenv(name, value)
        apply({})
        yield
    apply({})


@flow(name="nightly-of-a-test")
async def nightly() -> None:
    """A flow to have runs of."""


@flow(name="another")
async def another() -> None:
    """A flow that nobody is told of."""


@pytest.mark.usefixtures("client")
async def test_a_red_an_amber_and_no_green_night_are_told(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WEBHOOK, receiver.url)
    monkeypatch.setattr(notifications, "NAME", "crosscheck: a test of notifications")
    for _ in range(2):  # the second time it is there
        await notify_of_nights("nightly-of-a-test")
    async with get_client() as prefect:
        ends = (
            (another, "night 0", Failed(message="Not a night.")),
            (nightly, "night 1", Completed(message="Green.")),
            (nightly, "night 2", Failed(message=VERDICT)),
            (nightly, "night 3", Completed(name="Amber", message="Not proven.")),
        )
        for made, name, end in ends:
            run = await prefect.create_flow_run(made, name=name, tags=[TAG], state=Running())
            await prefect.set_flow_run_state(run.id, end)
    told = dict(
        sorted(
            (body["state"], (path, body)) for path, body in (receiver.received.get(timeout=60) for _ in "12")
        )
    )
    assert list(told) == ["Amber", "Failed"] and receiver.received.empty()
    path, body = told["Failed"]
    assert path == "/hook/s3cret"
    assert body["text"] == f"night 2: Failed. {VERDICT}"
    assert "/flow-run/" in body["page"]


async def test_what_is_no_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WEBHOOK, "hooks.example.com/x")
    with pytest.raises(ConfigurationError, match="begins with http") as refused:
        await notify_of_nights()
    assert "hooks.example.com" not in str(refused.value), "it may hold a secret"
