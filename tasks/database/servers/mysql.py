"""MySQL and MariaDB: connections that only read, and their sessions in a worker process.

Every query runs in a read-only transaction of a session that is reset after it (COM_RESET_CONNECTION: locks, variables,
temporary tables, transactions). The protocol takes one statement, and only a query is let through: MariaDB's compound
statements could end the transaction. The server ends the query at its deadline; KILL QUERY follows if it does not.
"""

import contextlib
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tasks.core.errors import ConfigurationError, DatabaseUnavailableError
from tasks.core.records import Status
from tasks.database.engine import Cursor, Deadline
from tasks.database.location import Location
from tasks.database.plain import exact_row, reread_json
from tasks.database.servers.engine import ServerConnection, Watchdog, import_driver, limit_of, rows_of
from tasks.database.servers.gate import MysqlGate

CONNECT_S = 10
_GONE = """
    1040 1053 1077 1079 1080 1129 1152 1158 1159 1160 1161 1184 1203 1226 1927 3032 4031
    1020 1205 1213 1412
    1016 1017 1021 1023 1024 1026 1030 1033 1034 1035 1194 1195 1712 1812 1815 1877 1932
    2002 2003 2005 2006 2013 2014 2026 2055
"""
GONE = frozenset(map(int, _GONE.split()))
"""Errors that say that the server is gone or full, that another session is in the way, that files or tables are damaged
or that the connection is lost, not that the SQL is wrong."""
INTERRUPTED = 1317
"""Somebody has killed the query."""
_TIMES = (7, 10, 11, 12, 14)
_BIT, _JSON = 16, 245
_ENCRYPTIONS = ("disable", "prefer", "require", "verify-ca", "verify-full")


def driver() -> Any:
    """Return the module pymysql."""
    return import_driver("pymysql", "MySQL and MariaDB databases need the driver PyMySQL", "mysql")


def open_reading(location: Location) -> Any:
    """Open a connection whose transactions only read, in UTC, and whose values are plain."""
    return open_connection(location, database_of(location))


def database_of(location: Location) -> str:
    """Return the name of a location's database."""
    database = unquote(urlsplit(location.address).path.strip("/"))
    if not database:
        raise ConfigurationError(f"{location} names no database. Write mysql://user@host:port/database.")
    return database


def open_connection(location: Location, database: str | None) -> Any:
    """Open a connection to a database, or to none, in UTC, whose values are plain."""
    pymysql = driver()
    parts = urlsplit(location.address)
    return pymysql.connect(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=location.password,
        database=database,
        charset="utf8mb4",
        connect_timeout=CONNECT_S,
        autocommit=True,
        local_infile=False,
        conv=_converters(pymysql),
        init_command="SET SESSION time_zone = '+00:00'",
        **_encryption(location, dict(parse_qsl(parts.query))),
    )


def unreachable(error: BaseException) -> bool:
    """Return whether an error of the driver says that the server is gone, not that the SQL is wrong."""
    code = error.args[0] if error.args else None
    return code in GONE or (isinstance(error, driver().InterfaceError) and code == 0)


def explained(error: BaseException) -> str:
    """Return the server's message on one line, without the driver's tuple around it."""
    return " ".join(str(error.args[1] if len(error.args) > 1 else error).split())


def _encryption(location: Location, options: dict[str, str]) -> dict[str, Any]:
    """Return the driver's options of encryption for `?sslmode=` and `?sslrootcert=`, as PostgreSQL spells them."""
    mode, root = options.pop("sslmode", "prefer"), options.pop("sslrootcert", None)
    if options or mode not in _ENCRYPTIONS:
        wrong = next(iter(options), f"sslmode={mode}")
        raise ConfigurationError(
            f"{location}: {wrong} is not known. Known are sslmode ({', '.join(_ENCRYPTIONS)}) and sslrootcert."
        )
    if mode == "disable":
        return {"ssl_disabled": True}
    if mode == "prefer":
        return {}
    verified = mode.startswith("verify")
    return {
        "ssl_ca": root,
        "ssl_verify_cert": verified,
        "ssl_verify_identity": mode == "verify-full",
        **({} if root or verified else {"ssl": {"check_hostname": False, "verify_mode": False}}),
    }


def _moment(text: str) -> str:
    """Return a moment as the server writes it, without zeros at the end of its fraction.

    >>> _moment("2026-11-01 09:30:00.000000"), _moment("09:30:00.250")
    ('2026-11-01 09:30:00', '09:30:00.25')
    """
    return text.rstrip("0").rstrip(".") if "." in text else text


def _converters(pymysql: Any) -> dict[Any, Any]:
    """Return what turns a value's text into a plain value, by the server's type of it."""
    found = dict(pymysql.converters.conversions)
    for kind in _TIMES:
        found[kind] = _moment
    found[_BIT] = lambda raw: int.from_bytes(raw, "big")
    found[_JSON] = reread_json
    return found


EARLY_S = 0.05
"""Seconds before its deadline from which on a killed query may have met it."""
KILL_AFTER_S = 0.1
"""Seconds after the deadline at which the query is killed from outside."""
COM_RESET_CONNECTION = 0x1F
SETTINGS = "time_zone = '+00:00', SESSION div_precision_increment = 12"
"""Moments in UTC, and quotients of whole numbers with 12 digits more than the dividend has; the server's own are 4."""
STOPPED = frozenset({INTERRUPTED, 1969, 3024})
"""Interrupted, past MariaDB's max_statement_time, past MySQL's max_execution_time."""
_RUNNING = """
SELECT count(*) FROM information_schema.processlist
WHERE user = SUBSTRING_INDEX(USER(), '@', 1) AND info LIKE '/* limit %'
  AND time > CAST(SUBSTRING(info, 10, 9) AS UNSIGNED)
"""
"""Queries of these connections whose time is over, killed ones, too."""
TOO_LARGE = frozenset({1037, 1038, 1041, 1114, 1301})


class MysqlConnection(ServerConnection):
    """A session in MySQL or MariaDB."""

    driver = staticmethod(driver)
    open = staticmethod(open_reading)
    is_unreachable = staticmethod(unreachable)
    message = staticmethod(explained)
    running = _RUNNING

    def __init__(self, location: Location) -> None:
        super().__init__(location)
        with self._available():
            ((self._mode,),) = rows_of(self._connection, "SELECT @@sql_mode")
        self._gate = MysqlGate("NO_BACKSLASH_ESCAPES" not in self._mode, "ANSI_QUOTES" in self._mode)

    def execute(self, sql: str, deadline: Deadline) -> Cursor:
        """Start one query in a read-only transaction of a reset session."""
        self._started = False
        self._deadline = deadline
        if not self._gate.check(sql):
            return MysqlCursor(self, None, None)
        self._begin(deadline)
        watchdog = Watchdog(deadline.left + KILL_AFTER_S, self._kill)
        cursor = self._connection.cursor(driver().cursors.SSCursor)
        try:
            cursor.execute(f"/* limit {limit_of(deadline)} */ {sql}")
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

    def explain(self, error: BaseException) -> tuple[Status, str]:
        """Return the status of a failed query, and the server's own message."""
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
