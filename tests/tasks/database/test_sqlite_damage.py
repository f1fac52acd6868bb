"""Damaged SQLite files: renamed once, by whichever process is first."""

import multiprocessing
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tasks.database.sqlite_files import damage, file_id, renew_if_damaged, set_aside

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


def test_a_damaged_file_is_renamed_without_its_journals_and_said(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
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


def renew(path: Path, ready: "multiprocessing.synchronize.Barrier") -> None:
    ready.wait()
    if renew_if_damaged(path, ""):
        begin(path)


def test_of_processes_that_meet_the_damage_at_once_one_renames(path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Barrier(4)
    processes = [spawn.Process(target=renew, args=(path, ready)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    assert len(asides(path)) == 1
    assert damage(path) == ""
