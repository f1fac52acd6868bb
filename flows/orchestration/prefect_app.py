"""Prefect's server application, which refuses requests of other sites' pages, and its database.

`python -m flows.orchestration.prefect_app [HOST] PORT` serves it for `crosscheck up` and the team's containers.

By default Prefect has no authentication and answers every origin. Any page that a user visits could then create a
deployment, whose steps are shell commands, and run it on the user's worker.
"""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flows.runtime.running_servers import LOCALHOST
from tasks.core.files import atomic_create
from tasks.database.sqlite.template import Template

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

TEMPLATE = Template("prefect")
ORIGINS = "PREFECT_SERVER_CORS_ALLOWED_ORIGINS"
"""Environment variable of Prefect's server: the origins that may send requests from a browser; "*": all."""
_LOCAL = (LOCALHOST, "localhost", "[::1]")
_FORBIDDEN = 403
_POLICY_VIOLATION = 1008


def local_origins(port: int) -> dict[str, str]:
    """Return the setting that allows a server's own pages only."""
    return {ORIGINS: ",".join(f"http://{name}:{port}" for name in _LOCAL)}


def prefect_app(**options: Any) -> "ASGIApp":
    """Return Prefect's application behind a check of `Host` and `Origin` against `ORIGINS`.

    The check is around the application, not in it: the server's automations send requests to the application itself,
    under a host name of their own.
    """
    from prefect.server.api.server import create_app
    from prefect.settings import PREFECT_SERVER_CORS_ALLOWED_ORIGINS

    app = create_app(**options)
    origins = {each.strip() for each in PREFECT_SERVER_CORS_ALLOWED_ORIGINS.value().split(",")}
    return app if "*" in origins else OwnPages(app, frozenset(origins))


class OwnPages:
    """ASGI middleware that refuses the requests of other sites' pages.

    A request with an `Origin` that is not allowed comes from a page of another site. A request with a `Host` that is
    neither that of an allowed origin nor of this machine may be DNS rebinding. Programs send no `Origin`.

    Args:
        app: the application.
        origins: the allowed origins.
    """

    def __init__(self, app: "ASGIApp", origins: frozenset[str]) -> None:
        self._app = app
        self._origins = origins
        self._hosts = {urlsplit(each).netloc for each in origins}

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket") or self._allows(dict(scope["headers"])):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            text = f"Refused: the request's Host or Origin is not among {ORIGINS}.\n".encode()
            await send(
                {
                    "type": "http.response.start",
                    "status": _FORBIDDEN,
                    "headers": [(b"content-type", b"text/plain")],
                }
            )
            await send({"type": "http.response.body", "body": text})

    def _allows(self, headers: dict[bytes, bytes]) -> bool:
        host, origin = (
            headers.get(b"host", b"").decode("latin-1"),
            headers.get(b"origin", b"").decode("latin-1"),
        )
        local = host.rpartition(":")[0] in _LOCAL or host in _LOCAL  # through a tunnel, the port is another
        return (local or host in self._hosts) and (not origin or origin in self._origins)


class NoTemplate(Exception):  # noqa: N818 - a signal, not an error
    """Signal that the installed release of Prefect has not made a database yet."""


def create_database(path: Path) -> bool:
    """Create Prefect's database from the template if there is none; return whether there is one now.

    If another process creates it meanwhile, that one stays; one that is killed leaves none.
    """
    if not path.exists():
        try:
            with atomic_create(path) as draft:
                if not TEMPLATE.copy(draft):
                    raise NoTemplate
        except NoTemplate:
            return False
    return True


def migrate(path: Path) -> None:
    """Create the database by Prefect's migrations if there is none, and keep the template.

    Args:
        path: the file that Prefect's settings name.
    """
    if not path.exists():
        from prefect.server.database import provide_database_interface

        asyncio.run(provide_database_interface().create_db())
        if path.exists():  # the user's settings may name another database
            TEMPLATE.keep(path)


def serve(host: str, port: int) -> None:
    """Serve Prefect's API, pages and services until SIGTERM or SIGINT."""
    import uvicorn
    from prefect.logging.configuration import setup_logging
    from prefect.settings import get_current_settings

    setup_logging()
    server = get_current_settings().server
    uvicorn.run(
        prefect_app(final=True),
        host=host,
        port=port,
        timeout_keep_alive=server.api.keepalive_timeout,
        log_level=server.logging_level.lower(),
    )


if __name__ == "__main__":
    *address, number = sys.argv[1:]
    serve(address[0] if address else LOCALHOST, int(number))
