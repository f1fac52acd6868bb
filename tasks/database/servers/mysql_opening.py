"""Opens connections to MySQL or MariaDB whose transactions only read and whose values are plain; reads the schema."""

from itertools import groupby
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tasks.core.errors import ConfigurationError
from tasks.database.engine import Structure
from tasks.database.identifiers import quoted
from tasks.database.location import Location
from tasks.database.plain import plain_row, reread_json
from tasks.database.schema import Column, ForeignKey, Table

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
    """Return the module pymysql.

    Raises:
        ConfigurationError: it is not installed; the message names the extra.
    """
    try:
        import pymysql
    except ImportError as error:
        raise ConfigurationError(
            f"MySQL and MariaDB databases need the driver PyMySQL ({error}). "
            'Install it: pip install "crosscheck-sql[mysql]"'
        ) from None
    return pymysql


def open_reading(location: Location) -> Any:
    """Open a connection whose transactions only read, in UTC, and whose values are plain.

    Raises:
        pymysql.Error: it cannot be opened.
        ConfigurationError: the driver is not installed, or the URL names no database.
    """
    return open_connection(location, database_of(location))


def database_of(location: Location) -> str:
    """Return the name of a location's database.

    Raises:
        ConfigurationError: it names none.
    """
    database = unquote(urlsplit(location.address).path.strip("/"))
    if not database:
        raise ConfigurationError(f"{location} names no database. Write mysql://user@host:port/database.")
    return database


def open_connection(location: Location, database: str | None) -> Any:
    """Open a connection to a database, or to none, in UTC, whose values are plain.

    Raises:
        pymysql.Error: it cannot be opened.
        ConfigurationError: the driver is not installed, or the URL has an option that is not known.
    """
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


DIALECT = "mysql"

# by name: create_time has whole seconds and is new after ALTER, so copies of one database would be read in two orders
_TABLES = """
SELECT table_name, table_comment FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' ORDER BY table_name
"""
_COLUMNS = """
SELECT table_name, column_name, column_type, column_comment FROM information_schema.columns
WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position
"""
_KEYS = """
SELECT table_name, constraint_name, column_name, referenced_table_name, referenced_column_name
FROM information_schema.key_column_usage
WHERE table_schema = DATABASE() AND (constraint_name = 'PRIMARY' OR referenced_table_schema = DATABASE())
ORDER BY table_name, constraint_name, ordinal_position
"""


def read_structure(connection: Any, sample_rows: int) -> Structure:
    """Read tables with so many of their first rows, in the table's own order, and keys.

    The connection is one of `open_reading`, which gives plain values.
    """
    columns: dict[str, list[Column]] = {}
    for table, name, kind, comment in rows_of(connection, _COLUMNS):
        columns.setdefault(table, []).append(Column(name, kind, comment or ""))
    primary: dict[str, tuple[str, ...]] = {}
    foreign = []
    for (table, constraint), group in groupby(rows_of(connection, _KEYS), key=lambda row: (row[0], row[1])):
        members = list(group)
        own = tuple(row[2] for row in members)
        if constraint == "PRIMARY":
            primary[table] = own
        else:
            foreign.append(ForeignKey(table, own, members[0][3], tuple(row[4] for row in members)))
    tables = (
        Table(name, tuple(columns.get(name, ())), primary.get(name, ()), comment or "")
        for name, comment in rows_of(connection, _TABLES)
    )
    sampled = (table.with_rows(_first_rows(connection, table.name, sample_rows)) for table in tables)
    return Structure(tuple(sampled), tuple(foreign))


def rows_of(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query of our own."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [plain_row(row) for row in cursor.fetchall()]


def _first_rows(connection: Any, table: str, rows: int) -> list[tuple[Any, ...]]:
    return rows_of(connection, f"SELECT * FROM {quoted(table, DIALECT)} LIMIT {rows}") if rows else []
