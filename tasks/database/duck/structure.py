"""The schema of a DuckDB database: tables of every schema on the search path, comments, keys, first rows."""

from typing import TYPE_CHECKING, Any

from tasks.database.engine import Structure
from tasks.database.identifiers import quoted
from tasks.database.plain import plain_row
from tasks.database.schema import Column, ForeignKey, Table

if TYPE_CHECKING:
    import duckdb

DIALECT = "duckdb"
HERE = "database_name = current_database() AND schema_name = current_schema() AND NOT internal"


def read_structure(connection: "duckdb.DuckDBPyConnection", sample_rows: int, *, views: bool) -> Structure:
    """Read tables with so many of their first rows, and keys; of a folder the tables are views.

    The connection is one of `open_restrained`.
    """
    kind, name = ("duckdb_views()", "view_name") if views else ("duckdb_tables()", "table_name")
    order = name if views else "table_oid"
    listed = connection.execute(
        f"SELECT {name}, comment FROM {kind} WHERE {HERE} ORDER BY {order}"
    ).fetchall()
    constraints = _constraints(connection) if not views else []
    tables = tuple(
        _table(connection, table, comment or "", constraints, sample_rows) for table, comment in listed
    )
    keys = tuple(
        ForeignKey(table, tuple(columns), parent, tuple(parents))
        for table, kind, columns, parent, parents in constraints
        if kind == "FOREIGN KEY"
    )
    return Structure(tables, keys)


def _constraints(connection: "duckdb.DuckDBPyConnection") -> list[Any]:
    return connection.execute(
        "SELECT table_name, constraint_type, constraint_column_names, referenced_table, referenced_column_names "
        "FROM duckdb_constraints() WHERE database_name = current_database() AND schema_name = current_schema() "
        "AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY') ORDER BY table_oid, constraint_index"
    ).fetchall()


def _table(
    connection: "duckdb.DuckDBPyConnection", name: str, comment: str, constraints: list[Any], rows: int
) -> Table:
    described = connection.execute(
        f"SELECT column_name, data_type, comment FROM duckdb_columns() WHERE {HERE} AND table_name = ? "
        "ORDER BY column_index",
        [name],
    ).fetchall()
    columns = tuple(Column(column, kind, about or "") for column, kind, about in described)
    key = next((tuple(each[2]) for each in constraints if each[0] == name and each[1] == "PRIMARY KEY"), ())
    first = connection.execute(f"SELECT * FROM {quoted(name, DIALECT)} LIMIT {rows}").fetchall()
    return Table(name, columns, key, comment).with_rows(map(plain_row, first))
