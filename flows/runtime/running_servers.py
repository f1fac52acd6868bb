"""The `crosscheck up` of a working folder: at most one, by a lock that ends with its process."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from flows.runtime.addresses import Addresses
from tasks.errors import ConfigurationError
from tasks.settings.home import Home


@dataclass(frozen=True)
class RunningServers:
    """The `crosscheck up` that has a working folder.

    Attributes:
        pid: its process.
        prefect_port, mlflow_port: of its servers.
    """

    pid: int
    prefect_port: int
    mlflow_port: int

    @property
    def addresses(self) -> Addresses:
        """Where its servers answer."""
        return Addresses(self.prefect_port, self.mlflow_port)


@contextmanager
def holding(home: Home, addresses: Addresses) -> Iterator[None]:
    """Have the working folder for the length of the block.

    Raises:
        ConfigurationError: another process has it.
    """
    home.services.mkdir(parents=True, exist_ok=True)
    with _lock(home).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            other = find_running_servers(home)
            where = (
                f": Prefect at {other.addresses.prefect}, MLflow at {other.addresses.mlflow}" if other else ""
            )
            raise ConfigurationError(
                f'"crosscheck up" already runs for {home.path}{where}. Stop that one first, or name another working '
                "folder with --home."
            ) from error
        state = RunningServers(os.getpid(), addresses.prefect_port, addresses.mlflow_port)
        aside = _file(home).with_suffix(".tmp")
        aside.write_text(json.dumps(asdict(state)), encoding="utf-8")
        aside.replace(_file(home))
        try:
            yield
        finally:
            _file(home).unlink(missing_ok=True)


def find_running_servers(home: Home) -> RunningServers | None:
    """Return the `crosscheck up` that has the working folder now, None where there is none."""
    try:
        with _lock(home).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None  # not locked: a file that is left is that of a killed process
    except BlockingIOError:
        pass
    except OSError:
        return None
    try:
        content: Mapping[str, int] = json.loads(_file(home).read_text(encoding="utf-8"))
        return RunningServers(**content)
    except (OSError, ValueError, TypeError):
        return None  # it is just starting or stopping


def _lock(home: Home) -> Path:
    return home.services / "up.lock"


def _file(home: Home) -> Path:
    return home.services / "up.json"
