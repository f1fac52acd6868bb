"""PostgreSQL: connections that only read, and their sessions in a worker process.

Every query runs in a read-only transaction, which a statement of its own would have to leave, and the extended
protocol takes one statement only. Afterwards the transaction is rolled back and DISCARD ALL resets the session: locks,
settings, roles, temporary tables and prepared statements are gone. `statement_timeout` ends the query on the server;
SQL cannot move a timer that runs already. A cancel request follows if it should fail.
"""

import contextlib
import re
from collections.abc import Collection
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tasks.core.errors import DatabaseUnavailableError
from tasks.core.records import Status
from tasks.database.engine import Cursor, Deadline
from tasks.database.location import Location
from tasks.database.plain import exact_row, plain, reread_json
from tasks.database.servers.engine import ServerConnection, Watchdog, import_driver, limit_of
from tasks.database.servers.gate import PostgresqlGate

if TYPE_CHECKING:
    import psycopg


CONNECT_S = 10
OPTIONS = (
    "-c default_transaction_read_only=on -c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres "
    "-c bytea_output=hex -c extra_float_digits=1 -c standard_conforming_strings=on"
)
GONE = frozenset({"25P03", "40001", "40P01", "55P03", "72000"})
"""States of sessions that the server ended, and of conflicts with other sessions and with recovery."""
GONE_CLASSES = ("08", "530", "531", "533", "57P", "58", "F0", "HV", "XX001", "XX002")
"""Beginnings of states that say that no connection, the server, its disk or its files are at fault, not the SQL."""
MAX_DIGITS = 300
"""Digits before the point of a numeric that is read as a number: no double has more."""
_AS_TEXT = """
    date timestamp time interval uuid inet cidr int4range int8range numrange tsrange tstzrange daterange
    int4multirange int8multirange nummultirange tsmultirange tstzmultirange datemultirange
"""


def driver() -> Any:
    """Return the module psycopg."""
    return import_driver("psycopg", "PostgreSQL databases need the driver psycopg 3", "postgresql")


def open_reading(location: Location) -> "psycopg.Connection[Any]":
    """Open a connection whose transactions only read and whose values are plain."""
    connection = open_connection(location, options=OPTIONS)
    _register_loaders(connection)
    return connection


def open_connection(
    location: Location, *, options: str, database: str | None = None
) -> "psycopg.Connection[Any]":
    """Open a connection to a location's database, or to another one of its server.

    `options` are settings of the session, as on the server's command line; the search path is added.
    """
    parts = urlsplit(location.address)
    if database is not None:
        parts = parts._replace(path=f"/{database}")
    query = dict(parse_qsl(parts.query))
    schema = query.pop("schema", "")
    address = urlunsplit(parts._replace(scheme="postgresql", query=urlencode(query)))
    path = (
        ",".join('"' + name.strip().replace('"', '""') + '"' for name in schema.split(",")) if schema else ""
    )
    options += " -c search_path=" + path.replace("\\", "\\\\").replace(" ", "\\ ") if path else ""
    more = {"password": location.password} if location.password else {}
    connection: psycopg.Connection[Any] = driver().connect(
        address,
        autocommit=True,
        connect_timeout=CONNECT_S,
        application_name="crosscheck",
        options=options,
        client_encoding="utf8",
        prepare_threshold=None,
        **more,
    )
    return connection


def unreachable(error: BaseException) -> bool:
    """Return whether an error of the driver is the server's or the connection's, whatever the SQL."""
    state = getattr(error, "sqlstate", None)
    if state is None:
        return isinstance(error, driver().OperationalError | driver().InterfaceError)
    return state in GONE or state.startswith(GONE_CLASSES)


