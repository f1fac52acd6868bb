"""The schema of a MySQL or MariaDB database: tables, comments, keys, first rows."""

from itertools import groupby
from typing import Any

from tasks.database.engine import Structure
from tasks.database.identifiers import quoted
from tasks.database.plain import plain_row
from tasks.database.schema import Column, ForeignKey, Table

DIALECT = "mysql"

# by name: create_time has whole seconds and is new after ALTER, so copies of one database would be read in two orders
_TABLES = """
SELECT table_name, table_comment FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' ORDER BY table_name
"""
_COLUMNS = """
SELECT table_name, column_name, column_type, column_comment FROM information_schema.columns
WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position
"""
_KEYS = """
SELECT table_name, constraint_name, column_name, referenced_table_name, referenced_column_name
FROM information_schema.key_column_usage
WHERE table_schema = DATABASE() AND (constraint_name = 'PRIMARY' OR referenced_table_schema = DATABASE())
ORDER BY table_name, constraint_name, ordinal_position
"""


def read_structure(connection: Any, sample_rows: int) -> Structure:
    """Read tables with so many of their first rows, in the table's own order, and keys.

    The connection is one of `open_reading`, which gives plain values.
    """
    columns: dict[str, list[Column]] = {}
    for table, name, kind, comment in rows_of(connection, _COLUMNS):
        columns.setdefault(table, []).append(Column(name, kind, comment or ""))
    primary: dict[str, tuple[str, ...]] = {}
    foreign = []
    for (table, constraint), group in groupby(rows_of(connection, _KEYS), key=lambda row: (row[0], row[1])):
        members = list(group)
        own = tuple(row[2] for row in members)
        if constraint == "PRIMARY":
            primary[table] = own
        else:
            foreign.append(ForeignKey(table, own, members[0][3], tuple(row[4] for row in members)))
    tables = (
        Table(name, tuple(columns.get(name, ())), primary.get(name, ()), comment or "")
        for name, comment in rows_of(connection, _TABLES)
    )
    sampled = (table.with_rows(_first_rows(connection, table.name, sample_rows)) for table in tables)
    return Structure(tuple(sampled), tuple(foreign))


def rows_of(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query of our own."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [plain_row(row) for row in cursor.fetchall()]


def _first_rows(connection: Any, table: str, rows: int) -> list[tuple[Any, ...]]:
    return rows_of(connection, f"SELECT * FROM {quoted(table, DIALECT)} LIMIT {rows}") if rows else []
