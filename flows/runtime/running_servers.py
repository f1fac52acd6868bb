"""Addresses of the servers of `crosscheck up`, and the record of which one runs for a working folder.

At most one runs for a folder, by a lock that ends with its process.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from flows.runtime.folder_use import FolderUse
from tasks.core.errors import ConfigurationError
from tasks.core.files import atomic_write_text
from tasks.results.mlflow.store import Store, find_store
from tasks.settings.home import Home

LOCALHOST = "127.0.0.1"


@dataclass(frozen=True)
class Addresses:
    """Addresses of the servers, which accept connections from this machine only."""

    prefect_port: int
    mlflow_port: int

    @property
    def prefect(self) -> str:
        """URL of Prefect's UI."""
        return f"http://{LOCALHOST}:{self.prefect_port}"

    @property
    def prefect_api(self) -> str:
        """URL of Prefect's API."""
        return f"{self.prefect}/api"

    @property
    def mlflow(self) -> str:
        """URL of MLflow's UI and API."""
        return f"http://{LOCALHOST}:{self.mlflow_port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that make an evaluation use these servers."""
        return {"PREFECT_API_URL": self.prefect_api, "MLFLOW_TRACKING_URI": self.mlflow}


@dataclass(frozen=True)
class RunningServers:
    """Process and ports of a running `crosscheck up`."""

    pid: int
    prefect_port: int
    mlflow_port: int

    @property
    def addresses(self) -> Addresses:
        """Addresses of its servers."""
        return Addresses(self.prefect_port, self.mlflow_port)


_RECORD_FORMAT = TypeAdapter(RunningServers)


@contextmanager
def exclusive_servers(home: Home, addresses: Addresses) -> Iterator[None]:
    """Lock the working folder for the servers of this process, and record their addresses."""
    home.services.mkdir(parents=True, exist_ok=True)
    try:
        lock = _lock(home).acquire(blocking=False)
    except Timeout as error:
        other = find_running_servers(home)
        where = f": Prefect at {other.addresses.prefect}, MLflow at {other.addresses.mlflow}" if other else ""
        raise ConfigurationError(
            f'"crosscheck up" already runs for {home.path}{where}. Stop it first, or name another working folder '
            "with --home."
        ) from error
    with lock:
        use = FolderUse(home)
        record = _record(home)
        running = RunningServers(os.getpid(), addresses.prefect_port, addresses.mlflow_port)
        atomic_write_text(record, _RECORD_FORMAT.dump_json(running).decode())
        try:
            yield
        finally:
            record.unlink(missing_ok=True)
            use.end()


def find_running_servers(home: Home) -> RunningServers | None:
    """Return the `crosscheck up` that runs for the working folder, None if there is none."""
    if not home.services.exists():
        return None
    try:
        with _lock(home).acquire(blocking=False):
            return None  # a record that is left is that of a killed process
    except Timeout:
        return _read(home)
    except OSError:
        return None


def shown_store(home: Home) -> Store:
    """Return MLflow's store as links name it: the server of `crosscheck up` where that shows the working folder's."""
    store = find_store(home)
    running = find_running_servers(home) if store.uri == home.mlflow_uri else None
    return Store(running.addresses.mlflow) if running else store


def _read(home: Home) -> RunningServers | None:
    try:
        return _RECORD_FORMAT.validate_json(_record(home).read_bytes())
    except (OSError, ValidationError):
        return None  # the process is starting or stopping


def _lock(home: Home) -> FileLock:
    return FileLock(home.services / "up.lock")


def _record(home: Home) -> Path:
    return home.services / "up.json"
