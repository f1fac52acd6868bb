"""Connections to MySQL and MariaDB that only read.

Every query runs in a read-only transaction of a session that is reset after it (COM_RESET_CONNECTION: locks, variables,
temporary tables, transactions). The protocol takes one statement, and only a query is let through: MariaDB's compound
statements could end the transaction. The server ends the query at its deadline; KILL QUERY follows if it does not.
"""

import contextlib
from typing import Any

from tasks.core.errors import DatabaseUnavailableError
from tasks.core.records import Status
from tasks.database.engine import Connection, Cursor, Deadline
from tasks.database.location import Location
from tasks.database.plain import exact_row
from tasks.database.servers.gate import MysqlGate
from tasks.database.servers.mysql_opening import (
    INTERRUPTED,
    driver,
    explained,
    open_reading,
    unreachable,
)
from tasks.database.servers.tokens import RefusedError
from tasks.database.servers.watchdog import Watchdog

EARLY_S = 0.05
"""Seconds before its deadline from which on a killed query may have met it."""
KILL_AFTER_S = 0.1
"""Seconds after the deadline at which the query is killed from outside."""
COM_RESET_CONNECTION = 0x1F
SETTINGS = "time_zone = '+00:00', SESSION div_precision_increment = 12"
"""Moments in UTC, and quotients of whole numbers with 12 digits more than the dividend has; the server's own are 4."""
STOPPED = frozenset({INTERRUPTED, 1969, 3024})
"""Interrupted, past MariaDB's max_statement_time, past MySQL's max_execution_time."""
TOO_LARGE = frozenset({1037, 1038, 1041, 1114, 1301})


class MysqlConnection(Connection):
    """A connection to one database; `current` is False once it is closed."""

    def __init__(self, location: Location) -> None:
        pymysql = driver()
        self.errors = (pymysql.Error, RefusedError, UnicodeError)
        self._location = location
        self._connection = self._connected()
        self._mode = self._sql_mode()
        self._gate = MysqlGate("NO_BACKSLASH_ESCAPES" not in self._mode, "ANSI_QUOTES" in self._mode)
        self._started = False
        self._deadline = Deadline(0.0)

    def execute(self, sql: str, deadline: Deadline) -> Cursor:
        """Start one query in a read-only transaction of a reset session."""
        self._started, self._deadline = False, deadline
        if not self._gate.check(sql):
            return MysqlCursor(self, None, None)
        self._begin(deadline)
        watchdog = Watchdog(deadline.left + KILL_AFTER_S, self._kill)
        cursor = self._connection.cursor(driver().cursors.SSCursor)
        try:
            cursor.execute(sql)
        except BaseException:
            self.end(watchdog, finished=not deadline.past)
            raise
        self._started = True
        return MysqlCursor(self, watchdog, cursor)

    def end(self, watchdog: Watchdog | None, *, finished: bool) -> None:
        """End the query and reset the session; a connection with rows on their way, or that was killed, is closed."""
        if watchdog is None:
            return
        if watchdog.stop():
            self.close()
        elif not finished:
            self._kill()
            self.close()
        else:  # at once: the transaction keeps the tables from being altered or dropped
            self._reset()

    def recover(self, error: BaseException) -> bool:
        """Connect again where the server closed the connection before it gave a row.

        Raises:
            DatabaseUnavailableError: it cannot be connected again.
        """
        if not isinstance(error, driver().Error) or not unreachable(error) or self._started:
            return False
        self.close()
        self._connection = self._connected()
        return True

    def explain(self, error: BaseException) -> tuple[Status, str]:
        """Return the status of a failed query, and the server's own message.

        Raises:
            DatabaseUnavailableError: the server is gone.
        """
        code = error.args[0] if error.args else None
        if code in STOPPED and (code != INTERRUPTED or self._deadline.left < EARLY_S):
            return "timeout", ""
        if code in TOO_LARGE:
            return "too_large", explained(error)
        if isinstance(error, driver().Error) and (unreachable(error) or code == INTERRUPTED):
            raise DatabaseUnavailableError(f"{self._location}: {explained(error)}") from error
        return "error", explained(error)

    def current(self) -> bool:
        """Return whether the connection is open."""
        return bool(self._connection.open)

    def close(self) -> None:
        """Close the connection, whatever it is doing."""
        self._connection._force_close()

    def _connected(self) -> Any:
        try:
            return open_reading(self._location)
        except driver().Error as error:
            raise DatabaseUnavailableError(f"{self._location}: {explained(error)}") from error

    def _sql_mode(self) -> str:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute("SELECT @@sql_mode")
                return str(cursor.fetchone()[0])
        except driver().Error as error:
            raise DatabaseUnavailableError(f"{self._location}: {explained(error)}") from error

    def _reset(self) -> None:
        try:
            # the driver has no method for it
            self._connection._execute_command(COM_RESET_CONNECTION, b"")
            self._connection._read_ok_packet()
        except driver().Error:
            self.close()

    def _begin(self, deadline: Deadline) -> None:
        connection = self._connection
        seconds = max(0.001, deadline.left)
        limit = (
            f"max_statement_time = {seconds:.3f}"
            if "MariaDB" in connection.get_server_info()
            else f"max_execution_time = {int(seconds * 1000)}"
        )
        with connection.cursor() as cursor:
            # the gate has read the SQL under this mode
            settings = f"{SETTINGS}, SESSION sql_mode = '{self._mode}'"
            cursor.execute(f"SET NAMES utf8mb4, SESSION {settings}, SESSION {limit}")
            cursor.execute("START TRANSACTION READ ONLY")

    def _kill(self) -> None:
        with contextlib.suppress(Exception):
            other = open_reading(self._location)
            try:
                with other.cursor() as cursor:
                    cursor.execute(f"KILL QUERY {int(self._connection.thread_id())}")
            finally:
                other.close()


class MysqlCursor(Cursor):
    """A query whose rows the server sends as they are fetched."""

    def __init__(self, connection: MysqlConnection, watchdog: Watchdog | None, cursor: Any) -> None:
        self._connection, self._watchdog, self._cursor = connection, watchdog, cursor
        self._finished = False
        self.columns = None
        if cursor is not None and cursor.description is not None:
            self.columns = tuple(entry[0] for entry in cursor.description)

    def fetch(self, rows: int) -> list[tuple[Any, ...]]:
        """Return the next rows."""
        if self._finished:
            return []
        found = [exact_row(row) for row in self._cursor.fetchmany(rows)]
        self._finished = len(found) < rows
        return found

    def close(self) -> None:
        """End the query."""
        self._connection.end(self._watchdog, finished=self._finished)
