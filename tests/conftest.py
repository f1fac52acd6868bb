"""What every test stands on: a home of its own, no secrets or servers in the environment, the shared data."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests.support.command_line import built_demo, crosscheck, prefect_server

# Imported here alone: a module that imports a session's fixture makes one of its own.
__all__ = ["built_demo", "crosscheck", "prefect_server"]

FOREIGN = ("MLFLOW_", "PREFECT_", "OPENAI_", "CROSSCHECK_")
OURS = {
    "CROSSCHECK_DATA",
    "CROSSCHECK_REQUIRE_SHARED",
    "CROSSCHECK_REQUIRE_POSTGRES",
    "CROSSCHECK_REQUIRE_MARIADB",
}


def pytest_configure(config: pytest.Config) -> None:
    """Move every home to a temporary folder and forget the developer's keys and servers.

    A hook and no fixture, because prefect reads its settings when a test module is collected.
    """
    for name in list(os.environ):
        if (name.startswith(FOREIGN) or name.endswith("_API_KEY")) and name not in OURS:
            del os.environ[name]
    folder = tempfile.TemporaryDirectory(prefix="crosscheck-tests-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    if "PYTEST_XDIST_WORKER" not in os.environ:  # the workers inherit it
        os.environ["XDG_CACHE_HOME"] = str(Path(folder.name) / "cache")
    os.environ["CROSSCHECK_HOME"] = str(Path(folder.name) / "home")
    os.environ["PREFECT_HOME"] = str(Path(folder.name) / "prefect")
    os.environ["DO_NOT_TRACK"] = "1"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # tests start the command very often: it is compiled once
    os.environ["OMP_NUM_THREADS"] = "1"  # more threads would wait busily for the processors of other tests


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Forget what a test has set in the environment, or code that it runs in this process: others inherit it."""
    with mock.patch.dict(os.environ):
        yield


def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are processors: many tests wait for other processes."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses the shared data, so that `-m "not shared_data"` leaves all of it out."""
    for item in items:
        if "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.shared_data)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the real BIRD and Spider data; skips where it is absent.

    CROSSCHECK_REQUIRE_SHARED=1 makes its absence a failure, for machines that are meant to have it.
    """
    named = os.environ.get("CROSSCHECK_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if (folder / "bird" / "dev.json").is_file():
        return folder.resolve()
    reason = (
        f"no benchmark data at {folder}: put BIRD dev (bird-bench.github.io) in its bird/ and Spider "
        "(yale-lily.github.io/spider) in its spider/, or set CROSSCHECK_DATA to the folder that holds both"
    )
    if os.environ.get("CROSSCHECK_REQUIRE_SHARED") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
