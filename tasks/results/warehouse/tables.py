"""The warehouse's tables and their rows: from scores to flat rows and back, without loss.

A row is a record's fields by their names, of which the table keeps those that it has a column for. Only what is named
or nested otherwise is written out here.

A column that is named as a field of the record it belongs to (`Outcome`, `Verdict`, `StageRecord`, `Call`) is written,
read and shown by `crosscheck query`; any other is filled and read here. A change of a column changes `LAYOUT`.
"""

import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from tasks.core.errors import CrosscheckError, DataError
from tasks.core.files import atomic_create
from tasks.core.outcome import Call, StageRecord, Usage
from tasks.core.wording import sentence
from tasks.database.sqlite_files import locked_folder
from tasks.results.run_record import adapter_of
from tasks.scoring.scores import QuestionScore, Verdict

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


Row = Mapping[str, Any]

TABLES_OF_A_RUN = ("questions", "candidates", "stages", "calls")
"""The tables that hold the questions of a run; `TABLES` has their columns."""

_USAGE = tuple(field.name for field in fields(Usage))


def to_rows(
    run_id: str, scores: Iterable[QuestionScore], positions: Mapping[str, int]
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of some questions by table."""
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES_OF_A_RUN}
    for score in scores:
        key = {"run_id": run_id, "question_id": score.question.id}
        rows["questions"].append(_question_row(score) | key | {"position": positions.get(score.question.id)})
        rows["candidates"].extend(row | key for row in _candidate_rows(score))
        for stage_position, stage in enumerate(score.outcome.stages):
            value = json.dumps(stage.value)
            rows["stages"].append(_row(stage) | key | {"position": stage_position, "value": value})
            rows["calls"].extend(
                _call_row(stage, call) | key | {"stage_position": stage_position, "position": position}
                for position, call in enumerate(stage.calls)
            )
    return rows


def from_rows(tables: Mapping[str, Iterable[Row]]) -> tuple[QuestionScore, ...]:
    """Return the scores of the questions whose rows are given, in the order of `questions`."""
    candidates, stages, calls = (_by_question(tables[name]) for name in ("candidates", "stages", "calls"))
    return tuple(
        _score(row, candidates[row["question_id"]], stages[row["question_id"]], calls[row["question_id"]])
        for row in tables["questions"]
    )


def _question_row(score: QuestionScore) -> dict[str, Any]:
    question = score.question
    outcome = score.outcome
    failure = outcome.failure
    return {
        **_row(score),
        **_row(question),
        **_row(outcome),
        **_verdict_row(score.final),
        "question": _utf8(question.text),
        "database": question.database_id,
        "keys": json.dumps({name: asdict(key) for name, key in score.keys.items()}),
        "opinion": json.dumps(asdict(score.opinion)) if score.opinion else None,
        "links": json.dumps({name: asdict(link) for name, link in outcome.links.items()}),
        "failure": json.dumps(asdict(failure)) if failure else None,
        "failure_kind": failure.kind if failure else None,
    }


def _candidate_rows(score: QuestionScore) -> Iterator[dict[str, Any]]:
    """Yield a row for each SQL of a question in order, then for stages that have a verdict but were not reached."""
    candidates = {candidate.stage: candidate for candidate in score.outcome.candidates}
    for position, stage in enumerate(dict.fromkeys([*candidates, *score.stages])):
        candidate, verdict = candidates.get(stage), score.stages.get(stage)
        yield {
            **(_row(candidate) if candidate else {}),
            **(_verdict_row(verdict) if verdict else {}),
            "position": position,
            "stage": stage,
            "reached": candidate is not None,
        }


def _verdict_row(verdict: Verdict) -> dict[str, Any]:
    return _row(verdict) | {"correct": list(verdict.correct.items())}


def _call_row(stage: StageRecord, call: Call) -> dict[str, Any]:
    tokens = {f"{name}_tokens": getattr(call.usage, name) for name in _USAGE}
    return _row(call) | tokens | {"stage": stage.stage, "label": stage.label, "restored": stage.restored}


def _row(record: Any) -> dict[str, Any]:
    """Return a record's fields by name, texts as UTF-8 can hold them; no error is None, so that it becomes NULL."""
    row: dict[str, Any] = {}
    for name in _names(record.__class__):
        value = getattr(record, name)
        if isinstance(value, str):
            no_error = name == "error" and not value
            value = None if no_error else _utf8(value)
        elif name == "notes":
            value = [_utf8(note) for note in value]
        row[name] = value
    return row


def _utf8(text: str) -> str:
    """Return text with question marks for halves of surrogate pairs. NUL stays: an SQL with it fails as it did."""
    return text.encode("utf-8", "replace").decode("utf-8")


@cache
def _names(record: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record))


def _by_question(rows: Iterable[Row]) -> defaultdict[str, list[Row]]:
    rows_by_question: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        rows_by_question[row["question_id"]].append(row)
    return rows_by_question


