"""Waiting for Prefect's recorder of task runs, on a real Prefect server that has dropped the end of most of them."""

import asyncio
import time
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from prefect import flow, task
from prefect.client.orchestration import PrefectClient, get_client
from prefect.states import Completed

from flows.prefect import flow_runs as task_runs
from flows.prefect.flow_runs import RecorderBackpressure
from flows.runtime.control import Control, Progress
from tasks.settings.home import Home

pytestmark = pytest.mark.slow

PATIENCE_S = 1.5


@flow(name="parent")
async def parent() -> None:
    """A flow to have runs of."""


@task
async def step() -> None:
    """A task to have runs of."""


class Recorded:
    """A flow run whose task runs are recorded as having ended when the test says so."""

    def __init__(self, flow_run: UUID) -> None:
        self.flow_run = flow_run
        self.count = 0

    async def add(self, more: int) -> None:
        async with get_client() as client:
            for _ in range(more):
                self.count += 1
                await client.create_task_run(step, self.flow_run, f"step-{self.count}", state=Completed())


@pytest.fixture
async def recorded(prefect_home: Home, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Recorded]:
    monkeypatch.setattr(task_runs, "RECORDING_S", PATIENCE_S)
    monkeypatch.setattr(task_runs, "MAX_UNRECORDED", 10)
    async with get_client() as client:
        yield Recorded((await client.create_flow_run(parent)).id)


async def seconds_of(backpressure: RecorderBackpressure, *executed: int) -> float:
    begun = time.monotonic()
    await asyncio.gather(*(backpressure.wait(count) for count in executed))
    return time.monotonic() - begun


async def test_dropped_task_runs_are_waited_for_once(recorded: Recorded) -> None:
    await recorded.add(5)
    backpressure = RecorderBackpressure(Control(flow_run=str(recorded.flow_run)))
    assert await seconds_of(backpressure, 15) < PATIENCE_S / 2
    assert PATIENCE_S <= await seconds_of(backpressure, 40, 41, 42, 43) < 2 * PATIENCE_S
    assert await seconds_of(backpressure, 50) < PATIENCE_S / 2, "35 were dropped, 10 may be on their way"
    assert await seconds_of(backpressure, 60) >= PATIENCE_S


async def test_what_is_recorded_late_was_not_dropped(recorded: Recorded) -> None:
    backpressure = RecorderBackpressure(Control(flow_run=str(recorded.flow_run)))
    assert await seconds_of(backpressure, 30) >= PATIENCE_S
    await recorded.add(30)
    assert await seconds_of(backpressure, 41) < PATIENCE_S
    assert await seconds_of(backpressure, 55) >= PATIENCE_S


async def test_the_patience_begins_again_whenever_more_is_recorded(recorded: Recorded) -> None:
    backpressure = RecorderBackpressure(Control(flow_run=str(recorded.flow_run)))
    waiting = asyncio.create_task(seconds_of(backpressure, 16))
    for _ in range(6):
        await asyncio.sleep(PATIENCE_S / 3)
        await recorded.add(1)
    assert await waiting >= 2 * PATIENCE_S


async def test_a_server_that_is_given_up_between_two_attempts_of_the_client_loses_no_result(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked_again(client: PrefectClient, *_: object, **__: object) -> None:
        # as prefect/client/base.py does where PREFECT_CLIENT_MAX_RETRIES is lowered meanwhile
        raise AssertionError("Retry handling ended without response or exception")

    monkeypatch.setattr(PrefectClient, "request", asked_again)
    control = Control(flow_run=str(recorded.flow_run))
    assert await RecorderBackpressure(control).wait(3, ending=True) == 0


async def test_one_task_run_is_counted_in_the_singular(recorded: Recorded) -> None:
    said: list[str] = []

    class Told(Progress):
        def step(self, text: str) -> None:
            said.append(text)

    await recorded.add(1)
    control = Control(flow_run=str(recorded.flow_run), progress=Told())
    assert await RecorderBackpressure(control).wait(1, ending=True) == 1
    assert said[-1] == "Prefect has recorded 1 of 1 task run"
