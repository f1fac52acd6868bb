"""SQLite: one file, opened immutable.

What protects the machine from model-written SQL: a read-only immutable connection, an authorizer that allows only
reading, length limits, a deadline in SQLite's progress handler, a limit of SQLite's memory. `mode=ro` alone is not
enough: ATTACH opens any file on the machine, VACUUM INTO writes one, and a PRAGMA can switch the protection off.

SQLite's internal tables and the shadow tables of full-text indexes are no tables of a schema: they are no data of their
own. Nor are virtual tables whose module this SQLite lacks, and views of tables that are gone: no query can read them.
"""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from tasks.core.errors import DataError
from tasks.core.files import file_digest, file_state
from tasks.core.records import Status
from tasks.database.dialects import SQLITE, quoted
from tasks.database.engine import (
    ENGINES,
    Connection,
    Cursor,
    Engine,
    KeyColumn,
    QueryDeadline,
    Values,
    schema_of,
)
from tasks.database.limits import MIB, ONLY_QUERIES, OUT_OF_MEMORY, SEVERAL_STATEMENTS, Limits
from tasks.database.location import Location, unreadable
from tasks.database.sandbox.runner import in_sandbox
from tasks.database.sandbox.session import SqlSession
from tasks.database.schema import Schema, Table
from tasks.database.sqlite_files import read_only_uri, require_database, tolerant_text

_IS_NUMBER = "typeof({0}) IN ('integer', 'real') AND {0} NOT IN (9e999, -9e999)"


class _Sqlite(Engine):
    """The engine of SQLite files."""

    name = "sqlite"
    dialect = SQLITE
    schemes = ("sqlite",)
    endings: ClassVar[tuple[str, ...]] = (".sqlite", ".sqlite3", ".db3")
    copied = True

    def product(self, location: Location) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def exists(self, location: Location) -> bool:
        return location.path.is_file()

    def require(self, location: Location, database_id: str) -> None:
        require_database(location.path, database_id)

    def digest(self, location: Location) -> str:
        return file_digest(location.path)

    def state(self, location: Location) -> tuple[int, ...]:
        return file_state(location.address)

    def read(self, location: Location, database_id: str, sample_rows: int) -> Schema:
        """Read tables, keys and the first rows; SQLite has no comments."""
        return in_sandbox(read_structure, location, database_id, sample_rows)

    def connect(self, location: Location, limits: Limits) -> Connection:
        return _Connection(location.path, limits)

    def values(self, location: Location) -> Values:
        """Return its values, which SQLite itself copies."""
        return _Values(location.path)


class _Values(Values):
    """The values of a file, attached to the index: Python sees no single value."""

    dialect = SQLITE

    def __init__(self, path: Path) -> None:
        self._path = path

    def prepare(self, index: sqlite3.Connection) -> None:
        """Attach the file; SQLite attaches none of another encoding."""
        with closing(sqlite3.connect(read_only_uri(self._path), uri=True)) as source:
            ((encoding,),) = source.execute("PRAGMA encoding")
        index.execute(f"PRAGMA encoding = '{encoding}'")
        index.execute("ATTACH ? AS source", (read_only_uri(self._path),))
        self._index = index

    def source(self, table: str) -> str:
        return f"source.{super().source(table)}"

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        return self._index.execute(sql)

    def different_texts(self, table: str, column: str, longest: int) -> str:
        name = quoted(column, SQLITE)
        return (
            f"SELECT {name}, count(*) FROM {self.source(table)} WHERE typeof({name}) = 'text' "
            # the second length counts what is behind a NUL as well
            f"AND length({name}) BETWEEN 1 AND {longest} AND length(CAST({name} AS BLOB)) < {4 * (longest + 1)} "
            f"GROUP BY {name} COLLATE BINARY"
        )

    def is_number(self, table: str, column: str) -> str:
        return _IS_NUMBER.format(quoted(column, SQLITE))

    def copy_texts(self, index: sqlite3.Connection, table: str, column: str, longest: int) -> None:
        index.execute(f"INSERT INTO text (value, uses) {self.different_texts(table, column, longest)}")

    def copy_numbers(
        self, index: sqlite3.Connection, column_id: int, table: str, column: str, most: int
    ) -> None:
        index.execute(
            f"INSERT OR IGNORE INTO number SELECT DISTINCT {column_id}, {quoted(column, SQLITE)} "
            f"FROM {self.source(table)} WHERE {self.is_number(table, column)} LIMIT {most}"
        )


