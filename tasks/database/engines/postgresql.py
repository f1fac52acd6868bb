"""PostgreSQL, by psycopg 3.

The extended protocol takes one statement only, so that SQL cannot leave its transaction. Afterwards the transaction is
rolled back and DISCARD ALL resets the session: locks, settings, roles, temporary tables and prepared statements are
gone. SQL cannot move the timer of `statement_timeout` that runs already.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tasks.core.records import Status
from tasks.database.dialects import quoted
from tasks.database.engine import ENGINES, QueryDeadline
from tasks.database.limits import OUT_OF_MEMORY, SEVERAL_STATEMENTS
from tasks.database.location import Location
from tasks.database.plain import plain, reread_json
from tasks.database.server_engine import (
    CONNECT_S,
    ServerConnection,
    ServerEngine,
    ServerValues,
    import_driver,
    rows_of,
)
from tasks.database.server_gate import PostgresqlGate

if TYPE_CHECKING:
    import psycopg


DIALECT = "postgres"
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
    if schema:
        path = ",".join(quoted(name.strip(), DIALECT) for name in schema.split(","))
        options += " -c search_path=" + path.replace("\\", "\\\\").replace(" ", "\\ ")
    connection: psycopg.Connection[Any] = driver().connect(
        address,
        autocommit=True,
        connect_timeout=CONNECT_S,
        application_name="crosscheck",
        options=options,
        client_encoding="utf8",
        prepare_threshold=None,
        password=location.password or None,  # None: libpq takes it from PGPASSWORD or the password file
    )
    return connection


def _register_loaders(connection: "psycopg.Connection[Any]") -> None:
    """Let values be read as the results of other engines have them: exact numbers, times and JSON as text."""
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
    registered = {info.name for info in adapters.types}
    for name in _AS_TEXT.split():
        if name in registered:
            adapters.register_loader(name, TextLoader)
    adapters.register_loader("numeric", Number)
    adapters.register_loader("timestamptz", Moment)
    adapters.register_loader("timetz", ZonedTime)
    adapters.register_loader("json", Json)
    adapters.register_loader("jsonb", Json)


TOO_LARGE = frozenset({"53200", "53400", "54000"})
"""Out of memory, beyond `temp_file_limit`, a value that is too large."""
_LINE = re.compile(r"^LINE (\d+):", re.MULTILINE)
CHUNK = 64
"""Rows that the driver holds at once."""


class _Connection(ServerConnection):
    driver = staticmethod(driver)
    open = staticmethod(open_reading)
    running = """
SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND state = 'active'
  AND query_start + substring(query FROM '^-- limit ([0-9]+) ')::int * interval '1 second' < clock_timestamp()
