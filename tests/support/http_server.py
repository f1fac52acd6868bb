"""A small HTTP server on this machine: what it answers is a function of the test."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

Handler = BaseHTTPRequestHandler


@contextmanager
def serving(answer: Callable[[Handler, bytes], object], protocol: str = "HTTP/1.0") -> Iterator[str]:
    """Yield the address of a server that gives every request, and its body, to `answer`."""

    class Answering(BaseHTTPRequestHandler):
        protocol_version = protocol

        def do_GET(self) -> None:
            answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

        do_HEAD = do_POST = do_GET  # noqa: N815 - the names that the class looks for

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def send(request: Handler, body: bytes = b"", status: int = 200, **headers: str) -> None:
    """Answer a request."""
    request.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


@contextmanager
def refusing_server(body: bytes = b"You are not authenticated.", status: int = 401) -> Iterator[str]:
    """Yield the address of a server that wants a login, as Prefect's and MLflow's do behind a password."""
    with serving(lambda request, _: send(request, body, status, WWW_Authenticate="Basic")) as url:
        yield url


@contextmanager
def webhook() -> Iterator[tuple[str, "Queue[tuple[str, Any]]"]]:
    """Yield the address of a webhook, and the path and the JSON of each request as it comes.

    As many do, it takes no text that is not said to be JSON.
    """
    received: Queue[tuple[str, Any]] = Queue()

    def keep(request: Handler, body: bytes) -> None:
        if request.headers.get_content_type() != "application/json":
            send(request, status=415)
            return
        send(request)
        received.put((request.path, json.loads(body)))

    with serving(keep) as url:
        yield f"{url}/hook/s3cret", received
