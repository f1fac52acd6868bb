"""MySQL and MariaDB, by PyMySQL: written in Python, so it installs without a compiler, and is kept up.

The session is reset by COM_RESET_CONNECTION: locks, variables, temporary tables, transactions. The protocol takes one
statement, and only a query is let through: MariaDB's compound statements could end the transaction.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tasks.core.errors import ConfigurationError
from tasks.database.engine import ENGINES, QueryDeadline
from tasks.database.location import Location
from tasks.database.plain import reread_json
from tasks.database.server_engine import (
    CONNECT_S,
    ServerConnection,
    ServerEngine,
    ServerValues,
    import_driver,
    rows_of,
)
from tasks.database.server_gate import MysqlGate

DIALECT = "mysql"
_GONE = """
    1040 1053 1077 1079 1080 1129 1152 1158 1159 1160 1161 1184 1203 1226 1927 3032 4031
    1020 1205 1213 1412
    1016 1017 1021 1023 1024 1026 1030 1033 1034 1035 1194 1195 1712 1812 1815 1877 1932
    2002 2003 2005 2006 2013 2014 2026 2055
"""
GONE = frozenset(map(int, _GONE.split()))
"""Errors that say that the server is gone or full, that another session is in the way, that files or tables are damaged
or that the connection is lost, not that the SQL is wrong."""
_TIMES = (7, 10, 11, 12, 14)
"""Types of moments in the protocol: TIMESTAMP, DATE, TIME, DATETIME, NEWDATE."""
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


def _encryption(location: Location, options: dict[str, str]) -> dict[str, Any]:
    """Return the driver's options of encryption for `?sslmode=` and `?sslrootcert=`, as PostgreSQL spells them."""
    mode = options.pop("sslmode", "prefer")
    root = options.pop("sslrootcert", None)
    if options or mode not in _ENCRYPTIONS:
        wrong = next(iter(options), f"sslmode={mode}")
        raise ConfigurationError(
            f"{location}: {wrong} is not known. Known are sslmode ({', '.join(_ENCRYPTIONS)}) and sslrootcert."
        )
    if mode == "disable":
        return {"ssl_disabled": True}
    if mode == "prefer":
        return {}
    verifies = mode in ("verify-ca", "verify-full")
    encryption: dict[str, Any] = {
        "ssl_ca": root,
        "ssl_verify_cert": verifies,
        "ssl_verify_identity": mode == "verify-full",
    }
    if not root and not verifies:  # encrypted, with any certificate
        encryption["ssl"] = {"check_hostname": False, "verify_mode": False}
    return encryption


def _moment(text: str) -> str:
    """Return a moment as the server writes it, without zeros at the end of its fraction.

    >>> _moment("2026-11-01 09:30:00.000000"), _moment("09:30:00.250")
    ('2026-11-01 09:30:00', '09:30:00.25')
    """
    return text.rstrip("0").rstrip(".") if "." in text else text


def _converters(pymysql: Any) -> dict[Any, Any]:
    """Return what turns a value's text into a plain value, by the server's type of it."""
    converters = dict(pymysql.converters.conversions)
    for kind in _TIMES:
        converters[kind] = _moment
    converters[_BIT] = lambda raw: int.from_bytes(raw, "big")
    converters[_JSON] = reread_json
    return converters


COM_RESET_CONNECTION = 0x1F
SETTINGS = "time_zone = '+00:00', SESSION div_precision_increment = 12"
"""Moments in UTC, and quotients of whole numbers with 12 digits more than the dividend has; the server's own are 4."""


class _Connection(ServerConnection):
    driver = staticmethod(driver)
    open = staticmethod(open_reading)
    running = """
SELECT count(*) FROM information_schema.processlist
WHERE user = SUBSTRING_INDEX(USER(), '@', 1) AND info LIKE '/* limit %'
  AND time > CAST(SUBSTRING(info, 10, 9) AS UNSIGNED)
"""
    interrupted = 1317
    timed_out = frozenset({1969, 3024})  # MariaDB's max_statement_time, MySQL's max_execution_time
    too_large = frozenset({1037, 1038, 1041, 1114, 1301})

    @staticmethod
    def code(error: BaseException) -> Any:
        return error.args[0] if error.args else None

    @classmethod
    def is_unreachable(cls, error: BaseException) -> bool:
        code = cls.code(error)
        return code in GONE or (isinstance(error, driver().InterfaceError) and code == 0)

    @staticmethod
    def message(error: BaseException) -> str:
        """Return the server's message without the driver's tuple around it."""
        return " ".join(str(error.args[1] if len(error.args) > 1 else error).split())

    def gate(self) -> MysqlGate:
        ((self._mode,),) = rows_of(self._connection, "SELECT @@sql_mode")
        return MysqlGate("NO_BACKSLASH_ESCAPES" not in self._mode, "ANSI_QUOTES" in self._mode)

    def begin(self, deadline: QueryDeadline) -> None:
        connection = self._connection
        seconds = max(0.001, deadline.left)
        limit = f"max_execution_time = {int(seconds * 1000)}"
        if "MariaDB" in connection.get_server_info():
            limit = f"max_statement_time = {seconds:.3f}"
        with connection.cursor() as cursor:
            # the check of the SQL has read it under this mode
            mode = f"sql_mode = '{self._mode}'"
            cursor.execute(f"SET NAMES utf8mb4, SESSION {SETTINGS}, SESSION {mode}, SESSION {limit}")
            cursor.execute("START TRANSACTION READ ONLY")

    def send(self, sql: str, limit_s: int) -> tuple[tuple[str, ...] | None, Iterable[tuple[Any, ...]]]:
        cursor = self._connection.cursor(driver().cursors.SSCursor)
        cursor.execute(f"/* limit {limit_s} */ {sql}")
        description = cursor.description
        columns = None if description is None else tuple(entry[0] for entry in description)
        return columns, cursor

    def stop(self) -> None:
        with contextlib.suppress(Exception):
            other = open_reading(self._location)
            try:
                with other.cursor() as cursor:
                    cursor.execute(f"KILL QUERY {int(self._connection.thread_id())}")
            finally:
                other.close()

    def reset(self, finished: bool) -> None:
        if not finished:  # the server still executes the query or sends rows
            self.stop()
            self.close()
            return
        try:
            # the driver has no method for it
            self._connection._execute_command(COM_RESET_CONNECTION, b"")
            self._connection._read_ok_packet()
        except driver().Error:
            self.close()

    def current(self) -> bool:
        return bool(self._connection.open)

    def close(self) -> None:
        """Close the connection, whatever it is doing."""
        self._connection._force_close()


