"""The results warehouse: every question, stage and call of every run, in one DuckDB file; how a person names a run."""

import datetime
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.core.errors import DataError, did_you_mean, similar_name
from tasks.core.wording import and_more, counted, percent_and_counts, storable
from tasks.documents.model import Table
from tasks.results.run_record import (
    FINISHED,
    PROVENANCE,
    RunHeader,
    RunRecord,
    Unfinished,
    adapter_of,
    read_record,
)
from tasks.results.warehouse.tables import TABLES_OF_A_RUN, WarehouseFile, from_rows, to_rows
from tasks.scoring.scores import Opinion, QuestionScore
from tasks.scoring.variants import Variant, find_variants

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def read_questions(
    connection: "DuckDBPyConnection", run_id: str, question_id: str | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Read the rows of a run by table; questions in benchmark order where it is known, else by id."""
    rows = {}
    for table in TABLES_OF_A_RUN:
        order = "position"
        if table == "questions":
            order = "position NULLS LAST, TRY_CAST(question_id AS BIGINT), question_id"
        cursor = connection.execute(
            f"SELECT * FROM {table} WHERE run_id = ? AND question_id = coalesce(?, question_id) ORDER BY {order}",
            [run_id, question_id],
        )
        names = [column[0] for column in cursor.description or ()]
        rows[table] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return rows


_HEADER = tuple(RunHeader.model_fields)
ASKED_ALIKE = ("settings", "question_sha256", "keys", "why_unranked", "engine", "databases")
"""What two runs share that asked the same questions in the same way and give their scores the same meaning."""
QUESTIONS_AT_A_TIME = 250
"""Questions whose rows are in memory at a time: of nine stages and eleven calls each, they take 20 KB a question."""


class Warehouse:
    """Reads and writes the results of runs in a `WarehouseFile`. Every write is one transaction."""

    def __init__(self, path: Path, wait_s: float = 30.0) -> None:
        self._file = WarehouseFile(path, wait_s)

    def start(self, run: RunRecord) -> None:
        """Enter a run as running; questions that were written under its id stay."""
        with self._file.writing() as connection:
            _enter(connection, run)

    def append_questions(self, run: RunRecord, scores: Iterable[QuestionScore]) -> None:
        """Write questions while the run goes on; those that are there already are replaced."""
        new = tuple(scores)
        ids = [score.question.id for score in new]
        with self._file.writing() as connection:
            for table in TABLES_OF_A_RUN:
                connection.execute(
                    f"DELETE FROM {table} WHERE run_id = ? AND question_id IN (SELECT unnest(?::VARCHAR[]))",
                    [run.run_id, ids],
                )
            _insert(connection, run, new, positions={}, variants={})

    def finish(self, record: RunRecord) -> None:
        """Write all that a run found, in place of what was written while it went on; `start` is not needed."""
        positions = {row.question.id: position for position, row in enumerate(record.rows)}
        benchmark = record.settings_of("benchmark")
        with self._file.writing() as connection:
            _enter(connection, record)
            for table in TABLES_OF_A_RUN:
                connection.execute(f"DELETE FROM {table} WHERE run_id = ?", [record.run_id])
            _insert(connection, record, record.rows, positions, find_variants(benchmark, record.rows))

    def add_opinions(self, run_id: str, opinions: Mapping[str, Opinion], facts: Mapping[str, Any]) -> None:
        """Add a model's opinions, by question id, on the answers of a run, and `facts` as "judge" to its record.

        Earlier ones on the same questions are replaced.
        """
        with self._file.writing() as connection:
            for question_id, opinion in opinions.items():
                connection.execute(
                    "UPDATE questions SET opinion = ? WHERE run_id = ? AND question_id = ?",
                    [json.dumps(asdict(opinion)), run_id, question_id],
                )
            # `_update` merges objects: without this, facts of an earlier judge would stay
            _update(connection, run_id, {"judge": None})
            _update(connection, run_id, {"judge": dict(facts)})

    def note(self, run_id: str, facts: Mapping[str, Any]) -> None:
        """Write fields of the record of a run that goes on; `finish` replaces it."""
        with self._file.writing() as connection:
            _update(connection, run_id, facts)

    def abandon(self, run_id: str, status: Unfinished) -> bool:
        """Note that a run ended without a report; its questions stay. A run that has already ended is left as it is.

        Return whether it had not ended.
        """
        ended = datetime.datetime.now(datetime.UTC)
        with self._file.writing() as connection:
            changed = connection.execute(
                "UPDATE runs SET status = ?, finished = ? WHERE run_id = ? AND status = 'running' RETURNING run_id",
                [status, _utc(ended), run_id],
            ).fetchall()
            if changed:
                _update(connection, run_id, {"status": status, "finished": ended.isoformat()})
        return bool(changed)

    def runs(self) -> tuple[RunHeader, ...]:
        """List the runs, newest first."""
        rows = self._rows(f"SELECT {', '.join(_HEADER)} FROM runs ORDER BY started DESC, run_id DESC")
        return tuple(RunHeader.model_validate(dict(zip(_HEADER, row, strict=True))) for row in rows)

    def settings_of_runs(self, benchmark: str, backbone: str, pipeline: str) -> list[dict[str, Any]]:
        """Return the different settings of backbone and pipeline in the finished runs of these names."""
        parts = ", ".join(
            f"'{kind}', json_extract(run, '$.settings.{kind}')" for kind in ("backbone", "pipeline")
        )
        rows = self._rows(
            f"SELECT DISTINCT json_object({parts})::VARCHAR FROM runs "
            f"WHERE status IN {FINISHED} AND benchmark = ? AND backbone = ? AND pipeline = ?",
            *(benchmark, backbone, pipeline),
        )
        return [json.loads(row[0]) for row in rows]

    def finished_runs(self) -> tuple[RunRecord, ...]:
        """Read the finished runs without their questions, newest first."""
        return self._without_questions(f"status IN {FINISHED}")

    def record_of(self, run_id: str) -> RunRecord | None:
        """Read the record of a run; None if it is not there."""
        return next(iter(self._without_questions("run_id = ?", run_id)), None)

    def tables_of(self, run_id: str) -> tuple[Table, ...]:
        """Return what the metrics of a run add to `--details`; () of a run that an earlier release made."""
        rows = self._rows("SELECT coalesce(run -> 'tables', '[]') FROM runs WHERE run_id = ?", run_id)
        tables: tuple[Table, ...] = adapter_of(tuple[Table, ...]).validate_json(rows[0][0] if rows else "[]")
        return tables

    def least_paid(self, run_id: str) -> float:
        """Return the cost of a run's calls written so far, in US dollars; those without a price count 0."""
        paid = "SELECT sum(cost_usd) FROM calls WHERE run_id = ? AND NOT restored AND NOT cached"
        return float(sum(usd or 0 for (usd,) in self._rows(paid, run_id)))

    def recorded(self, sha256: str) -> tuple[RunRecord, ...]:
        """Read the runs, also unfinished ones, that wrote the recording with this sha256, without their questions."""
        return self._without_questions("json_extract_string(record, '$.recorded.sha256') = ?", sha256)

    def _without_questions(self, condition: str, *values: str) -> tuple[RunRecord, ...]:
        query = f"SELECT run, record FROM runs WHERE {condition} ORDER BY started DESC, run_id DESC"
        return tuple(_record(*row) for row in self._rows(query, *values))

    def _rows(self, query: str, *values: object) -> list[Any]:
        """Return the rows of a query; none where nothing has been written yet."""
        if not self._file.path.exists():
            return []
        with self._file.reading() as connection:
            return connection.execute(query, values).fetchall()

    def question_ids(self, run_id: str) -> tuple[str, ...]:
        """Return the ids of a run's questions in their order; () where they were removed."""
        rows = self._rows("SELECT question_id FROM questions WHERE run_id = ? ORDER BY position", run_id)
        return tuple(str(row[0]) for row in rows)

    def right_answers(
        self, run_ids: Collection[str], rule: str, variant: str = ""
    ) -> dict[str, dict[str, bool]]:
        """Return, by run and question, whether the answer is right by a rule, or by a score variant.

        Runs whose questions were removed are absent, and so are questions that the variant does not count.
        """
        verdict = "correct_by_variant[?]" if variant else "coalesce(correct[?], false)"
        rows = self._rows(
            f"SELECT run_id, question_id, {verdict} AS verdict FROM questions WHERE executable "
            "AND verdict IS NOT NULL AND run_id IN (SELECT unnest(?::VARCHAR[]))",
            *(variant or rule, list(run_ids)),
        )
        rights: dict[str, dict[str, bool]] = {}
        for run_id, question_id, right in rows:
            rights.setdefault(run_id, {})[question_id] = bool(right)
        return rights

    def answers_to(self, question_id: str, run: RunRecord) -> list[tuple[str, str | None, bool]]:
        """Return run, SQL and whether it is right by the rule of `run`, for a question in other finished runs.

        They have the benchmark and revision of `run`; newest first.
        """
        return self._rows(
            "SELECT run_id, sql, coalesce(questions.correct[?], false) FROM questions JOIN runs USING (run_id) "
            "WHERE question_id = ? AND executable AND run_id <> ? AND benchmark = ? AND revision = ? "
            f"AND runs.status IN {FINISHED} ORDER BY started DESC, run_id DESC",
            *(run.rule, question_id, run.run_id, run.benchmark, run.revision),
        )

    def same_answers(self, run: RunRecord, rows: Sequence[QuestionScore]) -> str:
        """Return the id of the latest complete run with the settings and answers of this one, "" if there is none."""
        runs = self._rows(
            "SELECT run_id, run, record FROM runs WHERE run_id <> ? AND benchmark = ? AND backbone = ? AND "
            "pipeline = ? AND revision = ? AND questions = ? AND status = 'complete' "
            "ORDER BY started DESC LIMIT 10",
            *(run.run_id, run.benchmark, run.backbone, run.pipeline, run.revision, len(rows)),
        )
        answers = {row.question.id: row.outcome.sql for row in rows}
        for run_id, header, record in runs:
            earlier = _record(header, record)
            same_settings = all(getattr(run, name) == getattr(earlier, name) for name in ASKED_ALIKE)
            if same_settings:
                stored = self._rows("SELECT question_id, sql FROM questions WHERE run_id = ?", run_id)
                if dict(stored) == answers:
                    return str(run_id)
        return ""

    def verdicts_before(self, run: RunRecord) -> dict[str, bool]:
        """Return whether each answer was right in the last finished run of the same kind, by question id; {} of none.

        It has the same benchmark, revision, backbone, pipeline and rule; the set of its questions may be another.
        """
        rows = self._rows(
            "SELECT question_id, correct[?] FROM questions WHERE run_id = (SELECT run_id FROM runs "
            "WHERE run_id <> ? AND benchmark = ? AND revision = ? AND backbone = ? AND pipeline = ? AND rule = ? "
            f"AND status IN {FINISHED} AND rows_removed IS NULL ORDER BY started DESC LIMIT 1)",
            *(run.rule, run.run_id, run.benchmark, run.revision, run.backbone, run.pipeline, run.rule),
        )
        return {str(name): right for name, right in rows if right is not None}

    def with_inputs(self, digest: str) -> tuple[RunRecord, ...]:
        """Read the finished runs of these inputs (`RunRecord.inputs`), without their questions, newest first."""
        where = f"status IN {FINISHED} AND rows_removed IS NULL AND json_extract_string(run, '$.inputs') = ?"
        return self._without_questions(where, digest)

    def last_sampled(self, like: RunRecord) -> RunRecord | None:
        """Read the finished run of the same benchmark, backbone and pipeline with the highest `attempt`, if any has it.

        Each fresh re-run samples the model once more; its attempt is the number of that sampling. Of several, the
        latest is read, without its questions. An interrupted run is no candidate: the same command continues its
        sampling. A run whose questions were removed is one: the reply cache may still have its replies.
        """
        names = (like.benchmark, like.backbone, like.pipeline)
        where = f"status IN {FINISHED} AND benchmark = ? AND backbone = ? AND pipeline = ?"
        runs = self._without_questions(f"{where} AND tags['attempt'] IS NOT NULL", *names)
        return max(runs, key=lambda run: int(run.tags["attempt"]), default=None)

    def read_run(self, run_id: str, question_id: str | None = None) -> RunRecord:
        """Read one run with all its questions, or with one of them; if it lacks that one, with all, to name them."""
        path = self._file.path
        if not path.exists():
            raise DataError(f'There is no run "{run_id}": {path} has not been written yet.')
        with self._file.reading() as connection:
            query = "SELECT run, record, rows_removed FROM runs WHERE run_id = ?"
            row = connection.execute(query, [run_id]).fetchone()
            if row is None:
                ids = [other for (other,) in connection.execute("SELECT run_id FROM runs").fetchall()]
                raise DataError(f'There is no run "{run_id}" in {path}. {did_you_mean(run_id, ids)}')
            rows = read_questions(connection, run_id, question_id)
            if question_id is not None and not rows["questions"]:
                rows = read_questions(connection, run_id)
        run, record, removed = row
        if removed:
            raise DataError(
                f'The questions of run "{run_id}" were removed by "crosscheck clean --rows" on {removed:%Y-%m-%d}. Its '
                'scores are in "crosscheck runs" and in MLflow; the command that made it makes it again, and what was '
                "paid for is reused."
            )
        return _record(run, record, from_rows(rows))


def _record(run: str, record: str, rows: tuple[QuestionScore, ...] = ()) -> RunRecord:
    """Read a record from its two columns: `run` has what its JSON does not."""
    provenance = json.loads(run)
    beside = {name: provenance[name] for name in PROVENANCE if name in provenance}
    return read_record(record).model_copy(update={**beside, "rows": rows})


def _insert(
    connection: "DuckDBPyConnection",
    run: RunRecord,
    scores: Sequence[QuestionScore],
    positions: Mapping[str, int],
    variants: Mapping[str, Variant],
) -> None:
    """Insert questions that the tables do not have; what a table has no column for is left out."""
    import pyarrow

    for first in range(0, len(scores), QUESTIONS_AT_A_TIME):
        chunk = scores[first : first + QUESTIONS_AT_A_TIME]
        rows = to_rows(run.run_id, chunk, positions)
        for row, score in zip(rows["questions"], chunk, strict=True):
            applicable = variants.items() if score.executable else ()
            row["correct_by_variant"] = [
                (name, variant.judge(score, run.rule)) for name, variant in applicable
            ]
        for table, new in rows.items():
            if new:
                schema = connection.table(table).limit(0).to_arrow_table().schema
                connection.register("new", pyarrow.Table.from_pylist(new, schema=schema))
                connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM new")
                connection.unregister("new")


def _enter(connection: "DuckDBPyConnection", record: RunRecord) -> None:
    connection.execute("DELETE FROM runs WHERE run_id = ?", [record.run_id])
    values = record.model_dump(include=set(_HEADER)) | {
        "started": _utc(record.started),
        "finished": _utc(record.finished) if record.finished else None,
        "run": json.dumps({name: getattr(record, name) for name in (*PROVENANCE, "tables")}, default=asdict),
        "record": record.model_dump_json(),
    }
    tags = values.pop("tags")
    connection.execute(
        f"INSERT INTO runs ({', '.join(values)}, tags) "
        f"VALUES ({', '.join('?' * len(values))}, MAP(?::VARCHAR[], ?::VARCHAR[]))",
        [*values.values(), list(tags), list(tags.values())],
    )


def _update(connection: "DuckDBPyConnection", run_id: str, facts: Mapping[str, Any]) -> None:
    connection.execute(
        "UPDATE runs SET record = json_merge_patch(record, ?) WHERE run_id = ?",
        [storable(json.dumps(facts, ensure_ascii=False)), run_id],
    )


def _utc(moment: datetime.datetime) -> datetime.datetime:
    """Return a moment as DuckDB's TIMESTAMP, in UTC: its time zones need a further package to read."""
    return moment.astimezone(datetime.UTC).replace(tzinfo=None)


LATEST = re.compile(r"latest(?:~(\d+))?")
MAX_LISTED = 5


def find_run(reference: str, runs: Sequence[RunHeader]) -> RunHeader:
    """Return the run that a person means, of those that there are, newest first.

    The reference is Crosscheck's id of a run or MLflow's, or the beginning of either; or "latest", "latest~1", ...: the
    last run that was finished, the one before it, ...
    """
    if not runs:
        raise DataError(
            f'There is no run "{reference}": this working folder has none yet. Run "crosscheck evaluate", or name '
            "another folder with --home or CROSSCHECK_HOME."
        )
    if latest := LATEST.fullmatch(reference):
        return _latest(int(latest[1] or 0), reference, runs)
    if exact := [run for run in runs if reference in (run.run_id, run.mlflow_run_id)]:
        return exact[0]
    meant = [
        run
        for run in runs
        if reference and (run.run_id.startswith(reference) or (run.mlflow_run_id or "").startswith(reference))
    ]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise DataError(
            f'"{reference}" is the beginning of {len(meant)} runs:{_listed(meant)}\nWrite more of its id.'
        )
    hint = similar_name(reference, [run.run_id for run in runs])
    raise DataError(
        f'There is no run "{reference}". {f"{hint} " if hint else ""}The latest runs are:{_listed(runs)}\n'
        '"crosscheck runs" lists all of them; "latest" and "latest~1" name the last two that were finished.'
    )


def previous_run(current: RunHeader, runs: Sequence[RunHeader]) -> str:
    """Return the id of the previous finished run that a run is compared with, "" if there is none.

    That is the run that was re-run; else the last one of the same backbone and pipeline; else the last one. It has the
    same benchmark, questions and rule, and its questions are in the warehouse. Runs are given newest first; a run that
    is not among them is newer than all.
    """
    ids = [run.run_id for run in runs]
    earlier = runs[ids.index(current.run_id) + 1 :] if current.run_id in ids else runs
    comparable = comparable_runs(current, earlier)
    parent = current.tags.get("parent_run_id")
    # False before True: the parent first, then runs of the same combination
    comparable.sort(key=lambda run: (run.run_id != parent, run.combination != current.combination))
    return comparable[0].run_id if comparable else ""


def comparable_runs(current: RunHeader, runs: Sequence[RunHeader]) -> list[RunHeader]:
    """Return the other finished runs with the benchmark, questions and rule of a run; their questions are there."""
    names = ("benchmark", "revision", "question_set", "rule")
    return [
        run
        for run in runs
        if run.is_finished
        and not run.rows_removed
        and run.run_id != current.run_id
        and all(getattr(run, name) == getattr(current, name) for name in names)
    ]


def run_line(run: RunHeader) -> str:
    """Describe a run in one line: its id, what it evaluated, how it ended and what it scored."""
    score = f", EX {percent_and_counts(run.accuracy)}" if run.accuracy else ""
    status = "" if run.status == "complete" else f", {run.status}"
    return f"{run.run_id}  {run.benchmark}: {run.backbone} | {run.pipeline}{score}{status}"


def _latest(back: int, reference: str, runs: Sequence[RunHeader]) -> RunHeader:
    """Return the finished run that is `back` runs older than the latest (0); runs are given newest first."""
    finished = [run for run in runs if run.is_finished]
    if back < len(finished):
        return finished[back]
    last = f', so "latest~{len(finished) - 1}" is the oldest' if finished else ""
    count = counted(len(finished), "run")
    raise DataError(
        f'There is no run "{reference}": {count} finished so far{last}. "crosscheck runs" lists all runs.'
    )


def _listed(runs: Sequence[RunHeader]) -> str:
    lines = filter(None, (*map(run_line, runs[:MAX_LISTED]), and_more(runs, MAX_LISTED)))
    return "".join(f"\n  {line}" for line in lines)
