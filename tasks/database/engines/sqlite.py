"""SQLite: one file, opened immutable."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import ClassVar

from tasks.core.files import file_digest, file_state
from tasks.database.engine import ENGINES, Connection, Engine, Structure, Values
from tasks.database.identifiers import SQLITE, quoted
from tasks.database.limits import Limits
from tasks.database.location import Location
from tasks.database.sqlite.connection import SqliteConnection
from tasks.database.sqlite.files import read_only_uri, require_database
from tasks.database.sqlite.introspection import read_structure

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
        return read_structure(location.path, database_id, sample_rows)

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
