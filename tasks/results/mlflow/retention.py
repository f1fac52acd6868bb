"""Traces and artifacts of MLflow runs; the runs themselves, with parameters, metrics and tags, always stay."""

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from tasks.results.mlflow.store import Store as MlflowStore
from tasks.results.retention import Holding, Retention, SqliteStore, Store, opened, size_of

_TRACES_AT_ONCE = 500
_TRACE_TABLES = ("trace_info", "trace_tags", "trace_request_metadata", "spans", "assessments")
_REMOVABLE = "SELECT run_uuid FROM tags WHERE key = 'crosscheck_run_id' AND value IN removable"
_TRACES = f"SELECT request_id FROM trace_request_metadata WHERE key = 'mlflow.sourceRun' AND value IN ({_REMOVABLE})"


class Traces(SqliteStore):
    """Traces in MLflow's SQLite file."""

    def holding(self, retention: Retention) -> Holding:
        """Count runs and traces."""
        if not self.path.exists():
            return Holding(self.name, self.path, counts={"runs": 0, "traces": 0})
        with opened(self.path) as connection:
            _enter(connection, retention)
            runs, traces, removable = (
                connection.execute(f"SELECT count(*) FROM {rows}").fetchone()[0]
                for rows in ("runs", "trace_info", f"({_TRACES})")
            )
        frees = self.freed(dict.fromkeys(_TRACE_TABLES, removable / traces if traces else 0))
        counts = {"runs": runs, "traces": traces}
        return Holding(self.name, self.path, size_of(self.path), counts, {"traces": removable}, frees)

    def remove(self, retention: Retention) -> None:
        """Remove the traces of runs that are not kept, through MLflow."""
        if not self.path.exists():
            return
        with opened(self.path) as connection:
            _enter(connection, retention)
            found = connection.execute(
                f"SELECT experiment_id, request_id FROM trace_info WHERE request_id IN ({_TRACES}) ORDER BY 1"
            ).fetchall()
        if not found:
            return
        client = MlflowStore(f"sqlite:///{self.path}").client()
        for experiment in dict.fromkeys(row[0] for row in found):
            ids = [trace for owner, trace in found if owner == experiment]
            for start in range(0, len(ids), _TRACES_AT_ONCE):
                client.delete_traces(str(experiment), trace_ids=ids[start : start + _TRACES_AT_ONCE])


@dataclass(frozen=True)
class Artifacts(Store):
    """Artifacts: a folder for each MLflow run."""

    database: Path  # MLflow's SQLite file, which has the runs

    def holding(self, retention: Retention) -> Holding:
        """Count the folders."""
        folders = [folder for folder in self.path.iterdir() if folder.is_dir()] if self.path.is_dir() else []
        old = self._removable(retention)
        return Holding(
            self.name,
            self.path,
            sum(map(size_of, folders)),
            {"runs": len(folders)},
            {"runs": len(old)},
            sum(map(size_of, old)),
        )

    def remove(self, retention: Retention) -> None:
        """Remove the folders of runs that are not kept."""
        for folder in self._removable(retention):
            shutil.rmtree(folder, ignore_errors=True)  # another process may remove the same

    def _removable(self, retention: Retention) -> list[Path]:
        if not self.database.exists():
            return []
        with opened(self.database) as connection:
            _enter(connection, retention)
            folders = [self.path / run for (run,) in connection.execute(_REMOVABLE)]
        return [folder for folder in folders if folder.is_dir()]


def _enter(connection: sqlite3.Connection, retention: Retention) -> None:
    """Make the ids of the runs that are not kept a table."""
    connection.execute("CREATE TEMP TABLE removable (run_id TEXT PRIMARY KEY)")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO removable VALUES (?)", [(run,) for run in retention.removable])
    connection.execute("COMMIT")
