"""A store of the working folder: what it holds, and what of it may be removed."""

import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tasks.core.files import file_size
from tasks.database.identifiers import quoted
from tasks.tracking.retention.kept_runs import Retention

BATCH = 2_000
"""Rows that one transaction removes, so that other processes wait for a moment at most."""
BUSY_TIMEOUT_S = 60.0
_SAMPLE = 100
"""Rows of a table from which its size is estimated."""
_ROW = 10
"""Bytes of a row besides its values."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What a store holds."""

    name: str  # of the store
    path: Path  # its file or folder
    size: int = 0  # in bytes
    counts: Mapping[str, int] = field(default_factory=dict)  # how many there are of what
    # how many of them may be removed, under the same names
    removable: Mapping[str, int] = field(default_factory=dict)
    frees: int = 0  # bytes that removing them frees; of a database an estimate
    cost_usd: float | None = None  # what the model replies in it have cost; None: unknown, or none are in it
    note: str = ""  # a remark, in a sentence


class Store(ABC):
    """A store of the working folder.

    `remove` may be killed at any moment and called again. Other processes may use the store meanwhile, but not during
    `shrink`.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path

    @abstractmethod
    def holding(self, retention: Retention) -> Holding:
        """Count what the store holds; quick, without MLflow and Prefect."""

    def remove(self, retention: Retention) -> None:  # noqa: B027 - optional
        """Remove what is not kept."""

    def shrink(self) -> None:  # noqa: B027 - optional
        """Give the space of what was removed back to the disk."""


class SqliteStore(Store):
    """A store in a SQLite file."""

    def shrink(self) -> None:
        """Rewrite the file without its free pages, if there are any; SQLite undoes a rewrite that was killed."""
        if not self.path.exists():
            return
        with opened(self.path) as connection:
            if connection.execute("PRAGMA freelist_count").fetchone()[0]:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def freed(self, parts: Mapping[str, float]) -> int:
        """Estimate the bytes freed by removing parts, 0..1, of tables' rows, with the pages that are free already.

        The pages in use are shared out among the tables by their content: rows times the size of the first of them.
        """
        with opened(self.path) as connection:
            size, pages, free = (
                int(connection.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("page_size", "page_count", "freelist_count")
            )
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            contents = {name: _content(connection, name) for (name,) in tables}
        removed = sum(parts.get(name, 0) * content for name, content in contents.items())
        share = removed / sum(contents.values()) if removed else 0
        return int(size * (free + (pages - free) * share))


def _quoted(name: str) -> str:
    return quoted(name, "sqlite")


def _content(connection: sqlite3.Connection, table: str) -> float:
    """Estimate the bytes of a table's rows from the first of them."""
    name = _quoted(table)
    columns = [_quoted(row[1]) for row in connection.execute(f"PRAGMA table_info({name})")]
    lengths = " + ".join(f"coalesce(length(CAST({column} AS BLOB)), 0)" for column in columns)
    (mean,) = connection.execute(
        f"SELECT avg(bytes) FROM (SELECT {lengths} AS bytes FROM {name} LIMIT {_SAMPLE})"
    ).fetchone()
    (rows,) = connection.execute(f"SELECT count(*) FROM {name}").fetchone()
    return float(rows * ((mean or 0) + _ROW))


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a SQLite file that exists; each statement is a transaction."""
    with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection:
        yield connection


def size_of(path: Path) -> int:
    """Return the size of a file with its journals, or of all files below a folder; 0 if there is none."""
    if path.is_dir():
        return sum(file_size(each, follow_symlinks=False) for each in _files(path))
    beside = (path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm", "-journal", ".wal")))
    return sum(map(file_size, beside))


def _files(folder: Path) -> Iterator["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    yield entry
    except FileNotFoundError:  # removed by another process meanwhile
        return


def removed_in_batches(
    connection: sqlite3.Connection, table: str, key: str, condition: str, *values: object
) -> int:
    """Delete the rows of a table that meet a condition, a batch in each transaction; return how many."""
    delete = f"DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE {condition} LIMIT {BATCH})"
    total = 0
    while count := connection.execute(delete, values).rowcount:
        total += count
    return total
