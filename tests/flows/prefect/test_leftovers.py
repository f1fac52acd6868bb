"""What a killed run leaves: marked as ended in a real Prefect, a real MLflow and a real warehouse, or left alone."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from mlflow import MlflowClient
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.states import Completed, Crashed, Running, State

from flows.prefect.killed_runs import clear_leftovers, registered
from flows.runtime.control import Control
from tasks.results.build_record import record_of
from tasks.results.mlflow.tracker import Tracker
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home
from tests.tasks.results.samples import make_rows, make_run

pytestmark = pytest.mark.slow

HOST = socket.gethostname()


@pytest.fixture
def home(prefect_home: Home) -> Home:
    prefect_home.runs.mkdir()
    return prefect_home


@flow(name="left")
async def left() -> None:
    """A flow to have runs of."""


async def running_flow() -> UUID:
    async with get_client() as client:
        run = await client.create_flow_run(left, state=Running())
    return run.id


async def state_of(flow_run: UUID) -> str:
    async with get_client() as client:
        run = await client.read_flow_run(flow_run)
    assert run.state
    return run.state.type.value


@dataclass(frozen=True)
class Left:
    """A working folder with files that processes have left."""

    home: Home
    dead: int

    def __call__(self, host: str = HOST, pid: int | None = None, **ids: str) -> Path:
        """Leave a file as a process does; as one that is gone where none is named."""
        pid = pid or self.dead
        path = self.home.runs / f"{host}-{pid}.json"
        path.write_text(json.dumps({"host": host, "pid": pid, **ids}), encoding="utf-8")
        return path

    async def cleared(self) -> int:
        return await clear_leftovers(self.home)


@pytest.fixture
def leave(home: Home) -> Left:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return Left(home, process.pid)


async def set_state(flow_run: UUID, state: State[Any]) -> None:
    async with get_client() as client:
        await client.set_flow_run_state(flow_run, state, force=True)


async def test_a_killed_run_is_ended_everywhere_and_its_file_is_gone(home: Home, leave: Left) -> None:
    run = make_run()
    tracked = str(Tracker(home).start(run).run_id)
    Warehouse(home.warehouse).start(run)
    flow_run = await running_flow()
    ids = {"run": run.run_id, "flow_run": str(flow_run), "mlflow_run": tracked}
    path = leave(**ids, tracking_uri=home.mlflow_uri)
    assert await leave.cleared() == 1
    assert not path.exists()
    assert await state_of(flow_run) == "CRASHED"
    assert MlflowClient(home.mlflow_uri).get_run(tracked).info.status == "KILLED"
    assert Warehouse(home.warehouse).read_run(run.run_id).status == "killed"
    assert await leave.cleared() == 0


async def test_what_had_ended_before_the_kill_stays_as_it_ended(home: Home, leave: Left) -> None:
    run, warehouse = make_run(), Warehouse(home.warehouse)
    warehouse.start(run)
    warehouse.finish(record_of(run, make_rows(3)))
    flow_run = await running_flow()
    await set_state(flow_run, Completed())
    leave(run=run.run_id, flow_run=str(flow_run))
    assert await leave.cleared() == 1
    assert await state_of(flow_run) == "COMPLETED"
    assert warehouse.read_run(run.run_id).status == "complete"


async def test_runs_of_living_processes_are_left_alone_and_of_other_machines_until_prefect_has_them_as_crashed(
    home: Home, leave: Left
) -> None:
    ours, theirs = await running_flow(), await running_flow()
    living = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        alive = leave(pid=living.pid, flow_run=str(ours))
        elsewhere = leave("another-machine", flow_run=str(theirs))
        assert await leave.cleared() == 0
        assert alive.exists() and elsewhere.exists()
        assert await state_of(ours) == await state_of(theirs) == "RUNNING"
        await set_state(theirs, Crashed())
        assert await leave.cleared() == 1
        assert list(home.runs.iterdir()) == [alive]
    finally:
        living.communicate(b"\n")


DAMAGED = (
    b"", b'{"pid": 1', b"\xff\xfe{", b"[1]", b"{}", b'{"host": "HERE", "pid": "x"}', b'{"host": "HERE", "pid": null}',
    b'{"host": "HERE", "pid": -1}', b'{"host": "HERE", "pid": 99999999999999999999}',
    b'{"host": "elsewhere", "pid": 1, "flow_run": "x"}', b'{"host": "elsewhere", "pid": 1, "flow_run": 5}',
    b'{"host": "HERE", "pid": 1, "run": ["x"]}',
)  # fmt: skip


@pytest.mark.parametrize("content", DAMAGED)
async def test_a_damaged_file_is_set_aside_and_the_others_are_cleared(
    home: Home, leave: Left, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    content = content.replace(b"HERE", HOST.encode())
    (home.runs / "0.json").write_bytes(content)
    leave()
    assert await leave.cleared() == 1
    (aside,) = home.runs.iterdir()
    assert (aside.name, aside.read_bytes()) == ("0.json.damaged", content)
    (line,) = caplog.messages
    assert str(home.runs / "0.json") in line and "0.json.damaged" in line and "\n" not in line
    assert await leave.cleared() == 0


async def test_what_cannot_be_read_is_left_alone(
    home: Home, leave: Left, caplog: pytest.LogCaptureFixture
) -> None:
    (home.runs / "0.json").mkdir()
    leave()
    assert await leave.cleared() == 1
    assert [path.name for path in home.runs.iterdir()] == ["0.json"]
    assert "Is a directory" in caplog.text


async def test_what_a_later_release_adds_or_prefect_never_heard_of_does_not_matter(
    home: Home, leave: Left
) -> None:
    for ids in (
        {"colour": "red", "mlflow_run": "without its store"},
        {"flow_run": "00000000-0000-0000-0000-000000000000"},
    ):
        leave(**ids)
        assert await leave.cleared() == 1
        assert not list(home.runs.iterdir())


def test_a_run_is_registered_as_long_as_it_runs_and_adds_its_ids(tmp_path: Path) -> None:
    home = Home(tmp_path)
    path = home.runs / f"{HOST}-{os.getpid()}.json"
    control = Control()
    with registered(home, control):
        control.register(flow_run="a")
        control.register(run="b")
        said = json.loads(path.read_text(encoding="utf-8"))
        assert said == {"host": HOST, "pid": os.getpid(), "flow_run": "a", "run": "b"}
    assert list(home.runs.iterdir()) == []
    control.register(run="after the end")
    assert list(home.runs.iterdir()) == []
