"""A SQLite connection that only reads, inside a worker process of the sandbox.

What protects the machine from model-written SQL here: a read-only immutable connection, an authorizer that allows only
reading, length limits, a deadline in SQLite's progress handler, a limit of SQLite's memory. `mode=ro` alone is not
enough: ATTACH opens any file on the machine, VACUUM INTO writes one, and a PRAGMA can switch the protection off.
"""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasks.core.errors import DataError
from tasks.core.records import Status
from tasks.database.engine import Connection, Cursor, Deadline
from tasks.database.limits import MIB, Limits
from tasks.database.location import unreadable
from tasks.database.sqlite.files import read_only_uri, require_database

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
        f"hard_heap_limit = {limits.memory_mb * MIB // 2}",
    ):
        connection.execute(f"PRAGMA {pragma}").close()
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.max_value_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, limits.max_sql_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, limits.max_expression_depth)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, limits.max_like_pattern_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
    connection.set_authorizer(authorize)


class Clock:
    """Progress handler that counts SQLite's steps and stops the query at its deadline."""

    def __init__(self, deadline: float, every: int) -> None:
        self.every = every  # steps between two calls of the handler
        self._deadline = deadline
        self._ticks = 0

    @property
    def steps(self) -> int:
        """Steps so far, to a full `every`."""
        return self._ticks * self.every

    def tick(self) -> int:
        """Count a call of the progress handler; a non-zero result makes SQLite stop the query."""
        self._ticks += 1
        return time.monotonic() > self._deadline


def tolerant_text(raw: bytes) -> str:
    r"""Read text that may not be UTF-8; a bad byte becomes `\xNN`, so different values stay different."""
    return raw.decode("utf-8", "backslashreplace")


OUT_OF_MEMORY = "The query ran out of memory."
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


class SqliteConnection(Connection):
    """A connection to one file."""

    errors = (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError)

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._refused = ""
        require_database(path, path.stem)
        try:
            self._connection = sqlite3.connect(
                read_only_uri(path), uri=True, isolation_level=None, cached_statements=0
            )
            restrict(self._connection, limits, self._authorize)
        except sqlite3.Error as error:
            raise DataError(str(error)) from error

    def execute(self, sql: str, deadline: Deadline) -> Cursor:
        """Start one statement."""
        self._refused = ""
        return SqliteCursor(self._connection, sql, Clock(deadline.at, deadline.count_every or TICK))

    def recover(self, error: BaseException) -> bool:
        """Read text that is not UTF-8 from the second time on."""
        decoding = isinstance(error, sqlite3.OperationalError) and "Could not decode" in str(error)
        if not decoding or self._connection.text_factory is not str:
            return False
        self._connection.text_factory = tolerant_text
        return True

    def explain(self, error: BaseException) -> tuple[Status, str]:
        """Return the status of a failed query, and SQLite's own message or one sentence of the sandbox."""
        code = getattr(error, "sqlite_errorcode", None)
        base = code & 0xFF if code is not None else None
        if base == sqlite3.SQLITE_INTERRUPT:
            return "timeout", ""
        if base == sqlite3.SQLITE_TOOBIG:
            return "too_large", f"{error} (the sandbox allows {self._limits.max_value_bytes / MIB:g} MiB)"
        if base in UNREADABLE and code != sqlite3.SQLITE_IOERR_NOMEM:
            raise unreadable(self._path, error) from error
        if base in (sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_FULL) or code == sqlite3.SQLITE_IOERR_NOMEM:
            self.exhausted = True
            return "too_large", OUT_OF_MEMORY
        if self._refused:
            return "error", self._refused
        if "one statement at a time" in str(error):
            return "error", "The SQL holds more than one statement; give exactly one."
        return "error", str(error)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _authorize(
        self, action: int, first: str | None, second: str | None, database: str | None, view: str | None
    ) -> int:
        refused = refusal(action, first, second)
        if refused is None:
            return sqlite3.SQLITE_OK
        self._refused = self._refused or refused
        return sqlite3.SQLITE_DENY


class SqliteCursor(Cursor):
    """A statement that SQLite steps through; it counts the steps of its virtual machine."""

    def __init__(self, connection: sqlite3.Connection, sql: str, clock: Clock) -> None:
        self._clock = clock
        connection.set_progress_handler(clock.tick, clock.every)
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
        """Steps so far, to a full count of the clock."""
        return self._clock.steps

    def fetch(self, rows: int) -> list[tuple[Any, ...]]:
        """Return the next rows."""
        return self._cursor.fetchmany(rows)

    def close(self) -> None:
        """Finalize the statement."""
        self._cursor.close()


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

    UPDATE of `sqlite_master` has to be let through: SQLite asks for it, and then writes nothing, when a
    query first touches a virtual table (full-text search, `json_each`). A statement that really updates it
    is refused by SQLite itself, and creating anything is already refused as an INSERT.

    Args:
        action: SQLite's action code.
        first: its first argument (the table read, the pragma, ...).
        second: its second argument (the column read, the function called, the pragma's new value, ...).
    """
    name = (first or "").lower()
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
        return None
    if action == sqlite3.SQLITE_READ:
        return _sentence(f"reading {first}") if name in REFUSED_TABLES else None
    if action == sqlite3.SQLITE_FUNCTION:
        return _sentence(f"the function {second}") if (second or "").lower() in REFUSED_FUNCTIONS else None
    if action == sqlite3.SQLITE_PRAGMA:
        return None if name in INTERNAL_PRAGMAS and second is None else _sentence(f"PRAGMA {first}")
    if action == sqlite3.SQLITE_UPDATE and name == "sqlite_master":
        return None
    if action in _WRITES and name not in _SCHEMA_TABLES:
        return _sentence(f"{_WRITES[action]} {first}")
    return _sentence(_OTHERS.get(action, "changing the schema"))


def _sentence(what: str) -> str:
    return f"The sandbox only lets a query read this database: {what} is not allowed."
