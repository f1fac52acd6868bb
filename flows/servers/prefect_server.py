"""Prefect's server for `crosscheck up` and the team's containers: it refuses requests of other sites' pages.

`python -m flows.servers.prefect_server [HOST] PORT`.
"""

import sys

from flows.runtime.addresses import LOCALHOST
from flows.runtime.browsers import prefect_app


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
