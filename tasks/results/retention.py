"""Stores of the working folder: what each holds, and what of it may be removed."""

import datetime
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tasks.core.errors import DataError
from tasks.core.files import file_size
from tasks.database.dialects import quoted
from tasks.database.keyed_store import DAY_S, TABLE
from tasks.results.night import Night
from tasks.results.night_baseline import Pin
from tasks.results.run_record import RunHeader
from tasks.results.warehouse.run_names import find_run
from tasks.results.warehouse.tables import TABLES_OF_A_RUN, WarehouseFile
from tasks.settings.evaluation import PINNED, Keep, age


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept at one moment."""

    cutoff: datetime.datetime  # what was last used before it, and by no kept run, may be removed
    kept: frozenset[str]  # ids of the runs that are kept
    removable: frozenset[str]  # ids of all other runs
    # when kept runs that are older than the cutoff ran: what was last used then stays
    spans: tuple[tuple[datetime.datetime, datetime.datetime], ...]
    rows: bool = True  # whether the warehouse keeps the questions of all runs

    def keeps(self, used: datetime.datetime) -> bool:
        """Return whether something stays that was last used at a moment."""
        return used >= self.cutoff or any(start <= used <= end for start, end in self.spans)


def retention(
    keep: Keep,
    runs: Sequence[RunHeader],
    nights: Sequence[Night],
    pins: Iterable[Pin] = (),
    now: datetime.datetime | None = None,
) -> Retention:
    """Return what is kept, of runs that are given newest first and of nights that are given the latest first.

    Kept are runs that are young enough or not finished, the latest ones of each benchmark, backbone and pipeline,
    pinned ones, the baselines of nights that are kept, the latest baseline of each benchmark, backbone, pipeline and
    set of questions, pinned baselines, and the runs that a kept run was merged from.
    """
    cutoff = (now or datetime.datetime.now(datetime.UTC)) - age(keep.age)
    by_id = {run.run_id: run for run in runs}
    kept = {run.run_id for run in runs if run.started >= cutoff or run.status == "running"}
    kept |= {run.run_id for run in runs if PINNED in run.tags} | {
        pin.run_id for pin in pins if pin.run_id in by_id
    }
    kept |= _latest(runs, keep.runs) | set(_baselines(nights, runs, cutoff))
    for run_id in list(kept):
        while (run_id := by_id[run_id].tags.get("parent_run_id", "")) in by_id and run_id not in kept:
            kept.add(run_id)
    old = [run for run_id in kept if (run := by_id[run_id]).started < cutoff]
    spans = tuple(
        (run.started, run.started + datetime.timedelta(seconds=(run.seconds or 86_400) + 3_600))
        for run in old
    )
    return Retention(cutoff, frozenset(kept), frozenset(by_id.keys() - kept), spans, keep.rows)


def _latest(runs: Sequence[RunHeader], most: int) -> set[str]:
    run_ids: dict[tuple[str, str, str], list[str]] = {}
    for run in runs:
        if run.is_finished:
            run_ids.setdefault((run.benchmark, run.backbone, run.pipeline), []).append(run.run_id)
    return {run_id for ids in run_ids.values() for run_id in ids[:most]}


def _baselines(
    nights: Sequence[Night], runs: Sequence[RunHeader], cutoff: datetime.datetime
) -> Iterable[str]:
    known = {run.run_id: run for run in runs}
    latest: dict[tuple[str, str], str] = {}
    for place, night in enumerate(nights):
        for entry in night.entries:
            if (baseline := entry.baseline) in known:
                latest.setdefault((entry.name, known[baseline].question_set), baseline)
                if night.started >= cutoff:
                    yield baseline
        if place and night.started < cutoff:
            continue
        for reference in (night.matrix.get("baselines") or {}).values():
            with suppress(DataError):
                yield find_run(reference, runs).run_id
    yield from latest.values()


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
    parts: "tuple[Holding, ...]" = ()  # what its parts hold; of replies, by model


@dataclass(frozen=True)
class Store(ABC):
    """A store of the working folder.

    `remove` may be killed at any moment and called again. Other processes may use the store meanwhile, but not during
    `shrink`.
    """

    name: str
    path: Path

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


def _content(connection: sqlite3.Connection, table: str) -> float:
    """Estimate the bytes of a table's rows from the first of them."""
    name = quoted(table, "sqlite")
    columns = [quoted(row[1], "sqlite") for row in connection.execute(f"PRAGMA table_info({name})")]
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
        return sum(file_size(file, follow_symlinks=False) for file in _files(path))
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


