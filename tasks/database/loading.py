"""Copies SQLite databases into PostgreSQL, MySQL, MariaDB and DuckDB. Every value arrives as SQLite reads it.

A SQLite column may hold values of any class, so its values decide on the type of the copy, not its declaration:

| values | type of the copy |
|--|--|
| integers | integer of 64 bits |
| numbers, the integers among them within 2**53 | double |
| BLOBs | blob |
| anything else, dates too | text: numbers in digits that give the same number, BLOBs in hexadecimal |

A column without values has the type of its declaration.

What the file contains is evaluated in processes of the sandbox, within its limits: every value once before anything is
written, and again for the rows, in the process that sends them.
"""

import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tasks.core.errors import ConfigurationError, DataError, first_problem
from tasks.core.files import atomic_write
from tasks.core.lazy import LazyModule
from tasks.core.wording import shorten
from tasks.database.database import Database
from tasks.database.dialects import SQLITE, dialect_of, quoted
from tasks.database.engine import engine_of
from tasks.database.engines import mysql, postgresql
from tasks.database.engines.duckdb import DIALECT, HERE
from tasks.database.engines.sqlite import open_file
from tasks.database.limits import MIB, Limits
from tasks.database.location import Location
from tasks.database.sandbox.runner import in_sandbox
from tasks.database.sandbox.session import SqlSession
from tasks.database.schema import Column, Table

if TYPE_CHECKING:
    import duckdb
    import sqlalchemy as sa
else:
    duckdb = LazyModule("duckdb")
    sa = LazyModule("sqlalchemy")

SURVEY_S = 600.0
"""Seconds of reading all values of one table."""
COPY_S = 86_400.0
"""Seconds of copying one database."""
LIMITS = Limits(timeout_s=SURVEY_S, memory_mb=2048, writes_files=True)
CHUNK = 5000
"""Rows that are sent at once."""
CHUNK_BYTES = 16 * MIB
"""Bytes of rows after which no further one is sent with them."""
TARGETS = ("postgresql", "mysql", "duckdb")
MAX_IN_KEY = 768
"""Characters of a text in a key of MySQL."""
_CLASSES = """
SELECT typeof({0}), max(length({0})),
  max(typeof({0}) = 'integer' AND {0} NOT BETWEEN -9007199254740992 AND 9007199254740992)
FROM {1} GROUP BY 1
"""
_COLLATION = """
SELECT collation_name FROM information_schema.collations
WHERE collation_name IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin', 'utf8mb4_bin')
ORDER BY collation_name = 'utf8mb4_bin' LIMIT 1
"""
"""MySQL's collation by bytes, as SQLite's; only in the last one, blanks at the end of a text do not count."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A database that was copied, or needed not be."""

    database: str
    to: str  # where the copy is
    tables: int
    rows: int
    copied: bool  # False: tables of these names with these numbers of rows are there already
    notes: tuple[str, ...] = ()  # what differs from the source, in sentences


def copy_database(database: Database, to: Location) -> Copy:
    """Copy the tables of a SQLite database; nothing that is there before is changed.

    A copy in MySQL may lack foreign keys, because an earlier call was killed: they are added.
    """
    if not engine_of(database.location).copied:
        raise ConfigurationError(
            f'Database "{database.id}" is {database.location}: only SQLite databases are copied.'
        )
    if to.engine not in TARGETS:
        raise ConfigurationError(
            f"{to}: databases are copied into {', '.join(TARGETS)}, not into {to.engine}."
        )
    source = database.location
    surveys = {
        table.name: in_sandbox(survey, source, database, table, timeout_s=LIMITS.timeout_s, limits=LIMITS)
        for table in _tables_of(database)
    }
    return in_sandbox(copy_tables, source, database, surveys, to, timeout_s=COPY_S, limits=LIMITS)


def _tables_of(database: Database) -> list[Table]:
    return [table for table in database.schema.tables if not table.view]


@dataclass(frozen=True, slots=True)
class Survey:
    """What the values of a table decide about its copy."""

    rows: int
    # by column: the classes of its values ("large" for integers beyond 2**53), and the characters of the longest one
    columns: Mapping[str, tuple[set[str], int]]


def survey(session: SqlSession, database: Database, table: Table) -> Survey:
    """Inside a worker: read every value of a table once.

    The length of a column is at least 1. It is an upper bound, which decides the types of keys in the copy.
    """
    source = quoted(table.name, SQLITE)
    ((rows,),) = _read(session, database, f"SELECT count(*) FROM {source}")
    columns = {}
    for column in table.columns:
        values = _read(session, database, _CLASSES.format(quoted(column.name, SQLITE), source))
        classes = {"large" if is_large else type_name for type_name, _, is_large in values}
        # as text, a BLOB has two characters per byte, and a number some more than SQLite says
        lengths = [2 * (length or 0) + (0 if type_name == "text" else 20) for type_name, length, _ in values]
        columns[column.name] = (classes, max([1, *lengths]))
    return Survey(rows, columns)


