"""MLflow's server for `crosscheck up`, which refuses requests of other sites' pages.

`python -m tasks.results.mlflow.own_server server ...` is MLflow's own command, whose server answers the pages of
MLFLOW_SERVER_CORS_ALLOWED_ORIGINS only. By itself MLflow answers those of every port of this machine, too.
"""

import os
from pathlib import Path
from typing import Any

from tasks.core.own_pages import own_origins, own_pages

_ROOT = Path(__file__).resolve().parents[3]
ORIGINS = "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"


def origins(port: int) -> dict[str, str]:
    """Return the setting that allows the server's own pages only."""
    return {ORIGINS: own_origins(port)}


def __getattr__(name: str) -> Any:
    """Return MLflow's application behind the check; uvicorn imports it as `app`."""
    if name != "app":
        raise AttributeError(name)
    from mlflow.server.fastapi_app import app

    return own_pages(app, os.environ.get(ORIGINS, ""), ORIGINS)


def _run() -> None:
    """Run `mlflow server` with the application of this module around MLflow's own."""
    from mlflow import server
    from mlflow.cli import cli

    build: Any = server._build_uvicorn_command

    def build_with_check(*arguments: Any, **options: Any) -> list[str]:
        command = build(*arguments, **options)[:-1]  # without MLflow's application, the last word
        return [*command, "--app-dir", str(_ROOT), "tasks.results.mlflow.own_server:app"]

    server._build_uvicorn_command = build_with_check
    cli()


if __name__ == "__main__":
    _run()
