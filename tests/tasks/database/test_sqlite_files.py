"""SQLite files beside other processes: damaged ones are renamed once, and the switch to a write-ahead log waits."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tasks.database.keyed_store import use_wal
from tasks.database.sqlite_files import damage, file_id, renew_if_damaged, set_aside
from tests.support.processes import at_once

GARBAGE = b"no database, but long enough to be looked at by SQLite " * 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A damaged file with its journals."""
    for ending in ("", "-wal", "-shm"):
        (tmp_path / f"kept.sqlite{ending}").write_bytes(GARBAGE)
    return tmp_path / "kept.sqlite"


def asides(path: Path) -> list[Path]:
    return list(path.parent.glob("kept.sqlite.damaged-*"))


def begin(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE kept (a)")


def test_a_damaged_file_is_renamed_without_journals(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert renew_if_damaged(path, "all is lost")
    (aside,) = asides(path)
    assert aside.read_bytes() == GARBAGE
    assert list(path.parent.iterdir()) == [aside]
    assert f"It was renamed to {aside.name}, and a new file is begun: all is lost." in caplog.text


def test_a_whole_or_missing_file_stays(path: Path) -> None:
    path.unlink()
    assert not renew_if_damaged(path, "")
    path.with_name("kept.sqlite-wal").unlink()
    path.with_name("kept.sqlite-shm").unlink()
    begin(path)
    assert not renew_if_damaged(path, "")
    assert not asides(path)


def test_the_file_that_another_process_has_begun_anew_stays(path: Path) -> None:
    seen = file_id(path)
    assert set_aside(path, seen, "garbage", "")
    begin(path)
    path.with_name("kept.sqlite-wal").write_bytes(b"journal")
    assert not set_aside(path, seen, "garbage", "")
    assert path.with_name("kept.sqlite-wal").exists()
    path.unlink()
    assert not set_aside(path, seen, "garbage", "")
    assert len(asides(path)) == 1


def renew(path: Path) -> None:
    if renew_if_damaged(path, ""):
        begin(path)


def test_of_processes_that_meet_the_damage_at_once_one_renames(path: Path) -> None:
    at_once(4, partial(renew, path))
    assert len(asides(path)) == 1
    assert damage(path) == ""


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
