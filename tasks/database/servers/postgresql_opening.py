"""Opens connections to PostgreSQL whose transactions only read and whose values are plain, and reads the schema."""

from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tasks.core.errors import ConfigurationError
from tasks.database.engine import Structure
from tasks.database.identifiers import quoted
from tasks.database.location import Location
from tasks.database.plain import plain, plain_row, reread_json
from tasks.database.schema import Column, ForeignKey, Table

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
MOST_DIGITS = 300
"""Digits before the point of a numeric that is read as a number: no double has more."""
_AS_TEXT = """
    date timestamp time interval uuid inet cidr int4range int8range numrange tsrange tstzrange daterange
    int4multirange int8multirange nummultirange tsmultirange tstzmultirange datemultirange
"""


def driver() -> Any:
    """Return the module psycopg.

    Raises:
        ConfigurationError: it is not installed; the message names the extra.
    """
    try:
        import psycopg
    except ImportError as error:
        raise ConfigurationError(
            f"PostgreSQL databases need the driver psycopg 3 ({error}). "
            'Install it: pip install "crosscheck-sql[postgresql]"'
        ) from None
    return psycopg


def open_reading(location: Location) -> "psycopg.Connection[Any]":
    """Open a connection whose transactions only read and whose values are plain.

    Raises:
        psycopg.Error: it cannot be opened.
        ConfigurationError: the driver is not installed.
    """
    connection = open_connection(location, options=OPTIONS)
    _register_loaders(connection)
    return connection


def open_connection(
    location: Location, *, options: str, database: str | None = None
) -> "psycopg.Connection[Any]":
    """Open a connection to a location's database, or to another one of its server.

    `options` are settings of the session, as on the server's command line; the search path is added.

    Raises:
        psycopg.Error: it cannot be opened.
        ConfigurationError: the driver is not installed.
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
            return text if len(text.partition(".")[0]) > MOST_DIGITS else Decimal(text)

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


DIALECT = "postgres"

# tables, partitioned ones without their parts, foreign tables, materialized views; other views hold no data
_TABLES = """
SELECT c.oid, c.relname, obj_description(c.oid, 'pg_class')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f', 'm') AND NOT c.relispartition AND n.nspname = ANY (current_schemas(false))
  AND has_table_privilege(c.oid, 'SELECT') AND pg_table_is_visible(c.oid)
ORDER BY c.oid
"""
_COLUMNS = """
SELECT a.attrelid, a.attname, format_type(a.atttypid, a.atttypmod), col_description(a.attrelid, a.attnum)
FROM pg_attribute a WHERE a.attrelid = ANY (%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""
_KEYS = """
SELECT k.contype, k.conrelid, k.confrelid,
  ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY AS p(num, place)
        JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = p.num ORDER BY p.place),
  ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY AS p(num, place)
        JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = p.num ORDER BY p.place)
FROM pg_constraint k WHERE k.contype IN ('p', 'f') AND k.conrelid = ANY (%s) AND k.conparentid = 0
ORDER BY k.conrelid, k.oid
"""


def read_structure(connection: "psycopg.Connection[Any]", sample_rows: int) -> Structure:
    """Read tables with so many of their first rows, in the table's own order, and keys.

    The connection is one of `open_reading`, which gives plain values.
    """
    listed = connection.execute(_TABLES).fetchall()
    names = {oid: name for oid, name, _ in listed}
    columns: dict[int, list[Column]] = {oid: [] for oid in names}
    for oid, name, kind, comment in connection.execute(_COLUMNS, [list(names)]).fetchall():
        columns[oid].append(Column(name, kind, comment or ""))
    primary: dict[int, tuple[str, ...]] = {}
    foreign = []
    for kind, table, parent, own, others in connection.execute(_KEYS, [list(names)]).fetchall():
        if kind in (b"p", "p"):
            primary[table] = tuple(own)
        elif parent in names:
            foreign.append(ForeignKey(names[table], tuple(own), names[parent], tuple(others)))
    tables = (
        Table(name, tuple(columns[oid]), primary.get(oid, ()), comment or "") for oid, name, comment in listed
    )
    sampled = (table.with_rows(_first_rows(connection, table.name, sample_rows)) for table in tables)
    return Structure(tuple(sampled), tuple(foreign))


def _first_rows(connection: "psycopg.Connection[Any]", table: str, rows: int) -> list[tuple[Any, ...]]:
    sql = f"SELECT * FROM {quoted(table, DIALECT)} LIMIT {rows}"
    return [plain_row(row) for row in connection.execute(sql).fetchall()] if rows else []
