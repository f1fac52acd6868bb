"""A real Prefect server for tests that run flows in their own process, and a working folder for each of them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import pytest

from flows.prefect.settings import CLIENT, apply, local_settings
from tasks.settings.home import Home

if TYPE_CHECKING:
    from prefect.client.schemas.objects import TaskRun

T = TypeVar("T")


@dataclass(frozen=True)
class Served:
    """A server that runs, and the folder of its database."""

    url: str
    home: Home


@pytest.fixture(scope="session")
def prefect_api(prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """The server that all tests of a session share, commands included."""
    folder = next(tmp_path_factory.getbasetemp().glob("prefect-server[0-9]*"))
    return Served(prefect_server, Home(folder))


@pytest.fixture
def prefect_home(prefect_api: Served, tmp_path: Path) -> Iterator[Home]:
    """A working folder below which Prefect, in this process, persists results; it records at the shared server."""
    home = Home(tmp_path / "home")
    home.path.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"PREFECT_API_URL": prefect_api.url, **local_settings(home), **CLIENT}.items():
            patch.setenv(name, value)
        apply({})
        _forget_connection()
        yield home
        _forget_connection()
    apply({})


def _forget_connection() -> None:
    """Have Prefect's events go to the server of the test that follows, not to that of one before it."""
    from prefect.events.worker import EventsWorker

    EventsWorker.drain_all(timeout=60, at_exit=False)


async def in_flow(work: Callable[[], Awaitable[T]]) -> T:
    """Await something inside of a Prefect flow, as evaluations do."""
    from prefect import flow

    @flow(name="test", validate_parameters=False, persist_result=False)
    async def run_test() -> T:
        return await work()

    state = await run_test(return_state=True)
    result: T = await state.aresult()
    return result


async def recorded_task_runs(flow_run: UUID, count: int) -> "list[TaskRun]":
    """Wait until Prefect has recorded the end of that many task runs, and return them."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    wanted = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run]))
    async with asyncio.timeout(300), get_client() as client:
        while True:
            runs = await client.read_task_runs(flow_run_filter=wanted)
            if sum(run.state is not None and run.state.is_final() for run in runs) >= count:
                return runs
            await asyncio.sleep(0.1)