def _read(session: SqlSession, database: Database, sql: str) -> list[tuple[Any, ...]]:
    result = session.run(sql)
    if not result.ok:
        raise _unreadable(database, result.error)
    return result.rows


def _unreadable(database: Database, reason: object) -> DataError:
    return DataError(
        f'Database "{database.id}": SQLite cannot read {database.path} ({reason}). Fetch the file again, or leave the '
        "database out."
    )


def copy_tables(session: SqlSession, database: Database, surveys: Mapping[str, Survey], to: Location) -> Copy:
    """Inside a worker: copy the tables of a database whose values are known."""
    write = _copy_to_duckdb if to.engine == "duckdb" else _copy_to_server
    try:
        with open_file(database.path, session.limits) as connection:
            source = _Source(database, surveys, connection, engine_of(to).dialect)
            copied = write(source, to)
    except sqlite3.Error as error:
        raise _unreadable(database, error) from error
    return Copy(
        database.id, str(to), len(source.rows), sum(source.rows.values()), copied, tuple(source.notes)
    )


class _Source:
    """The tables of a SQLite database as SQLAlchemy's tables of the copy."""

    def __init__(
        self,
        database: Database,
        surveys: Mapping[str, Survey],
        connection: sqlite3.Connection,
        dialect: str,
    ) -> None:
        self.database = database
        self.schema = database.schema
        self.metadata = sa.MetaData()  # the tables, without foreign keys
        self.rows: dict[str, int] = {}  # number of rows by the copy's name of a table
        self.notes: list[str] = []  # what differs in the copy, in sentences
        self._connection = connection
        self._surveys = surveys
        self._folded = dialect_of(dialect).folded
        self._tables = _tables_of(database)
        for table in self._tables:
            self._add(table)
        views = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
        if views:
            self.notes.append(f"Not copied, because they are views: {', '.join(views)}.")

    def chunks(self) -> "Iterator[tuple[sa.Table, list[tuple[Any, ...]]]]":
        """Yield the rows of each table in lists of limited size, beside the copy of the table."""
        for table in self._tables:
            copy = self.metadata.tables[self._folded(table.name)]
            kinds = [column.info["kind"] for column in copy.columns]
            names = ", ".join(quoted(column.name, SQLITE) for column in table.columns)
            rows = self._connection.execute(f"SELECT {names} FROM {quoted(table.name, SQLITE)}")
            for chunk in _chunks(rows):
                yield copy, [tuple(map(_as_kind, row, kinds)) for row in chunk]

    def foreign_keys(self) -> "Iterator[sa.ForeignKeyConstraint]":
        """Yield the foreign keys, each as a part of its table."""
        for key in self.schema.foreign_keys:
            parent = self.metadata.tables[self._folded(key.parent)]
            constraint = sa.ForeignKeyConstraint(
                [self._folded(name) for name in key.columns],
                [parent.c[self._folded(name)] for name in key.parent_columns],
            )
            self.metadata.tables[self._folded(key.table)].append_constraint(constraint)
            yield constraint

    def _add(self, table: Table) -> None:
        """Add a table to the metadata, with the types that its values need."""
        keys = self.schema.foreign_keys
        own_columns = [key.columns for key in keys if key.table == table.name]
        referenced_columns = [key.parent_columns for key in keys if key.parent == table.name]
        foreign_columns = set(chain.from_iterable((*own_columns, *referenced_columns)))
        columns: list[sa.Column[Any]] = []
        unfit_for_key = []
        for column in table.columns:
            classes, length = self._surveys[table.name].columns[column.name]
            kind = _kind(column, classes)
            has_values = bool(classes - {"null"})
            if has_values and kind == "text" and _declared_kind(column.type) != "text":
                self.notes.append(
                    f"{table.name}.{column.name} ({column.type}) is text, as not all values fit it."
                )
            too_long = kind == "text" and length > MAX_IN_KEY
            if column.name in table.primary_key and ("null" in classes or kind == "blob" or too_long):
                unfit_for_key.append(column.name)
            # MySQL needs a length of each text in a key
            in_key = column.name in table.primary_key or column.name in foreign_columns
            columns.append(
                sa.Column(
                    sa.sql.quoted_name(self._folded(column.name), True),
                    _sql_type(kind, length if in_key and not too_long else None),
                    autoincrement=False,
                    info={"kind": kind},
                )
            )
        name = self._folded(table.name)
        copy = sa.Table(sa.sql.quoted_name(name, True), self.metadata, *columns)
        if unfit_for_key:
            self.notes.append(
                f"{table.name}: without its primary key, which has NULL, a BLOB or a long text."
            )
        elif table.primary_key:
            copy.append_constraint(sa.PrimaryKeyConstraint(*map(self._folded, table.primary_key)))
        self.rows[name] = self._surveys[table.name].rows