def first_line(error: BaseException) -> str:
    """Return the first line of a driver's message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _register_loaders(connection: "psycopg.Connection[Any]") -> None:
    from psycopg.adapt import Loader
    from psycopg.types.datetime import TimetzLoader
    from psycopg.types.string import TextLoader

    class Number(Loader):
        def load(self, data: Any) -> Decimal | str:
            text = bytes(data).decode()
            return text if len(text.partition(".")[0]) > MAX_DIGITS else Decimal(text)

    class Moment(Loader):
        def load(self, data: Any) -> str:
            text = bytes(data).decode()
            return text + ":00" if text.endswith("+00") else text

    class ZonedTime(TimetzLoader):
        def load(self, data: Any) -> Any:
            return plain(super().load(data))

    class Json(Loader):
        def load(self, data: Any) -> str:
            return reread_json(bytes(data).decode())

    adapters = connection.adapters
    known = {info.name for info in adapters.types}
    for name in _AS_TEXT.split():
        if name in known:
            adapters.register_loader(name, TextLoader)
    adapters.register_loader("numeric", Number)
    adapters.register_loader("timestamptz", Moment)
    adapters.register_loader("timetz", ZonedTime)
    adapters.register_loader("json", Json)
    adapters.register_loader("jsonb", Json)


CANCEL_AFTER_S = 0.1
"""Seconds after the deadline at which the query is cancelled from outside."""
TOO_LARGE = frozenset({"53200", "53400", "54000"})
"""Out of memory, beyond `temp_file_limit`, a value that is too large."""
CANCELLED = "57014"
"""By its deadline, or by another session."""
EARLY_S = 0.05
"""Seconds before its deadline from which on a cancelled query may have met it."""
_RUNNING = """
SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND state = 'active'
  AND query_start + substring(query FROM '^-- limit ([0-9]+) ')::int * interval '1 second' < clock_timestamp()
