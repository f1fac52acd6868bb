"""Reading a SQLite file's schema: types, keys, sample rows.

Views, SQLite's internal tables and the shadow tables of full-text indexes are left out: they are no data of
their own. So are virtual tables whose module this SQLite lacks: no query can read them.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from tasks.core.errors import DataError
from tasks.database.engine import Structure
from tasks.database.identifiers import SQLITE, quoted
from tasks.database.schema import Column, ForeignKey, Table
from tasks.database.sqlite.files import read_only_uri
from tasks.database.sqlite.restrictions import tolerant_text

COLUMNS_AT_ONCE = 500
"""SQLite's own limit of columns in one result is 2000, but may be compiled lower."""


def read_structure(path: Path, database_id: str, sample_rows: int) -> Structure:
    """Read tables and keys of a SQLite file; cost does not grow with the number of rows.

    So many first rows of each table are kept as samples, in the table's own order.

    Raises:
        DataError: SQLite cannot read the file.
    """
    try:
        with _opened(path) as connection:
            tables = tuple(_table(connection, name, sample_rows) for name in _table_names(connection))
            declared = tuple(key for table in tables for key in _declared_keys(connection, table))
    except sqlite3.Error as error:
        raise DataError(
            f'Database "{database_id}": SQLite cannot read {path} ({error}). Fetch the file again.'
        ) from error
    return Structure(tables, declared)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(read_only_uri(path), uri=True, isolation_level=None)
    connection.text_factory = tolerant_text
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        yield connection
    finally:
        connection.close()


def _table_names(connection: sqlite3.Connection) -> list[str]:
    shadows = {row[1] for row in connection.execute("PRAGMA main.table_list") if row[2] == "shadow"}
    created = connection.execute(
        "SELECT name, sql FROM sqlite_master "
        "WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' ORDER BY rowid"
    ).fetchall()
    return [name for name, sql in created if name not in shadows and _readable(connection, name, sql)]


def _readable(connection: sqlite3.Connection, name: str, sql: str) -> bool:
    if not sql.upper().startswith("CREATE VIRTUAL"):
        return True
    try:
        connection.execute(f"SELECT 1 FROM {quoted(name, SQLITE)} LIMIT 0")
    except sqlite3.OperationalError:
        return False
    return True


def _table(connection: sqlite3.Connection, name: str, sample_rows: int) -> Table:
    # cid, name, type, notnull, default, position in the primary key, hidden (1: of a virtual table)
    info = [
        row for row in connection.execute(f"PRAGMA main.table_xinfo({quoted(name, SQLITE)})") if row[6] != 1
    ]
    names = [row[1] for row in info]
    samples = _samples(connection, name, names, sample_rows)
    columns = tuple(Column(row[1], row[2], samples=samples[row[1]]) for row in info)
    key = tuple(row[1] for row in sorted(info, key=lambda row: row[5]) if row[5])
    return Table(name, columns, key)


def _samples(
    connection: sqlite3.Connection, table: str, columns: list[str], rows: int
) -> dict[str, tuple[Any, ...]]:
    samples: dict[str, tuple[Any, ...]] = {}
    for part in _parts(columns):
        chosen = ", ".join(quoted(name, SQLITE) for name in part)
        # NOT INDEXED: an index that covers the columns would give them in its own order
        sql = f"SELECT {chosen} FROM {quoted(table, SQLITE)} NOT INDEXED LIMIT {rows}"
        first = connection.execute(sql).fetchall()
        samples |= {name: tuple(row[i] for row in first) for i, name in enumerate(part)}
    return samples


def _parts(columns: list[str]) -> list[list[str]]:
    return [columns[i : i + COLUMNS_AT_ONCE] for i in range(0, len(columns), COLUMNS_AT_ONCE)]


def _declared_keys(connection: sqlite3.Connection, table: Table) -> list[ForeignKey]:
    """Return a table's foreign keys in the order of their declaration; SQLite numbers them backwards.

    A key without parent columns keeps (): it means the parent's primary key.
    """
    # id, position within the key, parent, column, parent's column or NULL
    rows = connection.execute(f"PRAGMA main.foreign_key_list({quoted(table.name, SQLITE)})").fetchall()
    rows.sort(key=lambda row: (-row[0], row[1]))
    return [
        ForeignKey(
            table.name,
            tuple(row[3] for row in members),
            members[0][2],
            tuple(row[4] for row in members if row[4] is not None),
        )
        for members in (list(group) for _, group in groupby(rows, key=lambda row: row[0]))
    ]
