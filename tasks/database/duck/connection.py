"""A DuckDB connection that only reads, inside a worker process of the sandbox."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.core.records import Status
from tasks.database.duck.opening import first_line, open_restrained
from tasks.database.engine import Connection, Cursor, Deadline
from tasks.database.limits import Limits
from tasks.database.location import unreadable
from tasks.database.plain import plain_row, reread_json

if TYPE_CHECKING:
    import duckdb

ONLY_QUERIES = (
    "The sandbox only lets a query read this database: a statement that is no query is not allowed."
)


class RefusedError(Exception):
    """SQL that the sandbox does not give to the engine; the message says why."""


class DuckConnection(Connection):
    """A connection to one file or folder. Every query gets a session of its own; `current` is False after a crash."""

    def __init__(self, path: Path, limits: Limits) -> None:
        import duckdb

        self.errors = (duckdb.Error, RefusedError, UnicodeDecodeError)
        self._path = path
        self._crashed = False
        self._connection = open_restrained(path, limits.memory_mb // 2)

    def execute(self, sql: str, deadline: Deadline) -> Cursor:
        """Start one query in a new session."""
        statements = self._connection.extract_statements(sql)
        if len(statements) > 1:
            raise RefusedError("The SQL holds more than one statement; give exactly one.")
        if statements and not _is_query(statements[0]):
            raise RefusedError(ONLY_QUERIES)
        return DuckCursor(self._connection.cursor(), statements, deadline)

    def explain(self, error: BaseException) -> tuple[Status, str]:
        """Return the status of a failed query, and DuckDB's own message.

        Raises:
            DatabaseUnavailableError: the file is gone or damaged, or its disk fails.
        """
        import duckdb

        # a database is unusable after either error
        self._crashed = isinstance(error, duckdb.FatalException | duckdb.InternalException)

        if isinstance(error, duckdb.InterruptException):
            return "timeout", ""
        if isinstance(error, duckdb.OutOfMemoryException):
            self.exhausted = True
            return "too_large", "The query ran out of memory."
        corrupt = type(error) is duckdb.Error and "Corrupt database" in str(error)
        if corrupt or isinstance(error, duckdb.IOException | duckdb.SerializationException):
            raise unreadable(self._path, first_line(error)) from error
        return "error", str(error)

    def current(self) -> bool:
        """Return whether no query has made DuckDB close the database."""
        return not self._crashed

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def _is_query(statement: Any) -> bool:
    import duckdb

    try:
        return bool(statement.type == duckdb.StatementType.SELECT)
    except ValueError:  # the Python package does not know every kind (UPDATE EXTENSIONS)
        return False


class DuckCursor(Cursor):
    """A query that DuckDB interrupts at its deadline; rows are computed as they are fetched."""

    def __init__(
        self, session: "duckdb.DuckDBPyConnection", statements: list[Any], deadline: Deadline
    ) -> None:
        self._session = session
        self._timer = threading.Timer(deadline.left, session.interrupt)
        self._timer.daemon = True
        self.columns = None
        if not statements:
            return
        self._timer.start()
        try:
            session.execute(statements[0])
        except BaseException:
            self.close()
            raise
        described = session.description or []
        self.columns = tuple(entry[0] for entry in described)
        self._json = [place for place, entry in enumerate(described) if str(entry[1]) == "JSON"]

    def fetch(self, rows: int) -> list[tuple[Any, ...]]:
        """Return the next rows."""
        found = [plain_row(row) for row in self._session.fetchmany(rows)]
        return [self._with_json(row) for row in found] if self._json else found

    def close(self) -> None:
        """End the session, and with it the query."""
        self._timer.cancel()
        self._session.close()

    def _with_json(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        cells = list(row)
        for place in self._json:
            if isinstance(cells[place], str):
                cells[place] = reread_json(cells[place])
        return tuple(cells)
