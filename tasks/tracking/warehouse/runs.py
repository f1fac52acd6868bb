"""The results warehouse: every question, stage and call of every run, in one DuckDB file."""

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.core.errors import DataError, did_you_mean
from tasks.scoring.report import Opinion, QuestionScore, Report
from tasks.tracking.evaluation import FINISHED, EvaluationRun, Unfinished, as_json, run_from_json
from tasks.tracking.warehouse.bulk import insert_questions, read_questions, remove_questions, remove_run
from tasks.tracking.warehouse.duckdb_file import WarehouseFile
from tasks.tracking.warehouse.rows import from_rows, to_rows
from tasks.tracking.warehouse.stored import RunHeader, StoredRun
from tasks.tracking.warehouse.tables import SET_ASKED

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

QUESTIONS_AT_A_TIME = 250
"""Questions whose rows are in memory at a time: of nine stages and eleven calls each, they take 20 KB a question."""


class Warehouse:
    """Reads and writes the results of runs. Every write is one transaction.

    Args:
        path: the DuckDB file; made by the first write.
        wait_s: seconds to try while another process has it.

    Raises:
        WarehouseBusyError: by every method, when another process has it for longer.
        DataError: by every method, when another version wrote the file, or it is not Crosscheck's.
    """

    def __init__(self, path: Path, wait_s: float = 30.0) -> None:
        self._file = WarehouseFile(path, wait_s)

    def start(self, run: EvaluationRun) -> None:
        """Enter a run as running; questions that were written under its id stay."""
        with self._file.writing() as connection:
            _enter(connection, run)

    def append_questions(self, run_id: str, scores: Iterable[QuestionScore]) -> None:
        """Write questions while the run goes on; those that are there already are replaced."""
        new = tuple(scores)
        with self._file.writing() as connection:
            remove_questions(connection, run_id, [score.question.id for score in new])
            _insert(connection, run_id, new, {})

    def finish(
        self, run: EvaluationRun, report: Report, summary: Mapping[str, Any], status: str = "complete"
    ) -> None:
        """Write all that a run found, in place of what was written while it went on; `start` is not needed."""
        positions = {row.question.id: position for position, row in enumerate(report.rows)}
        with self._file.writing() as connection:
            _enter(connection, run)
            remove_run(connection, run.run_id)
            _insert(connection, run.run_id, report.rows, positions)
            _leave(connection, run.run_id, report, summary, status)

    def add_opinions(self, run_id: str, opinions: Mapping[str, Opinion], facts: Mapping[str, Any]) -> None:
        """Add a model's opinions, by question id, on the answers of a run, and `facts` as "judge" to its summary.

        Earlier ones on the same questions are replaced.
        """
        with self._file.writing() as connection:
            for question_id, opinion in opinions.items():
                connection.execute(
                    "UPDATE questions SET opinion = ? WHERE run_id = ? AND question_id = ?",
                    [json.dumps(asdict(opinion)), run_id, question_id],
                )
            found = connection.execute("SELECT summary FROM runs WHERE run_id = ?", [run_id]).fetchone()
            summary = json.loads(found[0]) if found and found[0] else {}
            connection.execute(
                "UPDATE runs SET summary = ? WHERE run_id = ?",
                [json.dumps(summary | {"judge": dict(facts)}), run_id],
            )

    def note(self, run_id: str, facts: Mapping[str, Any]) -> None:
        """Write facts as the summary of a run that goes on; `finish` replaces it."""
        with self._file.writing() as connection:
            connection.execute("UPDATE runs SET summary = ? WHERE run_id = ?", [json.dumps(facts), run_id])

    def abandon(self, run_id: str, status: Unfinished) -> None:
        """Note that a run ended without a report; its questions stay, and so does one that did end with one."""
        with self._file.writing() as connection:
            connection.execute(
                "UPDATE runs SET status = ?, finished = ? WHERE run_id = ? AND status = 'running'",
                [status, _now(), run_id],
            )

    def runs(self) -> tuple[RunHeader, ...]:
        """List the runs, newest first."""
        if not self._file.path.exists():
            return ()
        names = [
            each.name for each in fields(RunHeader) if each.name not in ("mlflow_run_id", "asked", "failures")
        ]
        with self._file.reading() as connection:
            rows = connection.execute(
                f"SELECT {', '.join(names)}, json_extract_string(summary, '$.mlflow.run_id'), "
                "coalesce(asked, run_id), CAST(json_extract(summary, '$.failures') AS VARCHAR) FROM runs "
                "ORDER BY started DESC, run_id DESC"
            ).fetchall()
        return tuple(RunHeader(*row) for row in rows)

    def finished_runs(self) -> tuple[StoredRun, ...]:
        """Read the finished runs without their questions, newest first."""
        return self._without_questions(f"status IN {FINISHED}")

    def recorded(self, sha256: str) -> tuple[StoredRun, ...]:
        """Read the runs, also unfinished ones, that wrote the recording with this sha256, without their questions."""
        return self._without_questions("json_extract_string(summary, '$.recorded.sha256') = ?", sha256)

    def _without_questions(self, condition: str, *values: str) -> tuple[StoredRun, ...]:
        if not self._file.path.exists():
            return ()
        with self._file.reading() as connection:
            rows = connection.execute(
                f"SELECT run, status, summary FROM runs WHERE {condition} ORDER BY started DESC, run_id DESC",
                values,
            ).fetchall()
        return tuple(
            StoredRun(run_from_json(run), status, json.loads(summary) if summary else {}, ())
            for run, status, summary in rows
        )

    def question_ids(self, run_id: str) -> tuple[str, ...]:
        """Return the ids of a run's questions in their order; () where they were removed."""
        with self._file.reading() as connection:
            found = connection.execute(
                "SELECT question_id FROM questions WHERE run_id = ? ORDER BY position", [run_id]
            ).fetchall()
        return tuple(str(row[0]) for row in found)

    def same_answers(self, run: EvaluationRun, rows: Sequence[QuestionScore]) -> str:
        """Return the id of the latest complete run with the settings and answers of this one, "" if there is none.

        Args:
            run: this one.
            rows: its questions.
        """
        if not self._file.path.exists():
            return ""
        names = (run.run_id, run.benchmark, run.backbone, run.pipeline, run.revision, len(rows))
        answers = {row.question.id: row.outcome.sql for row in rows}
        with self._file.reading() as connection:
            found = connection.execute(
                "SELECT run_id, run FROM runs WHERE run_id <> ? AND benchmark = ? AND backbone = ? AND pipeline = ? "
                "AND revision = ? AND questions = ? AND status = 'complete' ORDER BY started DESC LIMIT 10",
                list(names),
            ).fetchall()
            for run_id, content in found:
                if _asked_alike(run, run_from_json(content)):
                    theirs = connection.execute(
                        "SELECT question_id, sql FROM questions WHERE run_id = ?", [run_id]
                    ).fetchall()
                    if dict(theirs) == answers:
                        return str(run_id)
        return ""

    def last_sampled(self, like: EvaluationRun) -> StoredRun | None:
        """Read the finished run with the highest sampling (`attempt`) of the same benchmark, backbone and pipeline.

        Of several, the latest; without its questions; None where the model was sampled once. A run that was interrupted
        does not count: the same command continues with the sampling that it began. One whose questions were removed
        does: the reply cache may hold what it was answered.
        """
        names = (like.benchmark, like.backbone, like.pipeline)
        alike = f"status IN {FINISHED} AND benchmark = ? AND backbone = ? AND pipeline = ?"
        runs = self._without_questions(f"{alike} AND tags['attempt'] IS NOT NULL", *names)
        return max(runs, key=lambda stored: int(stored.run.tags["attempt"]), default=None)

    def read_run(self, run_id: str) -> StoredRun:
        """Read one run with all its questions.

        Raises:
            DataError: there is no such run, or its questions were removed.
        """
        path = self._file.path
        if not path.exists():
            raise DataError(f'There is no run "{run_id}": {path} has not been written yet.')
        with self._file.reading() as connection:
            found = connection.execute(
                "SELECT run, status, summary, rows_removed FROM runs WHERE run_id = ?", [run_id]
            ).fetchone()
            if found is None:
                known = [row[0] for row in connection.execute("SELECT run_id FROM runs").fetchall()]
                raise DataError(f'There is no run "{run_id}" in {path}. {did_you_mean(run_id, known)}')
            rows = read_questions(connection, run_id)
        run, status, summary, removed = found
        if removed:
            raise DataError(
                f'The questions of run "{run_id}" were removed by "crosscheck clean --rows" on {removed:%Y-%m-%d}. Its '
                'scores are in "crosscheck runs" and in MLflow; the command that made it makes it again, and what was '
                "paid for is reused."
            )
        return StoredRun(run_from_json(run), status, json.loads(summary) if summary else {}, from_rows(rows))