def _score(row: Row, candidates: list[Row], stages: list[Row], calls: list[Row]) -> QuestionScore:
    names = {"id": row["question_id"], "text": row["question"], "database_id": row["database"]}
    outcome = {
        "candidates": [candidate for candidate in candidates if candidate["reached"]],
        "links": json.loads(row["links"]),
        "stages": [_stage(stage, calls) for stage in stages],
        "failure": json.loads(row["failure"]) if row["failure"] else None,
    }
    nested = {
        "question": {**row, **names},
        "outcome": {**row, **outcome},
        "final": _with_error(row),
        "keys": json.loads(row["keys"]),
        "opinion": json.loads(row["opinion"]) if row["opinion"] else None,
        "stages": {
            candidate["stage"]: _with_error(candidate)
            for candidate in candidates
            if candidate["status"] is not None
        },
    }
    score: QuestionScore = adapter_of(QuestionScore).validate_python({**row, **nested})
    return score


def _stage(row: Row, calls: list[Row]) -> Row:
    stage_calls = [
        {**call, "usage": {name: call[f"{name}_tokens"] for name in _USAGE}}
        for call in calls
        if call["stage_position"] == row["position"]
    ]
    return {**_with_error(row), "value": json.loads(row["value"]), "calls": stage_calls}


def _with_error(row: Row) -> Row:
    return {**row, "error": row["error"] or ""}


LAYOUT = 7
"""Version of the tables, which each file holds; a file with another one is refused."""

_KEY = "run_id VARCHAR, question_id VARCHAR, position BIGINT"
_VERDICT = (
    "correct MAP(VARCHAR, BOOLEAN), status VARCHAR, error VARCHAR, row_count BIGINT, gold_status VARCHAR, "
    "seconds DOUBLE, gold_rows BIGINT, difference VARCHAR"
)
TABLES = {
    "runs": "run_id VARCHAR, benchmark VARCHAR, revision VARCHAR, backbone VARCHAR, pipeline VARCHAR, rule VARCHAR, "
    "status VARCHAR, started TIMESTAMP, finished TIMESTAMP, seconds DOUBLE, questions BIGINT, scored BIGINT, "
    "answered BIGINT, unanswered BIGINT, retryable BIGINT, ex DOUBLE, correct BIGINT, total BIGINT, low DOUBLE, "
    "high DOUBLE, tags MAP(VARCHAR, VARCHAR), mlflow_run_id VARCHAR, rows_removed TIMESTAMP, question_set VARCHAR, "
    "run VARCHAR, record VARCHAR",
    "questions": f"{_KEY}, database VARCHAR, difficulty VARCHAR, question VARCHAR, evidence VARCHAR, sql VARCHAR, "
    f"gold_sql VARCHAR, executable BOOLEAN, failure_kind VARCHAR, failure VARCHAR, links VARCHAR, notes VARCHAR[], "
    f"{_VERDICT}, attempts BIGINT, samples BIGINT[], keys VARCHAR, opinion VARCHAR, undecided VARCHAR[], "
    "correct_by_variant MAP(VARCHAR, BOOLEAN)",
    "candidates": f"{_KEY}, stage VARCHAR, reached BOOLEAN, sql VARCHAR, {_VERDICT}",
    "stages": f"{_KEY}, stage VARCHAR, label VARCHAR, value VARCHAR, restored BOOLEAN, notes VARCHAR[], "
    "seconds DOUBLE, error VARCHAR, replies BIGINT, unreadable BIGINT, fallback VARCHAR, skipped VARCHAR",
    "calls": f"{_KEY}, stage_position BIGINT, stage VARCHAR, label VARCHAR, restored BOOLEAN, request VARCHAR, "
    "model VARCHAR, input_tokens BIGINT, cached_input_tokens BIGINT, output_tokens BIGINT, reasoning_tokens BIGINT, "
    "cached BOOLEAN, seconds DOUBLE, retries BIGINT, parse VARCHAR, cost_usd DOUBLE, cost_source VARCHAR, "
    "from_scratch_usd DOUBLE, cache_write_tokens BIGINT, tier VARCHAR, list_usd DOUBLE, prompt_cache_usd DOUBLE",
}
"""Columns by table. A question has one row in `questions`, one in `candidates` per stage that yields a SQL (`reached`
false where there is a verdict but no candidate), one in `stages` per stage it went through, one in `calls` per model
call. The columns of `runs` are the fields of `RunHeader`, and as JSON text `record` (a `RunRecord`) and `run` (its
`PROVENANCE`); `rows_removed` is when `crosscheck clean` removed the questions. `links`, `failure`, `value`, `keys`
(what answer keys say) and `opinion` (what a model thinks of the answer) are JSON text. While the run goes on,
`correct_by_variant` is empty."""


def create_tables(connection: "DuckDBPyConnection") -> None:
    """Create the tables in an empty database."""
    for table, columns in TABLES.items():
        connection.execute(f"CREATE TABLE {table} ({columns})")
    connection.execute(f"CREATE TABLE crosscheck_schema AS SELECT {LAYOUT} AS version")


