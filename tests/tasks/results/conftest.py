"""One MLflow store that is made once and copied, and no server of the user's."""

import shutil
from pathlib import Path

import pytest

from tasks.results.mlflow.store import Store, find_store
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home


@pytest.fixture(autouse=True)
def _no_server_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="session")
def _empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("empty-store")
    find_store(Home(home)).client().search_experiments(max_results=1)
    return home / "mlflow.db"


@pytest.fixture
def store(_empty_store: Path, tmp_path: Path) -> Store:
    """An MLflow store of its own: a copy of one that is made once, since making it takes a second."""
    return _copy(_empty_store, tmp_path)


@pytest.fixture(scope="module")
def read_only_store(_empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One for the tests of a module that only look at what one of them logged."""
    return _copy(_empty_store, tmp_path_factory.mktemp("read-only"))


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse.duckdb")


def _copy(empty: Path, folder: Path) -> Store:
    home = folder / "the home"
    home.mkdir()
    shutil.copy(empty, home / "mlflow.db")
    return find_store(Home(home))
