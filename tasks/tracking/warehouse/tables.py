"""The warehouse's tables.

A column that is named as a field of the record it belongs to (`Outcome`, `Verdict`, `StageRecord`, `Call`) is written,
read and shown by `crosscheck query`; any other is filled and read in `rows.py`. A change of a column changes `LAYOUT`.
"""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LAYOUT = 6
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
call. The columns of `runs` are the fields of `RunHeader`, and as JSON text `run` (an `EvaluationRun`) and `record` (its
`RunRecord`); `rows_removed` is when `crosscheck clean` removed the questions. `links`, `failure`, `value`, `keys`
(what answer keys say) and `opinion` (what a model thinks of the answer) are JSON text. While the run goes on,
`correct_by_variant` is empty."""


class UnknownFileError(Exception):
    """DuckDB file that is not a warehouse of this layout."""


def has_tables(connection: "DuckDBPyConnection") -> bool:
    """Return whether a file has the tables; an empty file has none.

    Raises:
        UnknownFileError: the file is not Crosscheck's, or of another layout.
    """
    tables = {row[0] for row in connection.execute("SHOW TABLES").fetchall()}
    if not tables:
        return False
    if "crosscheck_schema" not in tables:
        raise UnknownFileError("was not written by Crosscheck. Move it away.")
    ((layout,),) = connection.execute("SELECT version FROM crosscheck_schema").fetchall()
    if layout != LAYOUT:
        raise UnknownFileError(
            f"was written by another version of Crosscheck (layout {layout}; this version has {LAYOUT}). Use another "
            "working folder (--home or CROSSCHECK_HOME), or move the file away. A copy of replies.sqlite in the new "
            "folder saves paying for its replies again."
        )
    return True


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