ENGINES.register("sqlite")(_Sqlite())


def read_structure(session: SqlSession, database_id: str, sample_rows: int) -> Schema:
    """Read tables, views and keys of a SQLite file, in a worker process; cost does not grow with the number of rows.

    The first `sample_rows` rows of each table are kept as samples, in the table's own order; none of a table with a
    value that is larger than the sandbox allows. Views whose columns cannot be read are left out.
    """
    path = session.location.path
    try:
        with open_file(path, session.limits) as connection:

            def first_rows(table: Table) -> list[tuple[Any, ...]]:
                # NOT INDEXED: an index that covers the columns would give them in its own order
                sql = f"SELECT * FROM {quoted(table.name, SQLITE)} NOT INDEXED LIMIT {sample_rows}"
                try:
                    return connection.execute(sql).fetchall()
                except sqlite3.DataError:  # a value is too large
                    return []

            tables = _table_names(connection)
            created = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY rowid")
            views = [name for (name,) in created.fetchall()]
            columns = {name: _columns(connection, name) for name in tables}
            for view in views:
                with contextlib.suppress(sqlite3.OperationalError):
                    columns[view] = _columns(connection, view)
            # None: SQLite has no comments
            table_rows = [(name, None, name in views) for name in (*tables, *views)]
            column_rows = [(name, each.name, each.kind, None) for name in columns for each in columns[name]]
            key_columns = (key for table in tables for key in _keys(connection, table, columns[table]))
            return schema_of(database_id, SQLITE, table_rows, column_rows, key_columns, first_rows)
    except sqlite3.Error as error:
        raise DataError(
            f'Database "{database_id}": SQLite cannot read {path} ({error}). Fetch the file again.'
        ) from error


@contextlib.contextmanager
def open_file(path: Path, limits: Limits) -> Iterator[sqlite3.Connection]:
    """Open a file for reading only, with these limits, in a worker: that of memory holds for the whole process."""
    connection = sqlite3.connect(read_only_uri(path), uri=True, isolation_level=None)
    connection.text_factory = tolerant_text
    try:
        restrict(connection, limits, authorize=lambda *_: sqlite3.SQLITE_OK)
        yield connection
    finally:
        connection.close()


def _table_names(connection: sqlite3.Connection) -> list[str]:
    """Return the tables that are data of their own and can be read, in the order of their creation."""
    shadows = {row[1] for row in connection.execute("PRAGMA main.table_list") if row[2] == "shadow"}
    created = connection.execute(
        "SELECT name, sql FROM sqlite_master "
        "WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' ORDER BY rowid"
    ).fetchall()
    return [name for name, sql in created if name not in shadows and _readable(connection, name, sql)]


def _readable(connection: sqlite3.Connection, name: str, sql: str) -> bool:
    """Return whether a table can be read; a virtual one needs a module that SQLite may lack."""
    if not sql.upper().startswith("CREATE VIRTUAL"):
        return True
    try:
        connection.execute(f"SELECT 1 FROM {quoted(name, SQLITE)} LIMIT 0")
    except sqlite3.OperationalError:
        return False
    return True


class _TableColumn(NamedTuple):
    """A row of `PRAGMA table_xinfo`."""

    position: int
    name: str
    kind: str
    not_null: int
    default: str | None
    key_position: int  # in the primary key, from 1; 0: it is not part of it
    hidden: int  # 1: of a virtual table, 2 and 3: generated