"""
    interrupted = "57014"
    too_large = TOO_LARGE

    @staticmethod
    def code(error: BaseException) -> str | None:
        return getattr(error, "sqlstate", None)

    @classmethod
    def is_unreachable(cls, error: BaseException) -> bool:
        state = cls.code(error)
        if state is None:
            return isinstance(error, driver().OperationalError | driver().InterfaceError)
        return state in GONE or state.startswith(GONE_CLASSES)

    @staticmethod
    def message(error: BaseException) -> str:
        return next(iter(str(error).strip().splitlines()), type(error).__name__)

    def gate(self) -> PostgresqlGate:
        self._filler = _filler(self._connection)
        return gate_of(self._connection)

    def begin(self, deadline: QueryDeadline) -> None:
        milliseconds = max(1, int(deadline.left * 1000))
        self._connection.execute(f"BEGIN READ ONLY; SET LOCAL statement_timeout = {milliseconds}")

    def send(self, sql: str, limit_s: int) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        """Send a query after a comment with its limit, by which a query that the server still executes is found."""
        cursor = self._connection.cursor()
        chunk = CHUNK if driver().pq.version() >= 170000 else 1  # libpq 17 is the first that streams chunks
        sql = f"-- limit {limit_s} {self._filler}\n{sql}"
        rows = cursor.stream(sql, size=chunk)
        first = next(rows, None)
        described = cursor.description  # None without a row
        columns = self._described(sql) if described is None else tuple(column.name for column in described)
        return columns, rows if first is None else chain([first], rows)

    def stop(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.cancel()

    def reset(self, finished: bool) -> None:
        try:
            if self._connection.info.transaction_status.name == "ACTIVE":  # more rows are on their way
                self.close()
                return
            self._connection.execute("ROLLBACK")
            self._connection.execute("DISCARD ALL")
        except driver().Error:
            self.close()

    def _described(self, sql: str) -> tuple[str, ...]:
        """Return the columns of a query that gave no row: the driver drops the description of such a stream."""
        connection = self._connection.pgconn
        connection.prepare(b"", sql.encode())
        described = connection.describe_prepared(b"")
        return tuple((described.fname(index) or b"").decode() for index in range(described.nfields))

    def explain(self, error: BaseException) -> tuple[Status, str]:
        if "out of memory" in str(error) and self.code(error) not in TOO_LARGE:
            self.exhausted = True
            return "too_large", OUT_OF_MEMORY
        return super().explain(error)

    def explanation(self, error: BaseException) -> str:
        """Return the message, with the line numbers of the query as it was before its padding."""
        if self.code(error) == "42601" and "multiple commands" in str(error):
            return SEVERAL_STATEMENTS
        return _LINE.sub(lambda line: f"LINE {int(line[1]) - 1}:", str(error).strip())

    def current(self) -> bool:
        return not self._connection.closed

    def close(self) -> None:
        self._connection.close()


def _filler(connection: "psycopg.Connection[Any]") -> str:
    """Return the comment before each query that fills what `pg_stat_activity` shows of it.

    Other sessions of the role, whose SQL a model may have written, do not see a gold there.
    """
    row = connection.execute("SELECT pg_size_bytes(current_setting('track_activity_query_size'))").fetchone()
    return "." * row[0] if row else ""


FUNCTIONS = """
    age array_sample array_shuffle array_to_json array_to_string clock_timestamp col_description concat concat_ws
    convert convert_from convert_to current_database current_schema current_schemas enum_first enum_last enum_range
    extract format format_type gen_random_uuid generate_series getdatabaseencoding in_range length localtime
    localtimestamp make_timestamptz money now numeric obj_description overlaps phraseto_tsquery pg_column_size pg_typeof
    plainto_tsquery quote_literal quote_nullable random random_normal row_to_json shobj_description statement_timestamp
    time timeofday timetz timezone transaction_timestamp ts_debug ts_headline unaccent uuidv4 uuidv7 version
    websearch_to_tsquery xml xml_is_well_formed
"""
"""Functions of PostgreSQL and of extensions that SQL may call, beside those that are IMMUTABLE, and a user's own that
are STABLE. The others can execute text as SQL, end sessions, lock, read files, write large objects, or tell of
other sessions."""
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
CROSS JOIN LATERAL (SELECT d.objid IS NOT NULL OR p.pronamespace = 'pg_catalog'::regnamespace) k (is_known)
WHERE p.provolatile <> 'i' AND NOT (is_known AND (p.proname = ANY (%s) OR p.proname ~ %s))
  AND (p.provolatile = 'v' OR is_known)
GROUP BY lower(p.proname)
"""
"""Functions, and whether one may be called in attribute notation, (value).name, and is no column's name either."""
_RELATIONS = """
SELECT relname FROM pg_class WHERE relname ~ '^_?pg_' AND NOT relname = ANY (%s)
UNION ALL VALUES ('foreign_server_options'), ('user_mapping_options')
"""


def gate_of(connection: "psycopg.Connection[Any]") -> PostgresqlGate:
    """Read the names of functions and relations that SQL may not use on a connection."""
    functions = dict(connection.execute(_FUNCTIONS, [FUNCTIONS.split(), FAMILIES]).fetchall())
    relations = connection.execute(_RELATIONS, [CATALOGS.split()]).fetchall()
    attributes = frozenset(name for name, is_attribute in functions.items() if is_attribute)
    return PostgresqlGate(frozenset(functions), frozenset(name for (name,) in relations), attributes)


# what the role may read: tables, partitioned ones without their parts, foreign tables, materialized views with content;
# then views but those of extensions
_LISTED = """
WITH listed AS (
  SELECT c.oid, c.relname AS name, c.relkind = 'v' AS is_view
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'f', 'm', 'v') AND NOT c.relispartition AND n.nspname = ANY (current_schemas(false))
    AND c.relispopulated AND has_any_column_privilege(c.oid, 'SELECT') AND pg_table_is_visible(c.oid)
    AND (c.relkind <> 'v' OR NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e'))
)
"""


