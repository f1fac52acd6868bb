"""Use of a working folder: its room and presence while a command runs, a lock, and the servers that run for it.

`crosscheck clean` shrinks files only while no other process has the lock. At most one `crosscheck up` runs for a
folder, by a lock that ends with its process.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

import click
from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from flows.runtime.control import Interrupted
from tasks.backbone.cache.room import MIN_FREE, NEEDED, RESERVE, NoRoomError, OpenFolder
from tasks.core.errors import BackboneError, ConfigurationError, DatabaseUnavailableError
from tasks.core.files import atomic_write_text
from tasks.results.mlflow.store import Store, find_store
from tasks.settings.home import Home

_UNRELATED = (BackboneError, DatabaseUnavailableError, Interrupted)
"""Errors that have nothing to do with the disk of the working folder."""
_LOCK = "in-use.lock"

LOCALHOST = "127.0.0.1"


def require_room(home: Home) -> None:
    """Check that a working folder can be written and has room."""
    with closing(OpenFolder(home.path)) as folder:
        if problem := folder.problem(NEEDED):
            raise NoRoomError(problem)


@contextmanager
def watched(home: Home) -> Iterator[None]:
    """Check that a working folder has room before a command's work, and that it is still there at its end.

    An error of the work is raised as `NoRoomError` if the disk is full by then, whatever library has raised it.
    """
    require_room(home)
    with closing(OpenFolder(home.path)) as folder:
        try:
            yield
        except Exception as error:
            # twice the reserve of the reply cache: what the cache has freed by now does not count as room
            if not isinstance(error, _UNRELATED) and (problem := folder.problem(2 * RESERVE)):
                raise NoRoomError(problem) from error
            raise
        if problem := folder.problem(MIN_FREE):
            raise NoRoomError(problem)


class FolderUse:
    """Shared lock on a working folder, until `end` or the end of the process, however it ends."""

    def __init__(self, home: Home) -> None:
        """Lock the folder, after waiting for a `crosscheck clean` that shrinks files."""
        self._file = _open_lock_file(home)
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            click.echo('Waiting for "crosscheck clean", which rewrites files of the working folder', err=True)
            fcntl.flock(self._file, fcntl.LOCK_SH)

    def end(self) -> None:
        """Unlock the folder."""
        self._file.close()


@contextmanager
def sole_use(home: Home) -> Iterator[bool]:
    """Lock the folder for this process alone while the block runs; yields whether that was possible."""
    with _open_lock_file(home) as file:
        yield _try_to_lock(file)


def is_in_use(home: Home) -> bool:
    """Return whether another process has the lock; writes nothing."""
    try:
        with (home.path / _LOCK).open("rb") as file:
            return not _try_to_lock(file)
    except OSError:  # there is no such file
        return False


def _try_to_lock(file: IO[bytes]) -> bool:
    """Lock a file for this process alone, until it is closed; return whether no other process has it."""
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _open_lock_file(home: Home) -> IO[bytes]:
    return (home.path / _LOCK).open("ab")


@dataclass(frozen=True)
class Addresses:
    """Addresses of the servers, which accept connections from this machine only."""

    prefect_port: int
    mlflow_port: int
    pid: int = 0  # of the running `crosscheck up`

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


_RECORD_FORMAT = TypeAdapter(Addresses)


@contextmanager
def exclusive_servers(home: Home, addresses: Addresses) -> Iterator[None]:
    """Lock the working folder for the servers of this process, and record their addresses."""
    home.services.mkdir(parents=True, exist_ok=True)
    try:
        lock = _servers_lock(home).acquire(blocking=False)
    except Timeout as error:
        running = find_running_servers(home)
        where = f": Prefect at {running.prefect}, MLflow at {running.mlflow}" if running else ""
        raise ConfigurationError(
            f'"crosscheck up" already runs for {home.path}{where}. Stop it first, or name another working folder '
            "with --home."
        ) from error
    with lock:
        folder_use = FolderUse(home)
        record_path = _record_path(home)
        content = _RECORD_FORMAT.dump_json(replace(addresses, pid=os.getpid()))
        atomic_write_text(record_path, content.decode())
        try:
            yield
        finally:
            record_path.unlink(missing_ok=True)
            folder_use.end()


def find_running_servers(home: Home) -> Addresses | None:
    """Return the `crosscheck up` that runs for the working folder, None if there is none."""
    if not home.services.exists():
        return None
    try:
        with _servers_lock(home).acquire(blocking=False):
            return None  # a record that is left is that of a killed process
    except Timeout:
        try:
            return _RECORD_FORMAT.validate_json(_record_path(home).read_bytes())
        except (OSError, ValidationError):
            return None  # the process is starting or stopping
    except OSError:  # the lock cannot be opened
        return None


def store_for_links(home: Home) -> Store:
    """Return MLflow's store as links name it: the server of `crosscheck up` where that shows the working folder's."""
    store = find_store(home)
    running = find_running_servers(home) if store.uri == home.mlflow_uri else None
    return Store(running.mlflow) if running else store


def _servers_lock(home: Home) -> FileLock:
    return FileLock(home.services / "up.lock")


def _record_path(home: Home) -> Path:
    return home.services / "up.json"