def _columns(connection: sqlite3.Connection, table: str) -> list[_TableColumn]:
    """Return the columns of a table or view, without the hidden ones of a virtual table."""
    rows = connection.execute(f"PRAGMA main.table_xinfo({quoted(table, SQLITE)})")
    return [column for column in map(_TableColumn._make, rows) if column.hidden != 1]


def _keys(connection: sqlite3.Connection, table: str, columns: list[_TableColumn]) -> Iterator[KeyColumn]:
    """Yield the columns of a table's keys, in the order of their declaration: SQLite numbers foreign ones backwards."""
    for column in sorted(columns, key=lambda column: column.key_position):
        if column.key_position:
            yield KeyColumn(table, -1, column.name, None, None)  # -1 is no number of a foreign key
    foreign = connection.execute(f"PRAGMA main.foreign_key_list({quoted(table, SQLITE)})").fetchall()
    # Sorted by the key's number, the highest first, and by the position in the key.
    for number, _, parent, name, parent_name, *_ in sorted(foreign, key=lambda row: (-row[0], row[1])):
        yield KeyColumn(table, number, name, parent, parent_name)


TICK = 1000
"""Steps of SQLite's virtual machine between two reads of the clock: some 20 µs unless a step is heavy."""


def restrict(connection: sqlite3.Connection, limits: Limits, authorize: Callable[..., int]) -> None:
    """Restrict a connection to reading, and bound what reading can cost.

    Sorting and materialising stay in memory, so that a query cannot fill the disk either.
    """
    for pragma in (
        "trusted_schema = OFF",
        "query_only = ON",
        "temp_store = MEMORY",
        f"hard_heap_limit = {limits.memory_mb * MIB // 2}",  # the worker's Python needs the rest
    ):
        connection.execute(f"PRAGMA {pragma}").close()
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.max_value_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, limits.max_sql_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, limits.max_expression_depth)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, limits.max_like_pattern_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
    connection.set_authorizer(authorize)


UNREADABLE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
    }
)
"""Errors of the file, which no SQL that only reads can cause."""


class _Connection(Connection):
    errors = (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError)

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._refused = ""  # why the authorizer refused the current query
        require_database(path, path.stem)
        try:
            self._connection = sqlite3.connect(
                read_only_uri(path), uri=True, isolation_level=None, cached_statements=0
            )
            restrict(self._connection, limits, self._authorize)
        except sqlite3.Error as error:
            raise DataError(str(error)) from error

    def execute(self, sql: str, deadline: QueryDeadline) -> Cursor:
        self._refused = ""
        return _Cursor(self._connection, sql, deadline)

    def recover(self, error: BaseException) -> bool:
        """Read text that is not UTF-8 from the second time on."""
        decoding = isinstance(error, sqlite3.OperationalError) and "Could not decode" in str(error)
        if not decoding or self._connection.text_factory is not str:
            return False
        self._connection.text_factory = tolerant_text
        return True

    def explain(self, error: BaseException) -> tuple[Status, str]:
        code = getattr(error, "sqlite_errorcode", None)
        primary_code = code & 0xFF if code is not None else None  # an extended code has it in its low byte
        if primary_code == sqlite3.SQLITE_INTERRUPT:
            return "timeout", ""
        if primary_code == sqlite3.SQLITE_TOOBIG:
            return "too_large", f"{error} (the sandbox allows {self._limits.max_value_bytes / MIB:g} MiB)"
        out_of_memory = primary_code in (sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_FULL)
        if out_of_memory or code == sqlite3.SQLITE_IOERR_NOMEM:
            self.exhausted = True
            return "too_large", OUT_OF_MEMORY
        if primary_code in UNREADABLE:
            raise unreadable(self._path, error) from error
        if self._refused:
            return "error", self._refused
        if "one statement at a time" in str(error):
            return "error", SEVERAL_STATEMENTS
        return "error", str(error)

    def close(self) -> None:
        self._connection.close()

    def _authorize(
        self, action: int, first: str | None, second: str | None, database: str | None, view: str | None
    ) -> int:
        refused = refusal(action, first, second)
        if refused is None:
            return sqlite3.SQLITE_OK
        self._refused = self._refused or refused
        return sqlite3.SQLITE_DENY


