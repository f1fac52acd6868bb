"""Stores of the working folder: what each holds, and what of it may be removed."""

import datetime
import json
import os
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from tasks.core.files import file_size
from tasks.database.keyed_store import DAY_S, TABLE
from tasks.results.mlflow.store import Store as MlflowStore
from tasks.results.night import Night
from tasks.results.night_baseline import Pin
from tasks.results.run_record import RunHeader
from tasks.results.warehouse.tables import TABLES_OF_A_RUN, WarehouseFile
from tasks.settings.choices import PINNED, Keep, age


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept at one moment."""

    cutoff: datetime.datetime  # what was last used before it may be removed
    kept: frozenset[str]  # ids of the runs that are kept
    removable: frozenset[str]  # ids of all other runs
    rows: bool = True  # whether the warehouse keeps the questions of all runs


def retention(
    keep: Keep,
    runs: Sequence[RunHeader],
    nights: Sequence[Night],
    pins: Iterable[Pin] = (),
    now: datetime.datetime | None = None,
) -> Retention:
    """Return what is kept, of runs that are given newest first and of nights that are given the latest first.

    Kept are runs that are young enough or not finished, the latest ones of each benchmark, backbone and pipeline,
    pinned ones, pinned baselines, the latest baseline of each benchmark, backbone, pipeline and set of questions, and
    the runs that a kept run was merged from.
    """
    cutoff = (now or datetime.datetime.now(datetime.UTC)) - age(keep.age)
    by_id = {run.run_id: run for run in runs}
    kept_ids = {run.run_id for run in runs if run.started >= cutoff or run.status == "running"}
    kept_ids |= {run.run_id for run in runs if PINNED in run.tags}
    kept_ids |= {pin.run_id for pin in pins if pin.run_id in by_id}
    kept_ids |= _latest(runs, keep.runs) | _latest_baselines(nights, by_id)
    for run_id in list(kept_ids):
        parent = by_id[run_id].tags.get("parent_run_id", "")
        while parent in by_id and parent not in kept_ids:
            kept_ids.add(parent)
            parent = by_id[parent].tags.get("parent_run_id", "")
    removable = frozenset(by_id.keys() - kept_ids)
    return Retention(cutoff, kept=frozenset(kept_ids), removable=removable, rows=keep.rows)


def _latest(runs: Sequence[RunHeader], max_runs: int) -> set[str]:
    run_ids: dict[tuple[str, str, str], list[str]] = {}
    for run in runs:
        if run.is_finished:
            run_ids.setdefault((run.benchmark, run.backbone, run.pipeline), []).append(run.run_id)
    return {run_id for ids in run_ids.values() for run_id in ids[:max_runs]}


def _latest_baselines(nights: Sequence[Night], by_id: Mapping[str, RunHeader]) -> set[str]:
    latest: dict[tuple[str, str], str] = {}
    for night in nights:
        for entry in night.entries:
            if run := by_id.get(entry.baseline or ""):
                latest.setdefault((entry.name, run.question_set), run.run_id)
    return set(latest.values())


BATCH = 2_000
"""Rows that one transaction removes, so that other processes wait for a moment at most."""
BUSY_TIMEOUT_S = 60.0


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
class FolderStore(ABC):
    """A store of the working folder.

    `remove` may be killed at any moment and called again. Other processes may use the store meanwhile, but not during
    `shrink`.
    """

    name: str
    path: Path

    @abstractmethod
    def holding(self, retention: Retention) -> Holding:
        """Count what the store holds; quick, without MLflow and Prefect."""

    @abstractmethod
    def remove(self, retention: Retention) -> None:
        """Remove what is not kept."""

    def shrink(self) -> None:  # noqa: B027 - optional
        """Give the space of what was removed back to the disk."""

    def in_proportion(self, counts: Mapping[str, int], removable: Mapping[str, int] | None = None) -> Holding:
        """Return a holding that frees as large a part of the file as may be removed of what is counted."""
        removable = removable or {}
        size = size_of(self.path)
        total = sum(counts[name] for name in removable)
        frees = size * sum(removable.values()) // total if total else 0
        return Holding(self.name, self.path, size, counts, removable, frees)

    def of_paths(self, counted: str, paths: Sequence[Path], old: Sequence[Path]) -> Holding:
        """Return a holding of files or folders, of which the old ones may be removed."""
        counts, removable = {counted: len(paths)}, {counted: len(old)}
        return Holding(self.name, self.path, size_of(self.path), counts, removable, sum(map(size_of, old)))


class SqliteStore(FolderStore):
    """A store in a SQLite file."""

    def count(self, selection: str, *values: object) -> int:
        """Return how many rows there are, given the query from its FROM on; 0 without a file."""
        return sum(count for (count,) in rows_of(self.path, f"SELECT count(*) {selection}", *values))

    def shrink(self) -> None:
        """Rewrite the file without its free pages, if there are any; SQLite undoes a rewrite that was killed."""
        if not self.path.exists():
            return
        with opened(self.path) as connection:
            if connection.execute("PRAGMA freelist_count").fetchone()[0]:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a SQLite file that exists; each statement is a transaction."""
    with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection:
        yield connection


def rows_of(path: Path, query: str, *values: object) -> list[Any]:
    """Return the rows of a query to a SQLite file; none without one."""
    if not path.exists():
        return []
    with opened(path) as connection:
        return connection.execute(query, values).fetchall()


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


_UNUSED = f"FROM {TABLE} WHERE used + {DAY_S} <= ?"
"""Rows that were not used since a moment: a use is noted once a day."""