def _asked_alike(a: EvaluationRun, b: EvaluationRun) -> bool:
    """Return whether two runs have the same settings, questions, golds and tags that change what a score means."""
    names = ("settings", "question_sha256", "golds_sha256", "why_unranked", "engine", "databases")
    return all(getattr(a, name) == getattr(b, name) for name in names)


def _insert(
    connection: "DuckDBPyConnection",
    run_id: str,
    scores: Sequence[QuestionScore],
    positions: Mapping[str, int],
) -> None:
    for first in range(0, len(scores), QUESTIONS_AT_A_TIME):
        rows = to_rows(run_id, scores[first : first + QUESTIONS_AT_A_TIME], positions)
        insert_questions(connection, rows)


def _enter(connection: "DuckDBPyConnection", run: EvaluationRun) -> None:
    connection.execute("DELETE FROM runs WHERE run_id = ?", [run.run_id])
    names = (run.run_id, run.benchmark, run.backbone, run.pipeline, run.revision, run.rule)
    connection.execute(
        "INSERT INTO runs (run_id, benchmark, backbone, pipeline, revision, rule, started, status, run, tags) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, 'running', ?, MAP(?::VARCHAR[], ?::VARCHAR[]))",
        [*names, _utc(run.started), as_json(run), list(run.tags), list(run.tags.values())],
    )


def _leave(
    connection: "DuckDBPyConnection", run_id: str, report: Report, summary: Mapping[str, Any], status: str
) -> None:
    counts = (report.questions, report.scored, report.answered, report.score.correct, report.score.total)
    connection.execute(
        "UPDATE runs SET status = ?, finished = ?, seconds = ?, questions = ?, scored = ?, answered = ?, "
        "ex_correct = ?, ex_total = ?, summary = ? WHERE run_id = ?",
        [status, _now(), summary.get("seconds"), *counts, json.dumps(summary), run_id],
    )
    connection.execute(f"{SET_ASKED} WHERE run_id = ?", [run_id])


def _now() -> datetime.datetime:
    return _utc(datetime.datetime.now(datetime.UTC))


def _utc(moment: datetime.datetime) -> datetime.datetime:
    """Return a moment as DuckDB's TIMESTAMP, in UTC: its time zones need a further package to read."""
    return moment.astimezone(datetime.UTC).replace(tzinfo=None)
