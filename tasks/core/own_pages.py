"""The check of `Host` and `Origin` around the servers of Prefect and MLflow, which refuses other sites' pages."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_LOCAL = ("127.0.0.1", "localhost", "[::1]")


def own_origins(port: int) -> str:
    """Return the origins of the pages of a server of this machine, as a variable holds them."""
    return ",".join(f"http://{name}:{port}" for name in _LOCAL)


def own_pages(app: "ASGIApp", allowed: str, setting: str) -> "ASGIApp":
    """Return an application that answers the pages of the allowed origins only; all where "*" is among them.

    `allowed` are origins with commas between them; `setting` is the name of the variable that holds them.
    """
    origins = {origin.strip() for origin in allowed.split(",")}
    return app if "*" in origins else OwnPages(app, frozenset(origins), setting)


class OwnPages:
    """ASGI middleware that refuses the requests of other sites' pages.

    A request with an `Origin` that is not allowed comes from a page of another site. A request with a `Host` that is
    neither that of an allowed origin nor of this machine may be DNS rebinding. Programs send no `Origin`.
    """

    def __init__(self, app: "ASGIApp", origins: frozenset[str], setting: str) -> None:
        self._app = app
        self._setting = setting
        self._origins = origins
        self._hosts = {urlsplit(origin).netloc for origin in origins}

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket") or self._allows(dict(scope["headers"])):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # policy violation
        else:
            text = f"Refused: the request's Host or Origin is not among {self._setting}.\n".encode()
            content_type = [(b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 403, "headers": content_type})
            await send({"type": "http.response.body", "body": text})

    def _allows(self, headers: dict[bytes, bytes]) -> bool:
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        local = host.rpartition(":")[0] in _LOCAL or host in _LOCAL  # through a tunnel, the port is another
        return (local or host in self._hosts) and (not origin or origin in self._origins)