@dataclass(frozen=True)
class UsedRows(SqliteStore):
    """Rows of a `KeyedStore`, each with its last use."""

    counted: str  # what the rows are

    def holding(self, retention: Retention) -> Holding:
        """Count the rows."""
        old = self.count(_UNUSED, retention.cutoff.timestamp())
        return self.in_proportion({self.counted: self.count(f"FROM {TABLE}")}, {self.counted: old})

    def remove(self, retention: Retention) -> None:
        """Remove the rows that were not used, a batch in each transaction."""
        if not self.path.exists():
            return
        delete = f"DELETE FROM {TABLE} WHERE key IN (SELECT key {_UNUSED} LIMIT {BATCH})"
        with opened(self.path) as connection:
            while connection.execute(delete, (retention.cutoff.timestamp(),)).rowcount:
                pass


@dataclass(frozen=True)
class UsedFiles(FolderStore):
    """A folder of files, each with the moment of its last use as its time of modification."""

    counted: str  # what the files are

    def holding(self, retention: Retention) -> Holding:
        """Count the files."""
        return self.of_paths(self.counted, self._files(), self._unused(retention))

    def remove(self, retention: Retention) -> None:
        """Remove the files that were not used; a process that has one open goes on reading it."""
        for file in self._unused(retention):
            file.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return [path for path in self.path.glob("*") if path.is_file()]

    def _unused(self, retention: Retention) -> list[Path]:
        cutoff = retention.cutoff.timestamp()
        return [path for path in self._files() if path.stat().st_mtime < cutoff]


_TRACES_AT_ONCE = 500
_REMOVABLE = (
    "SELECT run_uuid FROM tags WHERE key = 'crosscheck_run_id' AND value IN (SELECT value FROM json_each(?))"
)
_TRACES = (
    "SELECT experiment_id, request_id FROM trace_info WHERE request_id IN (SELECT request_id "
    f"FROM trace_request_metadata WHERE key = 'mlflow.sourceRun' AND value IN ({_REMOVABLE})) ORDER BY 1"
)


class Traces(SqliteStore):
    """Traces in MLflow's SQLite file; the runs themselves, with parameters, metrics and tags, always stay."""

    def holding(self, retention: Retention) -> Holding:
        """Count runs and traces."""
        counts = {"runs": self.count("FROM runs"), "traces": self.count("FROM trace_info")}
        old = rows_of(self.path, _TRACES, _removable(retention))
        return self.in_proportion(counts, {"traces": len(old)})

    def remove(self, retention: Retention) -> None:
        """Remove the traces of runs that are not kept, through MLflow."""
        old = rows_of(self.path, _TRACES, _removable(retention))  # experiment and trace, by experiment
        if not old:
            return
        client = MlflowStore(f"sqlite:///{self.path}").client()
        for experiment, traces in groupby(old, key=lambda row: str(row[0])):
            ids = [trace for _, trace in traces]
            for start in range(0, len(ids), _TRACES_AT_ONCE):
                client.delete_traces(experiment, trace_ids=ids[start : start + _TRACES_AT_ONCE])


@dataclass(frozen=True)
class Artifacts(FolderStore):
    """Artifacts: a folder for each MLflow run."""

    database: Path  # MLflow's SQLite file, which has the runs

    def holding(self, retention: Retention) -> Holding:
        """Count the folders."""
        folders = [folder for folder in self.path.glob("*") if folder.is_dir()]
        return self.of_paths("runs", folders, self._unkept(retention))

    def remove(self, retention: Retention) -> None:
        """Remove the folders of runs that are not kept."""
        for folder in self._unkept(retention):
            shutil.rmtree(folder, ignore_errors=True)  # another process may remove the same

    def _unkept(self, retention: Retention) -> list[Path]:
        runs = rows_of(self.database, _REMOVABLE, _removable(retention))
        return [folder for (run,) in runs if (folder := self.path / run).is_dir()]


def _removable(retention: Retention) -> str:
    """Return the ids of the runs that are not kept as a JSON list, the parameter of the queries above."""
    return json.dumps(sorted(retention.removable))


class WarehouseRows(FolderStore):
    """Runs and their questions in the DuckDB file."""

    def holding(self, retention: Retention) -> Holding:
        """Count runs and questions."""
        questions: dict[str, int] = {}
        if self.path.exists():
            with WarehouseFile(self.path).reading() as connection:
                rows = connection.execute(
                    "SELECT run_id, count(question_id) FROM runs LEFT JOIN questions USING (run_id) GROUP BY run_id"
                ).fetchall()
            questions = dict(rows)
        to_remove = () if retention.rows else questions.keys() & retention.removable
        counts = {"runs": len(questions), "questions": sum(questions.values())}
        return self.in_proportion(counts, {"questions": sum(questions[run] for run in to_remove)})

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
        if not self.path.exists():
            return
        draft = self.path.with_name(f"{self.path.name}.rewriting")
        with ExitStack() as stack:
            for file in (draft, draft.with_name(f"{draft.name}.wal")):
                file.unlink(missing_ok=True)  # of a process that was killed
                stack.callback(file.unlink, missing_ok=True)  # on a full disk, the draft is not finished
            connection = stack.enter_context(WarehouseFile(self.path).exclusive())
            connection.execute("CHECKPOINT")
            blocks = connection.execute(
                "SELECT free_blocks, total_blocks FROM pragma_database_size() WHERE database_name = current_database()"
            ).fetchone()
            free, total = blocks or (0, 1)
            if free < total / 4:  # not worth a copy
                return
            source = str(connection.execute("SELECT current_database()").fetchone()[0]).replace('"', '""')  # type: ignore[index]
            connection.execute("ATTACH '{}' AS rewritten".format(str(draft).replace("'", "''")))
            connection.execute(f'COPY FROM DATABASE "{source}" TO rewritten')
            connection.execute("DETACH rewritten")
            draft.replace(self.path)
