"""Runs whose process was killed: found by their files, and marked as ended in Prefect, MLflow and the warehouse."""

import json
import logging
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from flows.runtime.control import Control
from flows.runtime.folder_use import FolderUse
from tasks.settings.home import Home

log = logging.getLogger(__name__)

FLOW_RUNS = ("flow_run", "parent", "nightly", "night")
"""Keys of flow runs in these files, from the innermost out; `night` is what earlier releases wrote for the last two."""


class RunFile:
    """File with the ids of the runs of this process; if the process is killed, `clear_leftovers` reads it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._content: dict[str, object] = {"host": socket.gethostname(), "pid": os.getpid()}
        self.note()

    def note(self, **ids: str) -> None:
        """Add ids of what is running: `run`, `mlflow_run`, `tracking_uri`, or a key of FLOW_RUNS."""
        with self._lock:
            self._content |= ids
            _write(self._path, self._content)


@contextmanager
def registered(home: Home, control: Control) -> Iterator[RunFile]:
    """Keep a `RunFile` of this process in the working folder, to which the control's `register` adds ids."""
    use = FolderUse(home)
    home.runs.mkdir(parents=True, exist_ok=True)
    path = home.runs / f"{socket.gethostname()}-{os.getpid()}.json"
    file = RunFile(path)
    before, control.register = control.register, file.note
    try:
        yield file
    finally:
        control.register = before
        path.unlink(missing_ok=True)
        use.end()


async def clear_leftovers(home: Home) -> int:
    """Mark runs whose process is gone as crashed in Prefect and as killed in MLflow; return how many there were."""
    from flows.orchestration.flow_runs import cancel_launched_by
    from flows.orchestration.task_runs import crash_flow_run
    from tasks.tracking.mlflow.tracker import kill_mlflow_run
    from tasks.tracking.warehouse.runs import Warehouse

    cleared = 0
    for path in sorted(home.runs.glob("*.json")) if home.runs.is_dir() else ():
        left = _read(path)
        if left is None or not await _gone(left):
            continue
        for flow_run in FLOW_RUNS:
            if flow_run in left:
                await crash_flow_run(
                    UUID(left[flow_run]), "Its process was killed. The same command continues it."
                )
        if "flow_run" in left:
            await cancel_launched_by(UUID(left["flow_run"]))
        if "mlflow_run" in left:
            kill_mlflow_run(left["tracking_uri"], left["mlflow_run"])
        if "run" in left:
            Warehouse(home.warehouse).abandon(left["run"], "killed")
        path.unlink(missing_ok=True)
        cleared += 1
    return cleared


async def _gone(left: Mapping[str, str]) -> bool:
    """Return whether the process of a file has ended.

    A process of another machine or an earlier container cannot be checked: it has ended if Prefect has marked its flow
    run as crashed, because its heartbeats stopped.
    """
    from flows.orchestration.task_runs import has_crashed

    if left.get("host") == socket.gethostname():
        return not _alive(int(left["pid"]))
    return "flow_run" in left and await has_crashed(UUID(left["flow_run"]))


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read(path: Path) -> dict[str, str] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        log.warning("%s cannot be read and is skipped: %s", path, error)
        return None
    return content if isinstance(content, dict) and "pid" in content else None


def _write(path: Path, content: dict[str, object]) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content), encoding="utf-8")
    temporary.replace(path)
