"""A server that refuses every request: for want of a login, as Prefect's and MLflow's do behind a password."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Refusing(http.server.BaseHTTPRequestHandler):
    body = b"You are not authenticated."
    status = 401

    def do_GET(self) -> None:
        body = self.body
        self.send_response(self.status)
        self.send_header("WWW-Authenticate", "Basic")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name that the class looks for

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def refusing_server(body: bytes = _Refusing.body, status: int = _Refusing.status) -> Iterator[str]:
    """Yield its address."""
    handler = type("Handler", (_Refusing,), {"body": body, "status": status})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
