"""Rows into and out of DuckDB in bulk, through Arrow: its own `executemany` takes seconds."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tasks.tracking.warehouse.rows import TABLES

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def insert_questions(
    connection: "DuckDBPyConnection", rows: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    """Insert rows of questions that the tables do not have; what a table has no column for is left out."""
    import pyarrow

    for table, new in rows.items():
        if new:
            schema = connection.table(table).limit(0).to_arrow_table().schema
            connection.register("new", pyarrow.Table.from_pylist(list(new), schema=schema))
            connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM new")
            connection.unregister("new")


def remove_questions(connection: "DuckDBPyConnection", run_id: str, ids: Sequence[str]) -> None:
    """Remove some questions of a run."""
    import pyarrow

    connection.register("ids", pyarrow.table({"id": pyarrow.array(ids, pyarrow.string())}))
    for table in TABLES:
        connection.execute(
            f"DELETE FROM {table} WHERE run_id = ? AND question_id IN (SELECT id FROM ids)", [run_id]
        )
    connection.unregister("ids")


def remove_run(connection: "DuckDBPyConnection", run_id: str) -> None:
    """Remove all questions of a run."""
    for table in TABLES:
        connection.execute(f"DELETE FROM {table} WHERE run_id = ?", [run_id])


def read_questions(connection: "DuckDBPyConnection", run_id: str) -> dict[str, list[dict[str, Any]]]:
    """Read all rows of a run by table; questions in benchmark order where it is known, else by id."""
    rows = {}
    for table in TABLES:
        by_id = " NULLS LAST, TRY_CAST(question_id AS BIGINT), question_id" if table == "questions" else ""
        cursor = connection.execute(
            f"SELECT * FROM {table} WHERE run_id = ? ORDER BY position{by_id}", [run_id]
        )
        names = [column[0] for column in cursor.description or ()]
        rows[table] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return rows
