"""MLflow's SQLite store is opened in advance only while it is not known to be usable."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tasks.results.mlflow import store as known_store
from tasks.results.mlflow.store import is_known, remember


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The tables of a store that are looked at."""
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('abc')")
        connection.execute("CREATE TABLE experiments (name TEXT, lifecycle_stage TEXT)")
        connection.execute(
            "INSERT INTO experiments VALUES ('crosscheck/gone', 'deleted'), ('crosscheck/demo', 'active')"
        )
    return path


def test_a_store_is_known_once_it_was_opened_until_mlflow_or_its_tables_change(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_known(store)
    remember(store)
    assert is_known(store) and is_known(store, "crosscheck/demo") and is_known(store, "crosscheck/new")
    assert not is_known(store, "crosscheck/gone")
    with monkeypatch.context() as patch:
        patch.setattr(known_store, "version", lambda name: "another")
        assert not is_known(store)
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'abd'")
    assert not is_known(store)


def test_a_store_that_will_be_made_is_known_and_one_that_is_damaged_is_not(tmp_path: Path) -> None:
    assert is_known(tmp_path / "mlflow.db")
    assert not is_known(tmp_path / "absent" / "mlflow.db")
    (tmp_path / "mlflow.db").write_bytes(b"no database")
    remember(tmp_path / "mlflow.db")
    assert not is_known(tmp_path / "mlflow.db")
