"""Sizes of files and folders that other processes write to."""

import threading
from pathlib import Path

from tasks.results.retention import size_of

LOOKS = 3_000


def test_files_that_come_and_go_meanwhile_do_not_count_and_do_no_harm(tmp_path: Path) -> None:
    database, ended = tmp_path / "mlflow.db", threading.Event()
    database.write_bytes(b"12345")
    journals = [tmp_path / f"mlflow.db{ending}" for ending in ("-journal", "-wal")]

    def come_and_go() -> None:
        while not ended.is_set():
            for journal in journals:
                journal.touch()
            for journal in journals:
                journal.unlink()

    writer = threading.Thread(target=come_and_go)
    writer.start()
    try:
        assert {size_of(path) for _ in range(LOOKS) for path in (tmp_path, database)} == {5}
    finally:
        ended.set()
        writer.join()
