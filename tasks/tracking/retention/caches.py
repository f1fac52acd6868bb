"""Stores whose content is made again when needed: stage results, verdicts, value indexes, embeddings; and logs."""

import datetime
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from tasks.core.files import file_size
from tasks.database.sqlite.keyed_store import DAY_S, TABLE
from tasks.tracking.retention.kept_runs import Retention
from tasks.tracking.retention.store import Holding, SqliteStore, Store, opened, removed_in_batches, size_of

KNOWN_TO_S = DAY_S
"""Seconds after the noted last use of a row within which it may have been used again: a use is noted once a day."""


class UsedRows(SqliteStore):
    """Rows of a `KeyedStore`, whose last use is known to `KNOWN_TO_S`."""

    def __init__(self, name: str, path: Path, counted: str) -> None:
        """Describe the store; `counted` says what a row is."""
        super().__init__(name, path)
        self._counted = counted

    def holding(self, retention: Retention) -> Holding:
        """Count the rows."""
        if not self.path.exists():
            return Holding(self.name, self.path, counts={self._counted: 0})
        with opened(self.path) as connection:
            condition, cutoff = self._unused(connection, retention)
            (count,) = connection.execute(f"SELECT count(*) FROM {TABLE}").fetchone()
            (old,) = connection.execute(
                f"SELECT count(*) FROM {TABLE} WHERE {condition}", (cutoff,)
            ).fetchone()
        return Holding(
            self.name,
            self.path,
            size_of(self.path),
            {self._counted: count},
            {self._counted: old},
            self.freed({TABLE: old / count if count else 0}),
        )

    def remove(self, retention: Retention) -> None:
        """Remove the rows that no kept run has used."""
        if self.path.exists():
            with opened(self.path) as connection:
                condition, cutoff = self._unused(connection, retention)
                removed_in_batches(connection, TABLE, "key", condition, cutoff)

    def _unused(self, connection: sqlite3.Connection, retention: Retention) -> tuple[str, float]:
        """Return the condition on rows that no kept run has used, and its parameter.

        The spans are a table, because SQLite refuses an expression of a thousand of them.
        """
        connection.execute("CREATE TEMP TABLE span (since REAL PRIMARY KEY, until REAL)")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO span VALUES (?, ?)", _merged(retention.spans))
        connection.execute("COMMIT")
        last = f"used + {KNOWN_TO_S}"
        latest = f"SELECT until FROM span WHERE since < {last} ORDER BY since DESC LIMIT 1"
        return f"{last} <= ? AND coalesce(({latest}) < used, TRUE)", retention.cutoff.timestamp()


def _merged(
    spans: Iterable[tuple[datetime.datetime, datetime.datetime]],
) -> list[tuple[float, float]]:
    """Return spans of time without overlaps, in seconds since 1970."""
    merged: list[tuple[float, float]] = []
    for since, until in sorted((start.timestamp(), end.timestamp()) for start, end in spans):
        if merged and since <= merged[-1][1]:
            since, until = merged[-1][0], max(until, merged.pop()[1])
        merged.append((since, until))
    return merged


class UsedFiles(Store):
    """A folder of files, each with the moment of its last use as its time of modification."""

    def __init__(self, name: str, path: Path, counted: str) -> None:
        super().__init__(name, path)
        self._counted = counted

    def holding(self, retention: Retention) -> Holding:
        """Count the files."""
        files, old = self._files(), self._unused(retention)
        return Holding(
            self.name,
            self.path,
            sum(map(size_of, files)),
            {self._counted: len(files)},
            {self._counted: len(old)},
            sum(map(size_of, old)),
        )

    def remove(self, retention: Retention) -> None:
        """Remove the files that were not used; a process that has one open goes on reading it."""
        for file in self._unused(retention):
            file.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return [path for path in sorted(self.path.glob("*")) if path.is_file()]

    def _unused(self, retention: Retention) -> list[Path]:
        return [path for path in self._files() if not retention.keeps(_modified(path))]


class Logs(Store):
    """Logs: of one that is older than the cutoff nothing is kept, of any other its last part."""

    LONGEST = 10_000_000
    """Bytes that are kept of a log."""

    def __init__(self, path: Path, folders: Sequence[Path]) -> None:
        super().__init__("logs", path)
        self._folders = folders

    def holding(self, retention: Retention) -> Holding:
        """Count the logs."""
        files = self._files()
        sizes = {file: file_size(file) for file in files}
        frees = {file: size - self._kept(file, size, retention) for file, size in sizes.items()}
        return Holding(
            self.name,
            self.path,
            sum(sizes.values()),
            {"logs": len(files)},
            {"logs": sum(free > 0 for free in frees.values())},
            sum(frees.values()),
        )

    def remove(self, retention: Retention) -> None:
        """Cut the logs, in place: a process that writes to one appends to what is left."""
        for file in self._files():
            size = file_size(file)
            if (kept := self._kept(file, size, retention)) < size:
                with file.open("r+b") as log:
                    log.seek(size - kept)
                    rest = log.read(kept)
                    log.seek(0)
                    log.write(rest[rest.find(b"\n") + 1 :] if rest else b"")
                    log.truncate()

    def _files(self) -> list[Path]:
        return [path for folder in self._folders for path in sorted(folder.glob("*.log*")) if path.is_file()]

    def _kept(self, file: Path, size: int, retention: Retention) -> int:
        return min(size, self.LONGEST) if _modified(file) >= retention.cutoff else 0


def _modified(path: Path) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
