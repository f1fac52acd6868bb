"""Runs whose process was killed: found by their files, and marked as ended in Prefect, MLflow and the warehouse."""

import json
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field, ValidationError

from flows.prefect.flow_runs import cancel_launched_by, crash_flow_run, has_crashed
from flows.runtime.control import Control
from flows.runtime.folder_use import FolderUse
from tasks.core.errors import first_problem
from tasks.core.files import atomic_write_text
from tasks.settings.home import Home

log = logging.getLogger(__name__)


class RunIds(BaseModel):
    """What a process notes of its runs."""

    host: str  # name of its machine
    pid: Annotated[int, Field(gt=0, lt=2**31)]  # its id there
    flow_run: UUID | None = None  # Prefect's id of the innermost flow run
    nightly: UUID | None = None  # of the nightly flow run around it
    run: str | None = None  # the run in the warehouse
    mlflow_run: str | None = None  # the run in MLflow
    tracking_uri: str | None = None  # MLflow's store


@contextmanager
def registered(home: Home, control: Control) -> Iterator[None]:
    """Keep a file of this process in the working folder, to which the control's `register` adds ids of `RunIds`.

    The file is removed at the end. If the process is killed, or MLflow or the warehouse could not record the end of the
    run, it stays, and `clear_leftovers` of a later process reads it.
    """
    folder_use = FolderUse(home)
    lock = threading.Lock()
    home.runs.mkdir(parents=True, exist_ok=True)
    path = home.runs / f"{socket.gethostname()}-{os.getpid()}.json"
    content: dict[str, object] = {"host": socket.gethostname(), "pid": os.getpid()}

    def register(**ids: str) -> None:
        with lock:
            content.update(ids)
            atomic_write_text(path, json.dumps(content))

    register()
    outer_register = control.register  # of an enclosing block, such as that of a nightly run
    control.register = register
    try:
        yield
    finally:
        control.register = outer_register
        if control.recorded:
            path.unlink(missing_ok=True)
        folder_use.end()


async def clear_leftovers(home: Home) -> int:
    """Mark runs whose process is gone as crashed in Prefect and as killed in MLflow; return how many there were."""
    import httpx

    from tasks.results.mlflow.tracker import kill_mlflow_run
    from tasks.results.warehouse.runs import Warehouse

    cleared = 0
    for path in sorted(home.runs.glob("*.json")):
        ids = _read(path)
        try:
            if ids is None or not await _has_ended(ids):
                continue
            for flow_run in filter(None, (ids.flow_run, ids.nightly)):
                await crash_flow_run(
                    flow_run, "Its process was killed. Run the same command again to continue it."
                )
            if ids.flow_run:
                await cancel_launched_by(ids.flow_run)
        except httpx.HTTPError as error:  # a later command ends it
            log.warning("%s: the end of this run could not be recorded in Prefect: %s", path, error)
            continue
        # a run that MLflow has as finished is marked as killed, too, if the warehouse has no record of it
        record_is_lost = ids.run is not None and Warehouse(home.warehouse).abandon(ids.run, "killed")
        if ids.mlflow_run and ids.tracking_uri:
            kill_mlflow_run(ids.tracking_uri, ids.mlflow_run, lost=record_is_lost)
        path.unlink(missing_ok=True)
        cleared += 1
    return cleared


async def _has_ended(ids: RunIds) -> bool:
    """Return whether the process of a file has ended.

    A process of another machine or an earlier container cannot be checked: it has ended if Prefect has marked its flow
    run as crashed, because its heartbeats stopped.
    """
    import psutil

    if ids.host == socket.gethostname():
        is_of_this_process = ids.pid == os.getpid()  # an earlier process that had the same id
        return is_of_this_process or not psutil.pid_exists(ids.pid)
    return ids.flow_run is not None and await has_crashed(ids.flow_run)


def _read(path: Path) -> RunIds | None:
    """Return the content of a file; None if it cannot be read, or is damaged, in which case it is renamed."""
    try:
        return RunIds.model_validate_json(path.read_bytes())
    except OSError as error:
        log.warning("%s cannot be read and is skipped: %s", path, error)
    except ValidationError as error:
        new_path = path.with_name(f"{path.name}.damaged")
        log.warning(
            "%s is damaged (%s) and is renamed to %s. If the run of this file was killed, Prefect and MLflow may still "
            "show it as running.", path, first_problem(error), new_path.name,
        )  # fmt: skip
        with suppress(OSError):
            path.rename(new_path)
    return None
