"""Flow runs on a real Prefect server: more than it gives at a time, their end, and old ones that are removed."""

import asyncio
import datetime
import socket
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partialmethod
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect import flow, task
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate
from prefect.runtime import flow_run
from prefect.settings.models.root import Settings

from flows.evaluate.run import keeping_result
from flows.prefect import flow_runs
from flows.prefect.flow_runs import (
    FlowRunState,
    as_flow,
    cancel_launched_by,
    launch,
    server_answers,
    states_of,
)
from flows.prefect.prefect_records import PrefectRecords
from flows.prefect.settings import WITH_SERVER, WITHOUT_SERVER, apply
from flows.runtime.control import Control
from tasks.core.errors import BackboneError
from tasks.results.retention import Retention
from tasks.settings.home import Home
from tests.support.prefect_home import Served, in_flow

pytestmark = pytest.mark.slow

MANY = 7
AT_A_TIME = 3


@flow(name="child")
async def child() -> None:
    """A flow to have runs of."""


async def launch_many() -> tuple[UUID, list[UUID]]:
    """Launch a deployment that no worker takes, as the children of a flow run; return its id and theirs."""
    async with get_client() as client:
        await client.create_deployment(await client.create_flow(child), "idle", paused=True)

    async def work() -> tuple[UUID, list[UUID]]:
        made = [await launch("child/idle", {}, f"child {number}") for number in range(MANY)]
        return UUID(flow_run.id), made

    return await in_flow(work)


async def show_progress(flow_runs: Sequence[UUID], percent: float) -> None:
    async with get_client() as client:
        for id_ in flow_runs:
            await client.create_artifact(ArtifactCreate(type="progress", flow_run_id=id_, data=percent))


async def test_of_more_flow_runs_than_the_server_gives_at_a_time_none_is_missed(
    prefect_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("read_flow_runs", "read_artifacts"):
        limited = partialmethod(getattr(PrefectClient, name), limit=AT_A_TIME)
        monkeypatch.setattr(PrefectClient, name, limited)
    parent, launched = await launch_many()
    await show_progress(launched, 40.0)
    gone = uuid4()
    states = await states_of([gone, *launched])
    assert states.pop(gone) == FlowRunState("CRASHED", "It was deleted.")
    assert states == dict.fromkeys(launched, FlowRunState("SCHEDULED", "", 40.0))
    await cancel_launched_by(parent)
    assert {state.state for state in (await states_of(launched)).values()} == {"CANCELLED"}


async def test_why_a_flow_ended_is_told_where_prefects_server_has_died(
    prefect_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control()

    async def refuse(*given: Any, **named: Any) -> None:
        raise httpx.ConnectError("All connection attempts failed")

    async def body(settings: None) -> None:
        control.begin_flow_run(str(flow_run.id))
        monkeypatch.setattr(PrefectClient, "set_flow_run_state", refuse)
        raise BackboneError("The key is not accepted.", transient=False)

    evaluate = as_flow(body, "evaluate", "evaluate")
    with pytest.raises(BackboneError, match="The key is not accepted"), keeping_result(control):
        await evaluate(None, return_state=True)


async def test_a_server_that_takes_connections_and_never_answers_is_soon_given_up(
    prefect_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up: list[bool] = []
    monkeypatch.setattr(flow_runs, "HEALTH_S", 0.1)
    monkeypatch.setattr(flow_runs, "HEALTH_PAUSES_S", (0, 0))
    monkeypatch.setattr(flow_runs, "give_up_server", lambda: given_up.append(True))
    with socket.create_server(("127.0.0.1", 0)) as silent:

        async def look() -> bool:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/api")
                apply({})
                answers = await server_answers(Control())
            apply({})
            return answers

        started = time.monotonic()
        assert not await in_flow(look)
        assert time.monotonic() - started < 20
    assert given_up


def test_the_settings_with_a_server_are_prefects_own() -> None:
    fields = {
        "PREFECT_CLIENT_MAX_RETRIES": ("client", "max_retries"),
        "PREFECT_LOGGING_TO_API_ENABLED": ("logging", "to_api", "enabled"),
    }
    assert WITH_SERVER.keys() == WITHOUT_SERVER.keys() == fields.keys()
    for variable, path in fields.items():
        field: Any = Settings
        for name in path[:-1]:
            field = field.model_fields[name].annotation
        assert WITH_SERVER[variable] == str(field.model_fields[path[-1]].default).lower()


@task
async def one_task() -> int:
    return 1


async def test_prefects_own_vacuum_removes_old_flow_runs_while_the_server_runs(
    prefect_api: Served, prefect_home: Home
) -> None:
    for _ in range(2):
        assert await in_flow(one_task) == 1
    path = prefect_api.home.prefect / "prefect.db"
    store = PrefectRecords("Prefect", path)
    now = datetime.datetime.now(datetime.UTC)
    retention = Retention(now - datetime.timedelta(days=30), frozenset(), frozenset())
    with closing(sqlite3.connect(path, timeout=300)) as connection:
        (old,) = connection.execute(
            "SELECT id FROM flow_run WHERE name = (SELECT max(name) FROM flow_run)"
        ).fetchone()
        connection.execute(
            "UPDATE flow_run SET end_time = '2020-01-01 00:00:00.000000', state_type = 'COMPLETED' WHERE id = ?",
            (old,),
        )
        connection.commit()
    before = store.holding(retention)
    assert before.removable["flow runs"] == 1
    await asyncio.to_thread(store.remove, retention)
    after = store.holding(retention)
    assert after.counts["flow runs"] == before.counts["flow runs"] - 1
    assert after.removable == {"flow runs": 0}
    async with get_client() as client:
        assert old not in {str(each.id) for each in await client.read_flow_runs()}
    assert await in_flow(one_task) == 1