KNOWN_TO_S = DAY_S
"""Seconds after the noted last use of a row within which it may have been used again: a use is noted once a day."""


@dataclass(frozen=True)
class UsedRows(SqliteStore):
    """Rows of a `KeyedStore`, whose last use is known to `KNOWN_TO_S`."""

    counted: str  # what the rows are

    def holding(self, retention: Retention) -> Holding:
        """Count the rows."""
        if not self.path.exists():
            return Holding(self.name, self.path, counts={self.counted: 0})
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
            {self.counted: count},
            {self.counted: old},
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


@dataclass(frozen=True)
class UsedFiles(Store):
    """A folder of files, each with the moment of its last use as its time of modification."""

    counted: str  # what the files are

    def holding(self, retention: Retention) -> Holding:
        """Count the files."""
        files, old = self._files(), self._unused(retention)
        return Holding(
            self.name,
            self.path,
            sum(map(size_of, files)),
            {self.counted: len(files)},
            {self.counted: len(old)},
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


MAX_LOG = 10_000_000
"""Bytes that are kept of a log."""


@dataclass(frozen=True)
class Logs(Store):
    """Logs: of one that is older than the cutoff nothing is kept, of any other its last part."""

    folders: tuple[Path, ...]

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
        return [path for folder in self.folders for path in sorted(folder.glob("*.log*")) if path.is_file()]

    def _kept(self, file: Path, size: int, retention: Retention) -> int:
        return min(size, MAX_LOG) if _modified(file) >= retention.cutoff else 0


def _modified(path: Path) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)


_DRAFT = ".rewriting"


class WarehouseRows(Store):
    """Runs and their questions in the DuckDB file."""

    def holding(self, retention: Retention) -> Holding:
        """Count runs and questions."""
        size = size_of(self.path)
        runs, questions, old = 0, 0, 0
        if self.path.exists():
            with WarehouseFile(self.path).reading() as connection:
                for run, count in connection.execute(
                    "SELECT run_id, count(question_id) FROM runs LEFT JOIN questions USING (run_id) GROUP BY run_id"
                ).fetchall():
                    runs, questions = runs + 1, questions + count
                    old += count * (not retention.rows and run in retention.removable)
        frees = size * old // questions if questions else 0
        counts = {"runs": runs, "questions": questions}
        return Holding(self.name, self.path, size, counts, {"questions": old}, frees)

    def remove(self, retention: Retention) -> None:
        """Remove the questions of runs that are not kept, all in one transaction."""
        if retention.rows or not retention.removable or not self.path.exists():
            return
        with WarehouseFile(self.path).writing() as connection:
            old = sorted(retention.removable)
            connection.execute(
                "UPDATE runs SET rows_removed = now() AT TIME ZONE 'UTC' WHERE run_id IN (SELECT unnest(?)) "
                "AND rows_removed IS NULL AND run_id IN (SELECT run_id FROM questions)",
                [old],
            )
            for table in TABLES_OF_A_RUN:
                connection.execute(f"DELETE FROM {table} WHERE run_id IN (SELECT unnest(?))", [old])

    def shrink(self) -> None:
        """Copy what is left into a new file that takes the place of this one: DuckDB does not shrink files.

        The lock on the old file is held meanwhile; a process that opens the old file at that moment finds it replaced
        (`WarehouseFile`).
        """
        draft = self.path.with_name(self.path.name + _DRAFT)
        for left in (draft, draft.with_name(f"{draft.name}.wal")):  # by a process that was killed
            left.unlink(missing_ok=True)
        if not self.path.exists():
            return
        with WarehouseFile(self.path).exclusive() as connection:
            connection.execute("CHECKPOINT")
            blocks = connection.execute(
                "SELECT free_blocks, total_blocks FROM pragma_database_size() WHERE database_name = current_database()"
            ).fetchone()
            if not blocks or blocks[0] * 4 < blocks[1]:
                return
            source = str(connection.execute("SELECT current_database()").fetchone()[0]).replace('"', '""')  # type: ignore[index]
            connection.execute("ATTACH '{}' AS rewritten".format(str(draft).replace("'", "''")))
            connection.execute(f'COPY FROM DATABASE "{source}" TO rewritten')
            connection.execute("DETACH rewritten")
            draft.replace(self.path)
