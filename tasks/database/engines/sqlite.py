"""SQLite: one file, opened immutable.

SQLite's internal tables and the shadow tables of full-text indexes are no tables of a schema: they are no data of their
own. Nor are virtual tables whose module this SQLite lacks, and views of tables that are gone: no query can read them.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

from tasks.core.errors import DataError
from tasks.core.files import file_digest, file_state
from tasks.database.dialects import SQLITE, quoted
from tasks.database.engine import ENGINES, Connection, Engine, Structure, Values
from tasks.database.limits import Limits
from tasks.database.location import Location
from tasks.database.sandbox.runner import READING_S, in_sandbox
from tasks.database.sandbox.session import Session
from tasks.database.schema import Column, ForeignKey, Table
from tasks.database.sqlite.connection import SqliteConnection, restrict, tolerant_text
from tasks.database.sqlite.files import read_only_uri, require_database

_IS_NUMBER = "typeof({0}) IN ('integer', 'real') AND {0} NOT IN (9e999, -9e999)"


class Sqlite(Engine):
    """The engine of SQLite files."""

    name = "sqlite"
    dialect = SQLITE
    schemes = ("sqlite",)
    endings: ClassVar[tuple[str, ...]] = (".sqlite", ".sqlite3", ".db3")
    copied = True

    def product(self, location: Location) -> str:
        """Return SQLite with the version of its library."""
        return f"SQLite {sqlite3.sqlite_version}"

    def exists(self, location: Location) -> bool:
        """Return whether the file is there."""
        return location.path.is_file()

    def require(self, location: Location, database_id: str) -> None:
        """Make sure that the file is SQLite's and can be read without a journal."""
        require_database(location.path, database_id)

    def digest(self, location: Location) -> str:
        """Return the sha256 of the file."""
        return file_digest(location.path)

    def state(self, location: Location) -> tuple[int, ...]:
        """Return number, size and time of change of the file; () when there is none."""
        return file_state(location.address)

    def read(self, location: Location, database_id: str, sample_rows: int) -> Structure:
        """Read tables, keys and the first rows; SQLite has no comments."""
        found: Structure = in_sandbox(
            read_structure, location, database_id, sample_rows, timeout_s=READING_S, limits=Limits()
        )
        return found

    def connect(self, location: Location, limits: Limits) -> Connection:
        """Open a connection that only reads."""
        return SqliteConnection(location.path, limits)

    def values(self, location: Location) -> Values:
        """Return its values, which SQLite itself copies."""
        return SqliteValues(location.path)


class SqliteValues(Values):
    """The values of a file, attached to the index: Python sees no single value."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def prepare(self, index: sqlite3.Connection) -> None:
        """Attach the file; SQLite attaches none of another encoding."""
        with closing(sqlite3.connect(read_only_uri(self._path), uri=True)) as source:
            ((encoding,),) = source.execute("PRAGMA encoding")
        index.execute(f"PRAGMA encoding = '{encoding}'")
        index.execute("ATTACH ? AS source", (read_only_uri(self._path),))

    def copy_texts(self, index: sqlite3.Connection, table: str, column: str, longest: int) -> None:
        """Append the different texts of a column to the index."""
        name, source = quoted(column, SQLITE), f"source.{quoted(table, SQLITE)}"
        index.execute(
            f"INSERT INTO text (value, uses) SELECT {name}, count(*) FROM {source} WHERE typeof({name}) = 'text' "
            # the second length counts what is behind a NUL as well
            f"AND length({name}) BETWEEN 1 AND ? AND length(CAST({name} AS BLOB)) < ? "
            f"GROUP BY {name} COLLATE BINARY",
            (longest, 4 * (longest + 1)),
        )

    def copy_numbers(self, index: sqlite3.Connection, place: int, table: str, column: str, most: int) -> None:
        """Append different numbers of a column to the index."""
        name, source = quoted(column, SQLITE), f"source.{quoted(table, SQLITE)}"
        index.execute(
            f"INSERT OR IGNORE INTO number SELECT DISTINCT ?, {name} FROM {source} "
            f"WHERE {_IS_NUMBER.format(name)} LIMIT ?",
            (place, most),
        )

    def frequent_numbers(
        self, index: sqlite3.Connection, table: str, column: str, *, among: int, most: int
    ) -> list[int | float]:
        """Return the most frequent numbers of a column."""
        name, source = quoted(column, SQLITE), f"source.{quoted(table, SQLITE)}"
        rows = index.execute(
            f"SELECT {name} FROM (SELECT {name} FROM {source} WHERE {_IS_NUMBER.format(name)} LIMIT ?) "
            f"GROUP BY {name} ORDER BY count(*) DESC, {name} LIMIT ?",
            (among, most),
        )
        return [value for (value,) in rows]


ENGINES.register("sqlite")(Sqlite())


COLUMNS_AT_ONCE = 500
"""SQLite's own limit of columns in one result is 2000, but may be compiled lower."""


def read_structure(session: Session, database_id: str, sample_rows: int) -> Structure:
    """Read tables, views and keys of a SQLite file, in a worker process; cost does not grow with the number of rows.

    So many first rows of each table are kept as samples, in the table's own order; none of columns with a value that
    is larger than the sandbox allows.
    """
    path = session.location.path
    try:
        with open_file(path, session.limits) as connection:
            tables = tuple(_table(connection, name, sample_rows) for name in _table_names(connection))
            declared = tuple(key for table in tables for key in _declared_keys(connection, table))
            views = tuple(_views(connection))
    except sqlite3.Error as error:
        raise DataError(
            f'Database "{database_id}": SQLite cannot read {path} ({error}). Fetch the file again.'
        ) from error
    return Structure(tables + views, declared)


@contextlib.contextmanager
def open_file(path: Path, limits: Limits) -> Iterator[sqlite3.Connection]:
    """Open a file for reading only, with these limits; inside a worker, because those of memory are the process's."""
    connection = sqlite3.connect(read_only_uri(path), uri=True, isolation_level=None)
    connection.text_factory = tolerant_text
    try:
        restrict(connection, limits, lambda *_: sqlite3.SQLITE_OK)
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


def _views(connection: sqlite3.Connection) -> Iterator[Table]:
    created = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY rowid")
    for (name,) in created.fetchall():
        with contextlib.suppress(sqlite3.OperationalError):
            info = connection.execute(f"PRAGMA main.table_xinfo({quoted(name, SQLITE)})").fetchall()
            yield Table(name, tuple(Column(row[1], row[2]) for row in info), view=True)


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
        try:
            first = connection.execute(sql).fetchall()
        except sqlite3.DataError:  # a value is too large
            first = []
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
