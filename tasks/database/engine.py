"""What an engine of databases is: the one place where SQLite, DuckDB, PostgreSQL and MySQL differ.

An engine is one module that registers an `Engine`:

    ENGINES.register("sqlite")(SQLite())

In a package of one's own, an entry point of the group `crosscheck.engines` names it.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tasks.core.records import Status
from tasks.core.registry import Registry
from tasks.database.dialects import quoted
from tasks.database.limits import Limits
from tasks.database.location import Location
from tasks.database.plain import plain, plain_row
from tasks.database.schema import Column, ForeignKey, Schema, Table

if TYPE_CHECKING:
    import sqlite3


class KeyColumn(NamedTuple):
    """A column of a primary or foreign key, as the catalog of a database lists it."""

    table: str
    constraint: Any  # the same for all columns of one key
    column: str
    parent: str | None  # None in a primary key
    parent_column: str | None  # None for the parent's primary key


def schema_of(
    database_id: str,
    dialect: str,
    tables: Iterable[tuple[str, str | None, bool]],
    columns: Iterable[tuple[str, str, str, str | None]],
    keys: Iterable[tuple[str, Any, str, str | None, str | None]],
    first_rows: Callable[[Table], Iterable[tuple[Any, ...]]],
) -> Schema:
    """Return what a database says of itself in the rows of its catalog; views without columns are left out.

    The rows are: of tables, name, comment, and whether it is a view; of columns, table, name, type and comment; of
    keys, the values of a `KeyColumn`, those of one key in succession.
    """
    columns_of: dict[str, list[Column]] = {}
    for table_name, name, type_name, comment in columns:
        columns_of.setdefault(table_name, []).append(Column(name, type_name, comment or ""))
    primary_keys: dict[str, tuple[str, ...]] = {}
    foreign_keys = []
    for _, group in groupby(starmap(KeyColumn, keys), key=lambda key: (key.table, key.constraint)):
        key_columns = list(group)
        names = tuple(key.column for key in key_columns)
        table_name, parent = key_columns[0].table, key_columns[0].parent
        if parent is None:
            primary_keys[table_name] = names
        else:
            parent_names = tuple(key.parent_column for key in key_columns if key.parent_column is not None)
            foreign_keys.append(ForeignKey(table_name, names, parent, parent_names))
    schema_tables = []
    for name, comment, is_view in tables:
        if is_view and name not in columns_of:
            continue
        its_columns, primary_key = tuple(columns_of.get(name, ())), primary_keys.get(name, ())
        table = Table(name, its_columns, primary_key, comment or "", view=bool(is_view))
        samples = () if is_view else map(plain_row, first_rows(table))
        schema_tables.append(table.with_rows(samples))
    return Schema(database_id, tuple(schema_tables), tuple(foreign_keys), dialect=dialect)


@dataclass(frozen=True, slots=True)
class QueryDeadline:
    """When a query has to end."""

    at: float  # the moment, on `time.monotonic`'s clock
    count_every: int | None = None  # count the engine's steps in so many at a time; None: do not count

    @property
    def left(self) -> float:
        """Seconds until then, at least 0."""
        return max(0.0, self.at - time.monotonic())

    @property
    def past(self) -> bool:
        """Whether it is over."""
        return time.monotonic() > self.at


class Cursor(ABC):
    """A query that runs."""

    columns: tuple[str, ...] | None  # names of the result's columns; None where the SQL is no query
    # steps of the engine so far, if it counts them and they were requested; None otherwise
    steps: int | None = None

    @abstractmethod
    def fetch(self, rows: int) -> list[tuple[Any, ...]]:
        """Return the next rows, [] at the end; values are plain (`tasks.database.plain`)."""

    @abstractmethod
    def close(self) -> None:
        """End the query, finished or not, so that no trace of it reaches the next."""


class Connection(ABC):
    """A connection that only reads, in a worker process: nothing that SQL does leaves it."""

    errors: tuple[type[BaseException], ...]  # exceptions that belong to the engine
    exhausted: bool = False  # whether memory ran out at some time, so that the process had better be replaced

    @abstractmethod
    def execute(self, sql: str, deadline: QueryDeadline) -> Cursor:
        """Start one statement, which has to be a query."""

    @abstractmethod
    def explain(self, error: BaseException) -> tuple[Status, str]:
        """Return the status of a query that ended with one of `errors`, and a sentence ("" for a timeout)."""

    def recover(self, error: BaseException) -> bool:
        """Return whether the query may be executed again: only the connection had failed, and it is open again."""
        return False

    def current(self) -> bool:
        """Return whether it is still open."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Close it."""