@cache
def columns_of(table: str) -> tuple[str, ...]:
    """Return the names of a table's columns."""
    import duckdb

    with duckdb.connect() as connection:
        create_tables(connection)
        return tuple(connection.table(table).columns)


# DuckDB refuses to open a file for reading that this process has open for writing.
_ONE_AT_A_TIME = threading.Lock()

_NO_EXTENSIONS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
"""DuckDB would download an extension to open another program's file."""


@dataclass(frozen=True, slots=True)
class WarehouseFile:
    """A DuckDB file with the warehouse's tables."""

    path: Path  # the file; made by the first write
    wait_s: float = 30.0  # seconds to try while another process has it

    def reading(self) -> "AbstractContextManager[DuckDBPyConnection]":
        """Open an existing file for reading."""
        return self._open(read_only=True)

    @contextmanager
    def writing(self) -> "Iterator[DuckDBPyConnection]":
        """Open the file for one transaction, which ends with the block and is undone when the block fails."""
        with self._open(read_only=False) as connection:
            connection.begin()
            yield connection
            connection.commit()

    def exclusive(self) -> "AbstractContextManager[DuckDBPyConnection]":
        """Open the file so that no other process can, without a transaction."""
        return self._open(read_only=False)

    @contextmanager
    def _open(self, *, read_only: bool) -> "Iterator[DuckDBPyConnection]":
        """Open the file, after any other connection of this process has closed, and check that its layout is ours."""
        import duckdb

        with _ONE_AT_A_TIME:
            connection = self._connect(read_only)
            try:
                self._check(connection)
                yield connection
            except duckdb.Error as error:  # a full disk, for instance
                raise DataError(f"The results warehouse {self.path} cannot be used: {error}") from error
            finally:
                connection.close()

    def _check(self, connection: "DuckDBPyConnection") -> None:
        """Refuse a file that is not Crosscheck's, or of another layout."""
        import duckdb

        try:
            ((layout,),) = connection.execute("SELECT version FROM crosscheck_schema").fetchall()
        except duckdb.CatalogException as error:
            message = f"The results warehouse {self.path} was not written by Crosscheck. Move it away."
            raise DataError(message) from error
        if layout != LAYOUT:
            raise DataError(
                f"The results warehouse {self.path} was written by another version of Crosscheck (layout {layout}; "
                f"this version has {LAYOUT}). Use another working folder (--home or CROSSCHECK_HOME), or move the file "
                "away. A copy of replies.sqlite in the new folder saves paying for its replies again."
            )

    def _connect(self, read_only: bool) -> "DuckDBPyConnection":
        """Connect, and try again for `wait_s` seconds while another process has the file."""
        import duckdb

        self.path.parent.mkdir(parents=True, exist_ok=True)
        attempts = Retrying(
            retry=retry_if_exception_type(duckdb.Error),  # as `_connect_once` raises it
            stop=stop_after_delay(self.wait_s),
            wait=wait_random_exponential(multiplier=0.02, max=1.0),
            reraise=True,
        )
        try:
            return attempts(self._connect_once, read_only)
        except duckdb.Error as error:
            holder = re.search(r"held in (.{1,500}?\(PID \d+\))", str(error))
            raise CrosscheckError(
                f"The results warehouse {self.path} is in use by {holder.group(1) if holder else 'another process'} "
                f"and was not released for {self.wait_s:g} s. Close that program (a DuckDB shell or a notebook keeps "
                "it open) and run the same command again."
            ) from error

    def _connect_once(self, read_only: bool) -> "DuckDBPyConnection":
        """Connect; raise DuckDB's error if another process has the file, and a DataError for any other problem."""
        import duckdb

        try:
            if not read_only and not self.path.exists():
                self._create()
            inode = self._inode()
            connection = duckdb.connect(str(self.path), read_only=read_only, config=_NO_EXTENSIONS)
        except (duckdb.Error, OSError) as error:
            if "Conflicting lock" in str(error):
                raise
            raise DataError(
                f"The results warehouse {self.path} cannot be opened: {sentence(str(error).strip().splitlines()[0])} "
                "If the file is damaged or not Crosscheck's, move it away with its .wal: a new one is created. "
                "MLflow still has the figures of earlier runs, and replies are kept elsewhere."
            ) from error
        if inode == self._inode():
            return connection
        connection.close()  # meanwhile `crosscheck clean` has replaced the file by a smaller one
        return self._connect_once(read_only)

    def _create(self) -> None:
        """Create a database without runs, whole or not at all: DuckDB locks a file only after it has created it."""
        import duckdb

        with locked_folder(self.path.parent):
            if self.path.exists():
                return
            self.path.with_name(f"{self.path.name}.wal").unlink(missing_ok=True)  # of a file that was removed
            with (
                atomic_create(self.path) as draft,
                duckdb.connect(str(draft), config=_NO_EXTENSIONS) as connection,
            ):
                create_tables(connection)
                connection.close()  # before the draft is renamed

    def _inode(self) -> int | None:
        return self.path.stat().st_ino if self.path.exists() else None
