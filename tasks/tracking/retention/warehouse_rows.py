"""The warehouse: of runs that are not kept, the questions may be removed; their scores always stay."""

from pathlib import Path

from tasks.tracking.retention.kept_runs import Retention
from tasks.tracking.retention.store import Holding, Store, size_of
from tasks.tracking.warehouse.duckdb_file import WarehouseFile
from tasks.tracking.warehouse.rows import TABLES

_DRAFT = ".rewriting"


class WarehouseRows(Store):
    """Runs and their questions in the DuckDB file."""

    def __init__(self, path: Path) -> None:
        super().__init__("runs", path)
        self._file = WarehouseFile(path)

    def holding(self, retention: Retention) -> Holding:
        """Count runs and questions."""
        size = size_of(self.path)
        runs, questions, old = 0, 0, 0
        if self.path.exists():
            with self._file.reading() as connection:
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
        with self._file.writing() as connection:
            old = sorted(retention.removable)
            connection.execute(
                "UPDATE runs SET rows_removed = now() AT TIME ZONE 'UTC' WHERE run_id IN (SELECT unnest(?)) "
                "AND rows_removed IS NULL AND run_id IN (SELECT run_id FROM questions)",
                [old],
            )
            for table in TABLES:
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
        with self._file.exclusive() as connection:
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
