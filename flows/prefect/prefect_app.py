"""Prefect's server application, which refuses requests of other sites' pages, and its database.

`python -m flows.prefect.prefect_app [HOST] PORT` serves it for `crosscheck up` and the team's containers.

Without the check any page that a user visits could create a deployment, whose steps are shell commands.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.prefect.settings import apply
from tasks.core.files import atomic_create
from tasks.core.own_pages import own_origins, own_pages
from tasks.database.sqlite_files import Template, locked_folder

if TYPE_CHECKING:
    from starlette.types import ASGIApp

TEMPLATE = Template("prefect")
ORIGINS = "PREFECT_SERVER_CORS_ALLOWED_ORIGINS"
"""Environment variable of Prefect's server: the origins that may send requests from a browser; "*": all."""


def local_origins(port: int) -> dict[str, str]:
    """Return the setting that allows a server's own pages only."""
    return {ORIGINS: own_origins(port)}


def prefect_app(**options: Any) -> "ASGIApp":
    """Return Prefect's application behind a check of `Host` and `Origin` against `ORIGINS`.

    The check is around the application, not in it: the server's automations send requests to the application itself,
    under a host name of their own.
    """
    from prefect.server.api.server import create_app
    from prefect.settings import PREFECT_SERVER_CORS_ALLOWED_ORIGINS

    app = create_app(**options)
    return own_pages(app, PREFECT_SERVER_CORS_ALLOWED_ORIGINS.value(), ORIGINS)


def create_database(path: Path) -> None:
    """Create Prefect's database from the template, if there is no database and a template."""
    if not path.exists():
        # without a template there is no draft that could become the database
        with suppress(FileNotFoundError), atomic_create(path) as draft:
            TEMPLATE.copy(draft)


def migrate(path: Path) -> None:
    """Create the database by Prefect's migrations if there is none, and keep a copy as the template of later ones.

    Two evaluations may begin together in a new working folder: the second waits until the first has created it.
    """
    with locked_folder(path.parent):
        if not path.exists():
            from prefect.server.database import provide_database_interface

            asyncio.run(provide_database_interface().create_db())
            if path.exists():  # the user's settings may name another database
                TEMPLATE.keep(path)


def serve(host: str, port: int) -> None:
    """Serve Prefect's API, pages and services until SIGTERM or SIGINT."""
    apply({"PREFECT_SERVER_EVENTS_CAUSAL_ORDERING": "flows.prefect.event_ordering"})
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
    serve(address[0] if address else "127.0.0.1", int(number))
