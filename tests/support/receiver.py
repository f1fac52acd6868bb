"""A webhook on this machine that keeps what is posted to it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from typing import Any


class Receiver(HTTPServer):
    """The webhook; `received` has the path and the JSON of each request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: Queue[tuple[str, Any]] = Queue()
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


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Serve a webhook while the block runs."""
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