class _Values(ServerValues):
    dialect = DIALECT
    column_type = """
SELECT t.typcategory::text FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = quote_ident(%s)::regclass AND a.attname = %s
"""
    text_types = frozenset("se")  # categories: string, enum
    number_types = frozenset("n")
    texts = (
        "SELECT {name}::text, count(*) FROM {source} "
        "WHERE length({name}::text) BETWEEN 1 AND {longest} GROUP BY 1"
    )

    def rows(self, sql: str) -> Iterator[Any]:
        with self._connection.transaction(), self._connection.cursor(name="values") as cursor:
            cursor.itersize = 10_000
            cursor.execute(sql)
            yield from cursor


_ABSENT = re.compile(r'database "[^"]*" does not exist')
_RIGHTS = """
SELECT 'is a superuser' FROM pg_roles WHERE rolname = current_user AND rolsuper
UNION ALL
SELECT 'is a member of ' || rolname FROM pg_roles
WHERE rolname IN ('pg_write_all_data', 'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')
  AND pg_has_role(current_user, oid, 'MEMBER')
UNION ALL
(SELECT 'may write the table ' || c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND n.nspname !~ '^pg_' AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') ORDER BY c.oid LIMIT 1)
UNION ALL
(SELECT 'may create tables in the schema ' || nspname FROM pg_namespace
WHERE nspname !~ '^pg_' AND has_schema_privilege(oid, 'CREATE') ORDER BY oid LIMIT 1)
UNION ALL
SELECT 'may create schemas' WHERE has_database_privilege(current_database(), 'CREATE')
"""


class _Postgresql(ServerEngine):
    """The engine of PostgreSQL databases."""

    name = "postgresql"
    dialect = DIALECT
    schemes = ("postgresql", "postgres")
    environment_variable = "PGPASSWORD"
    sessions = _Connection
    stored_values = _Values
    tables = (
        _LISTED + "SELECT name, obj_description(oid, 'pg_class'), is_view FROM listed ORDER BY is_view, oid"
    )
    columns = (
        _LISTED
        + """
SELECT t.name, a.attname, format_type(a.atttypid, a.atttypmod), col_description(a.attrelid, a.attnum)
FROM listed t JOIN pg_attribute a ON a.attrelid = t.oid
WHERE a.attnum > 0 AND NOT a.attisdropped AND has_column_privilege(t.oid, a.attnum, 'SELECT')
ORDER BY t.oid, a.attnum
"""
    )
    keys = (
        _LISTED
        + """
SELECT t.name, k.oid, a.attname, p.name, b.attname
FROM pg_constraint k JOIN listed t ON t.oid = k.conrelid LEFT JOIN listed p ON p.oid = k.confrelid
CROSS JOIN unnest(k.conkey, k.confkey) WITH ORDINALITY AS m(own, other, place)
JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = m.own
LEFT JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = m.other
WHERE k.contype IN ('p', 'f') AND k.conparentid = 0 AND (k.contype = 'p' OR p.oid IS NOT NULL)
ORDER BY t.oid, k.oid, m.place
"""
    )
    server_name = "PostgreSQL"
    grants = (
        "CREATE ROLE reader LOGIN PASSWORD '...'; GRANT CONNECT ON DATABASE \"{database}\" TO reader; "
        "GRANT USAGE ON SCHEMA public TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader; "
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC; ALTER ROLE reader SET temp_file_limit = '1GB'"
    )
    url_form = "postgresql://user@host:port/database"
    login_sources = "the URL, PGPASSWORD or ~/.pgpass"
    refusals = (
        ("password|authentication", "login"),
        ("permission denied", "rights"),
        (r"sslmode|certificate|SSL (?!SYSCALL)", "encryption"),
    )

    def is_absent(self, error: BaseException) -> bool:
        return _ABSENT.search(str(error)) is not None

    def release(self, connection: Any) -> tuple[str, list[int]]:
        return "PostgreSQL", [*divmod(connection.info.server_version, 10000)]

    def rights(self, connection: Any) -> tuple[str, str]:
        return ", ".join(right for (right,) in rows_of(connection, _RIGHTS)), connection.info.dbname


ENGINES.register("postgresql")(_Postgresql())