"""
"""Queries of these connections whose time is over."""
_LINE = re.compile(r"^LINE (\d+):", re.MULTILINE)
CHUNK = 64
"""Rows that the driver holds at once."""


class PostgresConnection(ServerConnection):
    """A session in PostgreSQL."""

    driver = staticmethod(driver)
    open = staticmethod(open_reading)
    is_unreachable = staticmethod(unreachable)
    message = staticmethod(first_line)
    running = _RUNNING

    def __init__(self, location: Location) -> None:
        super().__init__(location)
        with self._available():
            self._gate = PostgresqlGate(*refused_names(self._connection))
            self._padding = _padding(self._connection)

    def execute(self, sql: str, deadline: Deadline) -> Cursor:
        """Start one query in a read-only transaction."""
        self._started = False
        self._deadline = deadline
        if not self._gate.check(sql):
            return PostgresCursor(self, None, None)
        connection = self._connection
        milliseconds = max(1, int(deadline.left * 1000))
        connection.execute(f"BEGIN READ ONLY; SET LOCAL statement_timeout = {milliseconds}")
        watchdog = Watchdog(deadline.left + CANCEL_AFTER_S, self._cancel)
        cursor = connection.cursor()
        chunk = CHUNK if driver().pq.version() >= 170000 else 1
        sql = f"-- limit {limit_of(deadline)} {self._padding}\n{sql}"
        rows = cursor.stream(sql, size=chunk)
        try:
            first = next(rows, None)
            described = cursor.description
            columns = self._described(sql) if described is None else tuple(each.name for each in described)
        except BaseException:
            self.end(watchdog)
            raise
        self._started = True
        return PostgresCursor(self, watchdog, columns, rows, first)

    def end(self, watchdog: Watchdog | None) -> None:
        """Roll back, and reset the session; a connection that cannot be reset is closed."""
        if watchdog is None:
            return
        try:
            if watchdog.stop() or self._connection.info.transaction_status.name == "ACTIVE":
                self._connection.close()  # cancelled, or more rows are on their way
                return
            self._connection.execute("ROLLBACK")
            self._connection.execute("DISCARD ALL")
        except driver().Error:
            self._connection.close()

    def _described(self, sql: str) -> tuple[str, ...]:
        """Return the columns of a query that gave no row: the driver drops the description of such a stream."""
        connection = self._connection.pgconn
        connection.prepare(b"", sql.encode())
        described = connection.describe_prepared(b"")
        return tuple((described.fname(place) or b"").decode() for place in range(described.nfields))

    def explain(self, error: BaseException) -> tuple[Status, str]:
        """Return the status of a failed query, and the server's own message."""
        state = getattr(error, "sqlstate", None)
        if state == CANCELLED and self._deadline.left < EARLY_S:
            return "timeout", ""
        if state in TOO_LARGE:
            return "too_large", _message(error)
        if "out of memory" in str(error):
            self.exhausted = True
            return "too_large", "The query ran out of memory."
        if isinstance(error, driver().Error) and (state == CANCELLED or unreachable(error)):
            raise DatabaseUnavailableError(f"{self._location}: {first_line(error)}") from error
        if state == "42601" and "multiple commands" in str(error):
            return "error", "The SQL holds more than one statement; give exactly one."
        return "error", _message(error)

    def current(self) -> bool:
        """Return whether the connection is open."""
        return not self._connection.closed

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _cancel(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.cancel()


def _padding(connection: "psycopg.Connection[Any]") -> str:
    """Return the comment before each query that fills what `pg_stat_activity` shows of it.

    Other sessions of the role, whose SQL a model may have written, do not see a gold there.
    """
    shown = connection.execute(
        "SELECT pg_size_bytes(current_setting('track_activity_query_size'))"
    ).fetchone()
    return "." * shown[0] if shown else ""


def _message(error: BaseException) -> str:
    """Return the server's message, with the line numbers of the query as it was before its padding."""
    return _LINE.sub(lambda found: f"LINE {int(found[1]) - 1}:", str(error).strip())


class PostgresCursor(Cursor):
    """A query whose rows the server sends as they are fetched."""

    def __init__(
        self,
        connection: PostgresConnection,
        watchdog: Watchdog | None,
        columns: tuple[str, ...] | None,
        rows: Any = (),
        first: tuple[Any, ...] | None = None,
    ) -> None:
        self._connection, self._watchdog, self._rows = connection, watchdog, rows
        self._waiting = [] if first is None else [first]
        self.columns = columns

    def fetch(self, rows: int) -> list[tuple[Any, ...]]:
        """Return the next rows."""
        found = [exact_row(row) for row in self._waiting]
        self._waiting = []
        for row in self._rows:
            found.append(exact_row(row))
            if len(found) >= rows:
                break
        return found

    def close(self) -> None:
        """End the query."""
        self._connection.end(self._watchdog)


FUNCTIONS = """
    age array_sample array_shuffle array_to_json array_to_string clock_timestamp col_description concat concat_ws
    convert convert_from convert_to current_database current_schema current_schemas enum_first enum_last enum_range
    extract format format_type gen_random_uuid generate_series getdatabaseencoding in_range length localtime
    localtimestamp make_timestamptz money now numeric obj_description overlaps phraseto_tsquery pg_column_size pg_typeof
    plainto_tsquery quote_literal quote_nullable random random_normal row_to_json shobj_description statement_timestamp
    time timeofday timetz timezone transaction_timestamp ts_debug ts_headline unaccent uuidv4 uuidv7 version
    websearch_to_tsquery xml xml_is_well_formed
"""
"""Functions that PostgreSQL's SQL may call, beside those that are IMMUTABLE, and a user's own that are STABLE. The
others can execute text as SQL, end sessions, lock, read files, write large objects, or tell of other sessions."""
FAMILIES = "^(json|jsonb|date|timestamp|timestamptz|to|has|st|uuid_generate)(_|$)"
"""Beginnings of functions of JSON, of moments, of conversions and formats, of rights, of PostGIS and of UUIDs."""
CATALOGS = """
    pg_attrdef pg_attribute pg_class pg_collation pg_constraint pg_description pg_enum pg_index pg_indexes pg_matviews
    pg_namespace pg_tables pg_timezone_abbrevs pg_timezone_names pg_type pg_views
"""
_FUNCTIONS = """
SELECT lower(p.proname), bool_or(
  p.pronargs > 0 AND p.pronargs - p.pronargdefaults <= 1 AND p.proargtypes[0] <> 'internal'::regtype
) AND lower(p.proname) NOT IN (
  SELECT lower(a.attname) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
  WHERE c.relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
)
FROM pg_proc p
LEFT JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
WHERE p.provolatile <> 'i' AND NOT p.proname = ANY (%s) AND NOT p.proname ~ %s
  AND (p.provolatile = 'v' OR d.objid IS NOT NULL OR p.pronamespace = 'pg_catalog'::regnamespace)
GROUP BY lower(p.proname)
"""
"""Functions, and whether one may be called in attribute notation, (value).name, and is no column's name either."""
_RELATIONS = """
SELECT relname FROM pg_class WHERE relname ~ '^_?pg_' AND NOT relname = ANY (%s)
UNION ALL VALUES ('foreign_server_options'), ('user_mapping_options')
"""


class RefusedNames(NamedTuple):
    """Names that SQL may not use, as the server compares them."""

    functions: Collection[str]
    relations: Collection[str]
    attributes: Collection[str]


def refused_names(connection: "psycopg.Connection[Any]") -> RefusedNames:
    """Read the names of functions and relations that SQL may not use on a connection."""
    functions = dict(connection.execute(_FUNCTIONS, [FUNCTIONS.split(), FAMILIES]).fetchall())
    relations = connection.execute(_RELATIONS, [CATALOGS.split()]).fetchall()
    attributes = frozenset(name for name, is_attribute in functions.items() if is_attribute)
    return RefusedNames(frozenset(functions), frozenset(name for (name,) in relations), attributes)