class _Values(ServerValues):
    dialect = DIALECT
    column_type = """
SELECT data_type FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = %s AND column_name = %s
"""
    text_types = frozenset(["char", "varchar", "text", "tinytext", "mediumtext", "longtext", "enum", "set"])
    number_types = frozenset(
        ["tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "year"]
    )
    # by bytes: case and accents count
    texts = (
        "SELECT BINARY {name}, count(*) FROM {source} "
        "WHERE char_length({name}) BETWEEN 1 AND {longest} GROUP BY BINARY {name}"
    )

    def rows(self, sql: str) -> Iterator[Any]:
        with self._connection.cursor(driver().cursors.SSCursor) as cursor:
            cursor.execute(sql)
            yield from cursor


ABSENT = frozenset({1044, 1049})
"""No such database, or none that the role may open: MySQL does not tell a reader which."""
READING = frozenset({"USAGE", "SELECT", "SHOW VIEW", "SHOW DATABASES"})
_GRANT = re.compile(r"GRANT (.+?) ON (?!\S+@)")
_COLUMN_LIST = re.compile(r"(?<!\s)\s*+\([^()]*\)")


class _Mysql(ServerEngine):
    """The engine of MySQL and MariaDB databases."""

    name = "mysql"
    dialect = DIALECT
    schemes = ("mysql", "mariadb")
    environment_variable = "MYSQL_PWD"
    sessions = _Connection
    stored_values = _Values
    # by name: create_time has whole seconds and is new after ALTER: copies of one database would be read in two orders
    tables = """
SELECT table_name, CASE table_type WHEN 'VIEW' THEN '' ELSE table_comment END, table_type = 'VIEW'
FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED', 'VIEW')
ORDER BY table_type = 'VIEW', table_name, BINARY table_name
"""
    columns = """
SELECT table_name, column_name, column_type, column_comment FROM information_schema.columns
WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position
"""
    keys = """
SELECT table_name, constraint_name, column_name, referenced_table_name, referenced_column_name
FROM information_schema.key_column_usage
WHERE table_schema = DATABASE() AND (constraint_name = 'PRIMARY' OR referenced_table_schema = DATABASE())
ORDER BY table_name, BINARY table_name, constraint_name, ordinal_position
"""
    server_name = "the server"
    grants = (
        "CREATE USER reader@'%' IDENTIFIED BY '...'; GRANT SELECT, SHOW VIEW ON `{database}`.* TO reader@'%'"
    )
    url_form = "mysql://user@host:port/database"
    login_sources = "the URL or MYSQL_PWD"
    refusals = (("using password", "login"), ("denied", "rights"), ("SSL|TLS|certificate", "encryption"))

    def is_absent(self, error: BaseException) -> bool:
        return self.sessions.code(error) in ABSENT

    def release(self, connection: Any) -> tuple[str, list[int]]:
        server = connection.get_server_info()
        # MariaDB may put a version of MySQL in front, for old clients
        numbers = re.findall(r"\d+", server.removeprefix("5.5.5-"))
        return "MariaDB" if "MariaDB" in server else "MySQL", [int(number) for number in numbers[:3]]

    def rights(self, connection: Any) -> tuple[str, str]:
        grants = (_GRANT.match(str(grant)) for (grant,) in rows_of(connection, "SHOW GRANTS"))
        right_lists = (_COLUMN_LIST.sub("", grant[1]) for grant in grants if grant)
        granted = {right.strip() for rights in right_lists for right in rights.split(",")}
        ((database,),) = rows_of(connection, "SELECT DATABASE()")
        beyond = ", ".join(sorted(granted - READING))
        return f"has more rights than to read: {beyond}" if beyond else "", database


ENGINES.register("mysql")(_Mysql())