class _Cursor(Cursor):
    """A statement that SQLite executes; counts the steps of its virtual machine, rounded down to whole `_every`s."""

    def __init__(self, connection: sqlite3.Connection, sql: str, deadline: QueryDeadline) -> None:
        # Where no steps are to be counted, the handler still checks the deadline.
        self._every = deadline.count_every or TICK
        self._ends_at = deadline.at
        self._ticks = 0
        connection.set_progress_handler(self._tick, self._every)
        self._cursor = connection.cursor()
        try:
            self._cursor.execute(sql)
        except BaseException:
            self._cursor.close()
            raise
        description = self._cursor.description
        self.columns = None if description is None else tuple(entry[0] for entry in description)

    @property
    def steps(self) -> int:  # type: ignore[override]
        return self._ticks * self._every

    def fetch(self, rows: int) -> list[tuple[Any, ...]]:
        return self._cursor.fetchmany(rows)

    def close(self) -> None:
        self._cursor.close()

    def _tick(self) -> int:
        """Count a call of the progress handler; a non-zero result makes SQLite stop the query."""
        self._ticks += 1
        return time.monotonic() > self._ends_at


REFUSED_FUNCTIONS = frozenset(
    {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "sqlite_log"}
)
"""Functions that reach beyond the database: into files, programs or the process."""

REFUSED_TABLES = frozenset({"sqlite_stmt", "sqlite_dbpage", "dbstat"})
"""Virtual tables of some builds of SQLite that show the process or the file, not the data."""

INTERNAL_PRAGMAS = frozenset({"page_size", "data_version"})
"""Read, never set, by SQLite itself when a query uses a full-text table."""

_SCHEMA_TABLES = frozenset({"sqlite_master", "sqlite_schema", "sqlite_temp_master", "sqlite_temp_schema"})
_WRITES = {
    sqlite3.SQLITE_INSERT: "INSERT into",
    sqlite3.SQLITE_UPDATE: "UPDATE of",
    sqlite3.SQLITE_DELETE: "DELETE from",
}
_OTHERS = {
    sqlite3.SQLITE_ATTACH: "opening another file (ATTACH, VACUUM)",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_TRANSACTION: "a transaction",
    sqlite3.SQLITE_SAVEPOINT: "a savepoint",
    sqlite3.SQLITE_ANALYZE: "ANALYZE",
    sqlite3.SQLITE_REINDEX: "REINDEX",
}


def refusal(action: int, first: str | None, second: str | None) -> str | None:
    """Return why an action is refused, None when it is allowed.

    `action` is SQLite's code, `first` and `second` its arguments: a table and its column, a pragma and its new value,
    or, as the second, a function.

    UPDATE of `sqlite_master` has to be let through: SQLite asks for it, and then writes nothing, when a
    query first touches a virtual table (full-text search, `json_each`). A statement that really updates it
    is refused by SQLite itself, and creating anything is already refused as an INSERT.
    """
    name = (first or "").lower()
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
        return None
    if action == sqlite3.SQLITE_READ:
        return ONLY_QUERIES.format(f"reading {first}") if name in REFUSED_TABLES else None
    if action == sqlite3.SQLITE_FUNCTION:
        is_refused = (second or "").lower() in REFUSED_FUNCTIONS
        return ONLY_QUERIES.format(f"the function {second}") if is_refused else None
    if action == sqlite3.SQLITE_PRAGMA:
        return None if name in INTERNAL_PRAGMAS and second is None else ONLY_QUERIES.format(f"PRAGMA {first}")
    if action == sqlite3.SQLITE_UPDATE and name == "sqlite_master":
        return None
    if action in _WRITES and name not in _SCHEMA_TABLES:
        return ONLY_QUERIES.format(f"{_WRITES[action]} {first}")
    return ONLY_QUERIES.format(_OTHERS.get(action, "changing the schema"))
