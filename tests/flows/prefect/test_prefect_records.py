"""Old flow runs in the database of a Prefect server that runs."""

import datetime
import sqlite3
from contextlib import closing

import pytest
from prefect import task

from flows.prefect.prefect_records import PrefectRecords
from tasks.results.retention import Retention
from tasks.settings.home import Home
from tests.support.prefect_home import Served, in_flow

pytestmark = pytest.mark.slow


@task
async def one_task() -> int:
    return 1


async def test_prefects_own_vacuum_removes_old_flow_runs_while_the_server_runs(
    prefect_api: Served, prefect_home: Home
) -> None:
    import asyncio

    from prefect.client.orchestration import get_client

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
