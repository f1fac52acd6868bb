"""A real Prefect server for tests that run flows in their own process, and a working folder for each of them."""

import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from flows.prefect.server import LocalServer
from flows.prefect.settings import CLIENT, apply, local_settings
from tasks.settings.home import Home

T = TypeVar("T")


@dataclass(frozen=True)
class Served:
    """A server that runs, and the folder of its database."""

    url: str
    home: Home


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The server, the same for all tests of a session: it takes seconds to start."""
    home = Home(tmp_path_factory.mktemp("prefect-api"))
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PREFECT_")]:
            patch.delenv(name)
        for name, value in local_settings(home).items():
            patch.setenv(name, value)
        server = LocalServer(home)
        patch.setenv("PREFECT_API_URL", "set by waiting, forgotten by leaving this block")
        url = server.wait()
    apply({})
    yield Served(url, home)
    server.stop()


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