class Engine(ABC):
    """One kind of database."""

    name: ClassVar[str]  # as in `ENGINES`
    dialect: ClassVar[str]  # sqlglot's name of its SQL dialect
    schemes: ClassVar[tuple[str, ...]]  # beginnings of its URLs
    server: ClassVar[bool] = False  # whether it is a server, with roles and passwords; otherwise files
    endings: ClassVar[tuple[str, ...]] = ()  # of its files, with the dot
    copied: ClassVar[bool] = False  # whether `crosscheck benchmarks load` copies its databases elsewhere

    @abstractmethod
    def product(self, location: Location) -> str:
        """Return name and version of what executes, for records: "SQLite 3.45.1"."""

    def has_file(self, path: Path) -> bool:
        """Return whether a path is one of its databases, by its ending or its content."""
        return path.suffix.lower() in self.endings

    def password(self) -> str:
        """Return the password that the environment gives, "" for none."""
        return ""

    @abstractmethod
    def exists(self, location: Location) -> bool:
        """Return whether there is such a database."""

    @abstractmethod
    def require(self, location: Location, database_id: str) -> None:
        """Make sure that it can be opened for reading only."""

    @abstractmethod
    def digest(self, location: Location) -> str:
        """Return what identifies the content, 64 hexadecimal digits."""

    def current_digest(self, location: Location) -> str:
        """Return the digest of what is there now, read again."""
        return self.digest(location)

    def state(self, location: Location) -> tuple[Any, ...]:
        """Return what changes when files are replaced or written; () for a server, and where there is no file."""
        return ()

    @abstractmethod
    def read(self, location: Location, database_id: str, sample_rows: int) -> Schema:
        """Read tables with types, declared keys, comments as descriptions, and the first rows."""

    @abstractmethod
    def connect(self, location: Location, limits: Limits) -> Connection:
        """Open a connection that only reads; called inside a worker process."""

    @abstractmethod
    def values(self, location: Location) -> "Values":
        """Open its values for the index of them."""


ENGINES: Registry[Engine] = Registry(
    "engine", package="tasks.database.engines", group="crosscheck.engines", base=Engine
)


def engine_of(location: Location) -> Engine:
    """Return the engine of a location."""
    return ENGINES.get(location.engine)


class Values(ABC):
    """The values of a database, copied column by column into an index, which is a SQLite file.

    Python reads them from the database and writes them into the index, unless the engine overrides that.
    """

    dialect: ClassVar[str]
    count: ClassVar[str] = "count(*)"
    errors: tuple[type[BaseException], ...] = ()  # exceptions that belong to the engine

    def prepare(self, index: "sqlite3.Connection") -> None:  # noqa: B027 - most have nothing to prepare
        """Prepare the empty index, before its tables are created."""

    @abstractmethod
    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query as the database sends them."""

    @abstractmethod
    def different_texts(self, table: str, column: str, longest: int) -> str | None:
        """Return the SQL of the different texts of a column, of 1 to so many characters, with how often each occurs.

        None for a column of another type.
        """

    @abstractmethod
    def is_number(self, table: str, column: str) -> str | None:
        """Return the condition in SQL that a value of a column is a number, None for a column of another type."""

    def source(self, table: str) -> str:
        """Return a table as the SQL names it."""
        return quoted(table, self.dialect)

    def copy_texts(self, index: "sqlite3.Connection", table: str, column: str, longest: int) -> None:
        """Append to the index's table `text` a column's different texts, in byte order, and how often each occurs."""
        sql = self.different_texts(table, column, longest)
        if sql is None:
            return
        index.execute(
            "CREATE TEMP TABLE IF NOT EXISTS incoming (value TEXT PRIMARY KEY, uses INTEGER) WITHOUT ROWID"
        )
        decoded = (
            (raw.decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else raw, uses)
            for raw, uses in self.rows(sql)
        )
        # a text may have become too long: each byte that is no UTF-8 is written as four characters
        texts = ((text, uses) for text, uses in decoded if 0 < len(text) <= longest)
        index.executemany("INSERT OR IGNORE INTO incoming VALUES (?, ?)", texts)
        index.execute("INSERT INTO text (value, uses) SELECT * FROM incoming ORDER BY value COLLATE BINARY")
        index.execute("DELETE FROM incoming")

    def copy_numbers(
        self, index: "sqlite3.Connection", column_id: int, table: str, column: str, most: int
    ) -> None:
        """Append the first `most` different finite numbers of a column to the index's table `number`."""
        condition = self.is_number(table, column)  # None: no column of numbers
        if condition:
            name = quoted(column, self.dialect)
            source = self.source(table)
            numbers = self._numbers(f"SELECT DISTINCT {name} FROM {source} WHERE {condition} LIMIT {most}")
            rows = ((column_id, number) for number in numbers)
            index.executemany("INSERT OR IGNORE INTO number VALUES (?, ?)", rows)

    def frequent_numbers(self, table: str, column: str, *, among: int, most: int) -> list[int | float]:
        """Return the `most` most frequent of a column's first `among` finite numbers; in a tie the smaller first."""
        condition = self.is_number(table, column)  # None: no column of numbers
        if condition is None:
            return []
        name = quoted(column, self.dialect)
        first_numbers = f"SELECT {name} FROM {self.source(table)} WHERE {condition} LIMIT {among}"
        grouped = f"SELECT {name} FROM ({first_numbers}) AS first_numbers GROUP BY {name}"
        return list(self._numbers(f"{grouped} ORDER BY {self.count} DESC, {name} LIMIT {most}"))

    def close(self) -> None:  # noqa: B027 - some have nothing to close
        """Close the database."""

    def _numbers(self, sql: str) -> Iterator[int | float]:
        return (number for (value,) in self.rows(sql) if _fits(number := plain(value)))


def _fits(number: object) -> bool:
    """Return whether SQLite can hold a number: finite, and no longer than 64 bits if it is whole."""
    if isinstance(number, int):
        return -(2**63) <= number < 2**63
    return isinstance(number, float) and math.isfinite(number)
