"""The switch of a SQLite file to a write-ahead log, beside other processes."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tasks.database.keyed_store import use_wal


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that has the new file for itself, as one that switches it has."""
    with closing(
        sqlite3.connect(tmp_path / "new.sqlite", isolation_level=None, check_same_thread=False)
    ) as connection:
        connection.execute("PRAGMA user_version = 1")
        connection.execute("BEGIN EXCLUSIVE")
        yield connection


def test_the_switch_waits_for_another_process(locked: sqlite3.Connection, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "new.sqlite", timeout=0)) as connection:
        threading.Timer(0.3, locked.execute, ["COMMIT"]).start()
        use_wal(connection, 30)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_file_that_stays_locked_is_an_error(locked: sqlite3.Connection, tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(tmp_path / "new.sqlite", timeout=0)) as connection,
        pytest.raises(sqlite3.OperationalError, match="database is locked"),
    ):
        use_wal(connection, 0.1)
