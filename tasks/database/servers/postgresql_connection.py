"""Connections to PostgreSQL that only read.

Every query runs in a read-only transaction, which a statement of its own would have to leave, and the extended
protocol takes one statement only. Afterwards the transaction is rolled back and DISCARD ALL resets the session: locks,
settings, roles, temporary tables and prepared statements are gone. `statement_timeout` ends the query on the server;
SQL cannot move a timer that runs already. A cancel request follows if it should fail.
"""

import contextlib
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.core.errors import DatabaseUnavailableError
from tasks.core.records import Status
from tasks.database.engine import Connection, Cursor, Deadline
from tasks.database.location import Location
from tasks.database.plain import exact_row
from tasks.database.servers.gate import PostgresqlGate
from tasks.database.servers.postgresql_opening import driver, first_line, open_reading, unreachable
from tasks.database.servers.tokens import RefusedError
from tasks.database.servers.watchdog import Watchdog

if TYPE_CHECKING:
    import psycopg

CANCEL_AFTER_S = 0.1
"""Seconds after the deadline at which the query is cancelled from outside."""
TOO_LARGE = frozenset({"53200", "53400", "54000"})
"""Out of memory, beyond `temp_file_limit`, a value that is too large."""
CANCELLED = "57014"
"""By its deadline, or by another session."""
EARLY_S = 0.05
"""Seconds before its deadline from which on a cancelled query may have met it."""
_LINE = re.compile(r"^LINE (\d+):", re.MULTILINE)
CHUNK = 64
"""Rows that the driver holds at once."""


class PostgresConnection(Connection):
    """A connection to one database; `current` is False once the server has closed it."""

    def __init__(self, location: Location) -> None:
        psycopg = driver()
        self.errors = (psycopg.Error, RefusedError, UnicodeError)
        self._location = location
        self._connection = self._connected()
        self._read = False
        self._deadline = Deadline(0.0)
        try:
            self._gate = PostgresqlGate(*refused_names(self._connection))
            self._padding = _padding(self._connection)
        except psycopg.Error as error:
            raise DatabaseUnavailableError(f"{location}: {first_line(error)}") from error

    def execute(self, sql: str, deadline: Deadline) -> Cursor:
        """Start one query in a read-only transaction."""
        self._read, self._deadline = False, deadline
        if not self._gate.check(sql):
            return PostgresCursor(self, None, None)
        connection = self._connection
        milliseconds = max(1, int(deadline.left * 1000))
        connection.execute(f"BEGIN READ ONLY; SET LOCAL statement_timeout = {milliseconds}")
        watchdog = Watchdog(deadline.left + CANCEL_AFTER_S, self._cancel)
        cursor = connection.cursor()
        chunk = CHUNK if driver().pq.version() >= 170000 else 1
        sql = self._padding + sql
        rows = cursor.stream(sql, size=chunk)
        try:
            first = next(rows, None)
            described = cursor.description
            columns = self._described(sql) if described is None else tuple(each.name for each in described)
        except BaseException:
            self.end(watchdog)
            raise
        self._read = True
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

    def recover(self, error: BaseException) -> bool:
        """Connect again where the server ended connection or query before it gave a row.

        Raises:
            DatabaseUnavailableError: it cannot be connected again.
        """
        if not isinstance(error, driver().Error) or not unreachable(error) or self._read:
            return False
        self._connection.close()
        self._connection = self._connected()
        return True

    def explain(self, error: BaseException) -> tuple[Status, str]:
        """Return the status of a failed query, and the server's own message.

        Raises:
            DatabaseUnavailableError: the server is gone.
        """
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

    def _connected(self) -> "psycopg.Connection[Any]":
        try:
            return open_reading(self._location)
        except driver().Error as error:
            raise DatabaseUnavailableError(f"{self._location}: {first_line(error)}") from error

    def _cancel(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.cancel()


def _padding(connection: "psycopg.Connection[Any]") -> str:
    """Return a comment before each query that fills what `pg_stat_activity` shows of it.

    Other sessions of the role, whose SQL a model may have written, do not see a gold there.
    """
    shown = connection.execute(
        "SELECT pg_size_bytes(current_setting('track_activity_query_size'))"
    ).fetchone()
    return f"-- {'.' * shown[0] if shown else ''}\n"


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
SELECT DISTINCT p.proname FROM pg_proc p
LEFT JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
WHERE p.provolatile <> 'i' AND NOT p.proname = ANY (%s) AND NOT p.proname ~ %s
  AND (p.provolatile = 'v' OR d.objid IS NOT NULL OR p.pronamespace = 'pg_catalog'::regnamespace)
"""
_RELATIONS = """
SELECT relname FROM pg_class WHERE relname ~ '^_?pg_' AND NOT relname = ANY (%s)
UNION ALL VALUES ('foreign_server_options'), ('user_mapping_options')
"""


class RefusedNames(NamedTuple):
    """Names that SQL may not use, as the server compares them."""

    functions: Collection[str]
    relations: Collection[str]


def refused_names(connection: "psycopg.Connection[tuple[str]]") -> RefusedNames:
    """Read the names of functions and relations that SQL may not use on a connection."""
    functions = connection.execute(_FUNCTIONS, [FUNCTIONS.split(), FAMILIES])
    relations = connection.execute(_RELATIONS, [CATALOGS.split()])
    return RefusedNames(
        *(frozenset(name for (name,) in found.fetchall()) for found in (functions, relations))
    )
