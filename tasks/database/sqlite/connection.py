"""A SQLite connection that only reads, inside a worker process of the sandbox.

What protects the machine from model-written SQL here: a read-only immutable connection, an authorizer that allows only
reading, length limits, a deadline in SQLite's progress handler, a limit of SQLite's memory.
"""

import sqlite3
from pathlib import Path
from typing import Any

from tasks.core.errors import DataError
from tasks.core.records import Status
from tasks.database.engine import Connection, Cursor, Deadline
from tasks.database.limits import MIB, Limits
from tasks.database.location import unreadable
from tasks.database.sqlite.authorizer import refusal
from tasks.database.sqlite.files import read_only_uri, require_database
from tasks.database.sqlite.restrictions import TICK, Clock, restrict, tolerant_text

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
        """Return the status of a failed query, and SQLite's own message or one sentence of the sandbox.

        Raises:
            DatabaseUnavailableError: the file is gone, damaged or locked, or its disk fails.
        """
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