def _chunks(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield rows in lists that are limited in length and in bytes."""
    chunk: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += sum(map(sys.getsizeof, row))
        if len(chunk) == CHUNK or size > CHUNK_BYTES:
            yield chunk
            chunk = []
            size = 0
    if chunk:
        yield chunk


def _kind(column: Column, classes: set[str]) -> str:
    """Return the type of a column by its values' classes ("large": integers beyond 2**53), else by its declaration."""
    present = classes - {"null"}
    if not present:
        return _declared_kind(column.type)
    if present <= {"integer", "large"}:
        return "integer"
    if present <= {"integer", "real"}:
        return "real"
    return "blob" if present == {"blob"} else "text"


def _declared_kind(declared: str) -> str:
    """Return the kind of a declaration (https://www.sqlite.org/datatype3.html, section 3.1); dates are text.

    >>> [_declared_kind(name) for name in ("VARCHAR(9)", "BIGINT", "DATETIME", "DECIMAL(9, 2)", "")]
    ['text', 'integer', 'text', 'real', 'text']
    """
    name = declared.upper()
    if "INT" in name or name.startswith("BOOL"):
        return "integer"
    if "BLOB" in name:
        return "blob"
    texts = ("CHAR", "CLOB", "TEXT", "DATE", "TIME")
    return "text" if not name or any(part in name for part in texts) else "real"


def _sql_type(kind: str, length: int | None) -> "sa.types.TypeEngine[Any]":
    """Return SQLAlchemy's type of a kind: "text", "blob", "integer" or "real".

    `length` is that of a text in a key, which MySQL needs; None outside of keys, and for a text too long for one.
    """
    from sqlalchemy.dialects.mysql import LONGBLOB, LONGTEXT, VARCHAR

    if kind == "text":
        return sa.Text().with_variant(VARCHAR(length) if length else LONGTEXT(), "mysql")
    if kind == "blob":
        return sa.LargeBinary().with_variant(LONGBLOB(), "mysql")
    return sa.BigInteger() if kind == "integer" else sa.Double()


def _as_kind(value: Any, kind: str) -> Any:
    """Return a value of SQLite as a column of the copy takes it."""
    if value is None:
        return None
    if kind == "real":
        return float(value)
    if kind == "text" and not isinstance(value, str):
        return value.hex().upper() if isinstance(value, bytes) else str(value)
    return value


def _is_copied(source: _Source, held: dict[str, int], to: Location) -> bool:
    """Return whether a database is a copy already, given the tables and views in it with their numbers of rows."""
    if held and held != source.rows:
        raise ConfigurationError(
            f"{to} has tables that are no copy of {source.database.id}, or not a complete one: "
            f"{shorten([*held], 5)}. Name another database, or drop them first."
        )
    return bool(held)


def _copy_to_server(source: _Source, to: Location) -> bool:
    """Copy all tables in one transaction; return False where they are there already."""
    driver, connect = _DRIVERS[to.engine]
    engine = sa.create_engine(f"{driver}://", creator=lambda: connect(to), poolclass=sa.NullPool)
    try:
        with engine.begin() as connection:
            inspector = sa.inspect(connection)
            names = [*inspector.get_table_names(), *inspector.get_view_names()]
            if _is_copied(source, {name: _count(connection, name) for name in names}, to):
                if to.engine == "mysql":
                    _add_foreign_keys(connection, source)
                return False
            created: list[sa.Table] = []
            try:
                _fill(connection, source, created)
            except BaseException:
                with suppress(sa.exc.SQLAlchemyError):  # MySQL commits each table that it creates
                    source.metadata.drop_all(connection, created)
                raise
    except sa.exc.SQLAlchemyError as error:
        reason = " ".join(str(getattr(error, "orig", error)).split())
        raise DataError(
            f"{to}: {reason}. Check the URL of --to. Its role must own the database; to create one, PostgreSQL's "
            "role needs CREATEDB, MySQL's ALL on it."
        ) from error
    return True


def _fill(connection: "sa.Connection", source: _Source, created: "list[sa.Table]") -> None:
    """Create the tables, insert the rows, and add the foreign keys that hold."""
    options = {}
    if connection.dialect.name == "mysql":
        options = {"charset": "utf8mb4", "collate": connection.execute(sa.text(_COLLATION)).scalar_one()}
    for table in source.metadata.tables.values():
        table.dialect_options["mysql"].update(options)
        table.create(connection, checkfirst=False)
        created.append(table)
    for table, rows in source.chunks():
        connection.execute(
            table.insert(), [dict(zip(table.columns.keys(), row, strict=True)) for row in rows]
        )
    _add_foreign_keys(connection, source)


def _add_foreign_keys(connection: "sa.Connection", source: _Source) -> None:
    """Add the foreign keys that hold and are not there yet; columns to which one points become a unique key."""
    is_mysql = connection.dialect.name == "mysql"
    inspector = sa.inspect(connection)
    unique_keys = [list(table.primary_key.columns) for table in source.metadata.tables.values()]
    for key in source.foreign_keys():
        existing_keys = inspector.get_foreign_keys(key.table.name) if is_mysql else ()
        if any(existing["constrained_columns"] == key.column_keys for existing in existing_keys):
            continue
        # a statement of MySQL that changes a table ends every transaction
        nested = nullcontext() if is_mysql else connection.begin_nested()
        try:
            with nested:
                parents = [element.column for element in key.elements]
                if parents not in unique_keys:
                    connection.execute(sa.schema.AddConstraint(sa.UniqueConstraint(*parents)))
                connection.execute(sa.schema.AddConstraint(key))
                unique_keys.append(parents)
        except sa.exc.SQLAlchemyError:
            columns = ", ".join(key.column_keys)
            source.notes.append(
                f"Without the foreign key {key.table.name} ({columns}) to {key.referred_table.name}, which does not "
                "hold there."
            )


def _count(connection: "sa.Connection", table: str) -> int:
    name = sa.sql.quoted_name(table, True)
    count: int = connection.execute(sa.select(sa.func.count()).select_from(sa.table(name))).scalar_one()
    return count


def _open_postgresql(to: Location) -> Any:
    """Open a database. One that is created has the locale C: texts are ordered by bytes, as in SQLite."""
    name = unquote(urlsplit(to.address).path.strip("/"))
    try:
        connection = postgresql.open_connection(to, options="")
    except postgresql.driver().OperationalError as error:
        if f'database "{name}" does not exist' not in str(error):
            raise
        with postgresql.open_connection(to, options="", database="postgres") as server:
            database = quoted(name, "postgres")
            locale = "ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
            server.execute(f"CREATE DATABASE {database} TEMPLATE template0 {locale}")
        connection = postgresql.open_connection(to, options="")
    connection.autocommit = False
    return connection


def _open_mysql(to: Location) -> Any:
    name = quoted(mysql.database_of(to), "mysql")
    connection = mysql.open_connection(to, None)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {name} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {name}")
        cursor.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
    connection.autocommit(False)
    return connection


_DRIVERS: Mapping[str, tuple[str, Callable[[Location], Any]]] = {
    "postgresql": ("postgresql+psycopg", _open_postgresql),
    "mysql": ("mysql+pymysql", _open_mysql),
}


def _copy_to_duckdb(source: _Source, to: Location) -> bool:
    """Write a new file; return False where it is there already."""
    from sqlalchemy.dialects.postgresql.base import PGDialect

    # DuckDB reads it, and has no dialect of SQLAlchemy's
    dialect = PGDialect(paramstyle="named")  # type: ignore[no-untyped-call]
    try:
        if _is_copied(source, _held_by_duckdb(to.path), to):
            return False
        to.path.parent.mkdir(parents=True, exist_ok=True)
        memory: dict[str, Any] = {"memory_limit": f"{LIMITS.memory_mb // 2}MiB"}
        with atomic_write(to.path) as draft, duckdb.connect(str(draft), config=memory) as connection:
            for table in source.metadata.tables.values():
                connection.execute(str(sa.schema.CreateTable(table).compile(dialect=dialect)))
            for table, rows in source.chunks():
                types = [column.type.compile(dialect) for column in table.columns]
                values = ", ".join(f"unnest(?::{name}[])" for name in types)
                columns = [list(column) for column in zip(*rows, strict=True)]
                connection.execute(f"INSERT INTO {quoted(table.name, DIALECT)} SELECT {values}", columns)
    except (duckdb.Error, OSError) as error:
        raise DataError(f"{to}: {' '.join(first_problem(error).split())}") from error
    if source.schema.foreign_keys:
        source.notes.append("DuckDB's copy has no foreign keys.")
    return True


def _held_by_duckdb(path: Path) -> dict[str, int]:
    """Return the number of rows by the name of a table or view; {} if there is no file."""
    if not path.exists():
        return {}
    with duckdb.connect(str(path), read_only=True) as connection:
        names = connection.execute(
            f"SELECT table_name FROM system.main.duckdb_tables() WHERE {HERE} "
            f"UNION ALL SELECT view_name FROM system.main.duckdb_views() WHERE {HERE}"
        ).fetchall()
        return {
            name: connection.execute(f"SELECT count(*) FROM {quoted(name, DIALECT)}").fetchall()[0][0]
            for (name,) in names
        }
