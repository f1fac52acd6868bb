"""Commands and addresses that show a flow run in Prefect's UI."""

import os
import shlex

from tasks.settings.home import Home

PORT = 4200


def prefect_command(home: Home, *, own_server: bool) -> str:
    """Return the shell command that starts Prefect's UI, or the address of the UI that runs.

    Args:
        home: the working folder.
        own_server: whether the command has started the server itself, which ends with it.
    """
    if not own_server and (external := _external_ui()):
        return f"Prefect's server answers at {external}"
    return f"crosscheck up --home {shlex.quote(str(home.path))}"


def prefect_page(flow_run_id: str, *, own_server: bool = False) -> str:
    """Return the address of a flow run in the UI; `own_server` as in `prefect_command`."""
    return f"{(not own_server and _external_ui()) or f'http://127.0.0.1:{PORT}'}/runs/flow-run/{flow_run_id}"


def _external_ui() -> str:
    """Return the UI's address where the user's own server is used, "" where it is ours.

    Prefect's own setting PREFECT_UI_URL takes precedence: browsers may need another address than clients.
    """
    named = os.environ.get("PREFECT_API_URL", "")
    if not named:
        return ""
    return os.environ.get("PREFECT_UI_URL", "").rstrip("/") or named.removesuffix("/").removesuffix("/api")
