"""What the engines of servers have in common: their connections, whose errors become ours, values and fingerprints.

Queries that a server does not end at its own deadline: a timer ends them from outside, and the rest are counted.

One call of a function can go on in the server for as long as it takes, although the query was stopped and its
connection closed. Each query says in a comment how long it may take, by which later connections recognise such ones.
"""

import hashlib
import json
import math
import os
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar

from tasks.core.errors import ConfigurationError, CrosscheckError, DatabaseUnavailableError, DataError
from tasks.database.dialects import quoted
from tasks.database.engine import Connection, Deadline, Engine, StreamedValues, Structure, Values
from tasks.database.limits import Limits
from tasks.database.location import Location
from tasks.database.plain import plain, plain_row
from tasks.database.schema import Table
from tasks.database.servers.gate import RefusedError

_ENCRYPTION = (
    "Say how to encrypt at the end of the URL: ?sslmode=require, disable or verify-full&sslrootcert=FILE."
)


def import_driver(module: str, requirement: str, extra: str) -> Any:
    """Import a server's driver; `requirement` begins the message where it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f'{requirement} ({error}). Install it: pip install "crosscheck-sql[{extra}]"'
        ) from None


def rows_of(connection: Any, sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    """Return the rows of a query of our own."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def with_first_rows(connection: Any, table: Table, rows: int, dialect: str) -> Table:
    """Return a table with its first rows as samples, in the table's own order; a view has none."""
    if table.view or not rows:
        return table.with_rows(())
    first = rows_of(connection, f"SELECT * FROM {quoted(table.name, dialect)} LIMIT {rows}")
    return table.with_rows(map(plain_row, first))


class ServerConnection(Connection):
    """A session of a worker process on a server; `current` is False once it is closed."""

    running: ClassVar[str]  # SQL that counts the role's queries whose time is over, stopped ones, too

    def __init__(self, location: Location) -> None:
        self.errors = (self.driver().Error, RefusedError, UnicodeError)
        self._location = location
        self._connection = self._connected()
        self._started = False  # whether the query has given a row
        self._deadline = Deadline(0.0)

    @staticmethod
    @abstractmethod
    def driver() -> Any:
        """Return the driver's module."""

    @staticmethod
    @abstractmethod
    def open(location: Location) -> Any:
        """Open a connection of the driver whose transactions only read, and whose values are plain."""

    @staticmethod
    @abstractmethod
    def is_unreachable(error: BaseException) -> bool:
        """Return whether an error is the server's or the connection's, whatever the SQL."""

    @staticmethod
    @abstractmethod
    def message(error: BaseException) -> str:
        """Return an error's message on one line."""

    def recover(self, error: BaseException) -> bool:
        """Connect again where the server ended connection or query before it gave a row."""
        if not isinstance(error, self.driver().Error) or not self.is_unreachable(error) or self._started:
            return False
        self.close()
        self._connection = self._connected()
        return True

    @contextmanager
    def _available(self) -> Iterator[None]:
        try:
            yield
        except self.driver().Error as error:
            raise DatabaseUnavailableError(f"{self._location}: {self.message(error)}") from error

    def _connected(self) -> Any:
        with self._available():
            connection = self.open(self._location)
            ((running,),) = rows_of(connection, self.running)
        require_stopped(self._location, running)
        return connection


class ServerEngine(Engine):
    """The engine of a server's databases."""

    server = True
    environment_variable: ClassVar[str]  # environment variable of the password
    sessions: ClassVar[type[ServerConnection]]
    stored_values: ClassVar[type["ServerValues"]]
    server_name: ClassVar[str]  # in messages
    grants: ClassVar[str]  # SQL that creates a role which only reads "{database}"
    url_form: ClassVar[str]
    login_sources: ClassVar[str]  # of the password
    refusals: ClassVar[tuple[tuple[str, str], ...]]  # patterns of messages, each with the key of its advice

    def __init__(self) -> None:
        self._remembered = lru_cache(maxsize=1024)(self.current_digest)

    @abstractmethod
    def is_absent(self, error: BaseException) -> bool:
        """Return whether an error says that there is no such database."""

    @abstractmethod
    def release(self, connection: Any) -> tuple[str, list[int]]:
        """Return the server's name and the numbers of its version; the last one counts corrections."""

    @abstractmethod
    def rights(self, connection: Any) -> tuple[str, str]:
        """Return in words what the role may do beyond reading, "" for nothing, and the name of the database."""

    @staticmethod
    @abstractmethod
    def structure(connection: Any, sample_rows: int) -> Structure:
        """Read tables, comments, keys and the first rows."""

    @contextmanager
    def reading(self, location: Location, database_id: str = "", *, first: bool = False) -> Iterator[Any]:
        """Open a connection for as long as the block runs.

        `first`: nothing was read before, so that a server that does not answer is a wrong address.
        """
        connection = None
        try:
            connection = self.sessions.open(location)
            yield connection
        except self.sessions.driver().Error as error:
            refusal = self.refusal(location, database_id, error)
            raise (DataError(str(refusal)) if first else refusal) from error
        finally:
            if connection is not None:
                connection.close()

    def refusal(self, location: Location, database_id: str, error: BaseException) -> CrosscheckError:
        """Return an error of the driver as a Crosscheck error: what happened, where, and what to do about it."""
        text = " ".join(str(error.args[-1] if error.args else error).split())[:400]
        about = f'Database "{database_id}": {location}' if database_id else str(location)
        advice = {
            "login": f"Check user and password; the password is read from {self.login_sources}.",
            "rights": f"Grant the role what it needs to read: {self.grants.format(database='...')}",
            "encryption": _ENCRYPTION,
        }
        for pattern, reason in self.refusals:
            if re.search(pattern, text):
                return DataError(f"{about}: {self.server_name} refuses ({text}). {advice[reason]}")
        if self.sessions.is_unreachable(error) and "does not exist" not in text:
            return DatabaseUnavailableError(
                f"{about}: {self.server_name} does not answer ({text}). Check host, port and whether the server runs; "
                "then run the same command again to continue."
            )
        return DataError(f"{about}: {self.server_name} refuses ({text}). Check the URL: {self.url_form}.")

    def require(self, location: Location, database_id: str) -> None:
        """Make sure that the server lets the role in, and that the role cannot write."""
        with self.reading(location, database_id, first=True) as connection:
            rights, database = self.rights(connection)
        if rights and not location.writable:
            raise ConfigurationError(
                f'Database "{database_id}": the role of {location} {rights}. SQL written by a model must not run '
                f"under it. Make one that only reads: {self.grants.format(database=database)} Or, if you accept that "
                'a read-only transaction alone protects the data: "--set benchmark.allow_writable_role=true".'
            )

    def password(self) -> str:
        """Return the password of the environment."""
        return os.environ.get(self.environment_variable, "")

    def exists(self, location: Location) -> bool:
        """Return whether the server has the database, and the role may open it."""
        try:
            self.sessions.open(location).close()
        except self.sessions.driver().Error as error:
            if self.is_absent(error):
                return False
            raise DataError(str(self.refusal(location, "", error))) from error
        return True

    def product(self, location: Location) -> str:
        """Return the server's name with its version."""
        with self.reading(location) as connection:
            name, numbers = self.release(connection)
        return f"{name} {'.'.join(map(str, numbers))}"

    def digest(self, location: Location) -> str:
        """Return the fingerprint of schema and row counts, which is computed once per process."""
        return self._remembered(location)

    def current_digest(self, location: Location) -> str:
        """Return a sha256 of schema and row counts, or of schema and the user's version; samples do not count."""
        with self.reading(location) as connection:
            name, numbers = self.release(connection)
            structure = self.structure(connection, 0)
            tables = [
                [
                    table.name,
                    [[column.name, column.type, column.description] for column in table.columns],
                    table.primary_key,
                    table.description,
                    None if location.version or table.view else self._count(connection, table),
                ]
                for table in structure.tables
            ]
        server = f"{name} {'.'.join(map(str, numbers[:-1]))}"
        content = [server, location.version, tables, [asdict(key) for key in structure.foreign_keys]]
        return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()

    def _count(self, connection: Any, table: Table) -> int:
        return int(rows_of(connection, f"SELECT count(*) FROM {quoted(table.name, self.dialect)}")[0][0])

    def read(self, location: Location, database_id: str, sample_rows: int) -> Structure:
        """Read tables, comments, keys and the first rows."""
        with self.reading(location, database_id) as connection:
            return self.structure(connection, sample_rows)

    def connect(self, location: Location, limits: Limits) -> Connection:
        """Open a connection that only reads."""
        return self.sessions(location)

    def values(self, location: Location) -> Values:
        """Open its values."""
        error_type = self.sessions.driver().Error
        try:
            values = self.stored_values(self.sessions.open(location))
        except error_type as error:
            raise self.refusal(location, "", error) from error
        values.errors = (error_type,)
        return values


class ServerValues(StreamedValues):
    """The values of a database on a server, read by a connection."""

    dialect: ClassVar[str]

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @abstractmethod
    def has_numbers(self, table: str, column: str) -> bool:
        """Return whether the type of a column is one of numbers."""

    @abstractmethod
    def _rows(self, sql: str) -> Iterator[Any]:
        """Yield the rows of a query as the server sends them."""

    def numbers(self, table: str, column: str, most: int) -> Iterator[int | float]:
        """Yield different numbers of a column."""
        if self.has_numbers(table, column):
            name, source = quoted(column, self.dialect), quoted(table, self.dialect)
            rows = self._rows(f"SELECT DISTINCT {name} FROM {source} WHERE {name} IS NOT NULL LIMIT {most}")
            yield from (plain(value) for (value,) in rows)

    def frequent(self, table: str, column: str, among: int, most: int) -> Iterator[int | float]:
        """Yield the most frequent numbers among the first of a column."""
        if self.has_numbers(table, column):
            name, source = quoted(column, self.dialect), quoted(table, self.dialect)
            first = f"(SELECT {name} FROM {source} WHERE {name} IS NOT NULL LIMIT {among}) AS first"
            rows = self._rows(
                f"SELECT {name} FROM {first} GROUP BY {name} ORDER BY count(*) DESC, {name} LIMIT {most}"
            )
            yield from (plain(value) for (value,) in rows)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


LATE_S = 3
"""Seconds after its deadline in which a query has ended, if the server can stop it."""
MAX_RUNNING = 3
"""Queries that run on after their time with which a server gets no further SQL."""


class Watchdog:
    """Calls a function in a thread of its own after so many seconds, unless it is stopped before."""

    def __init__(self, seconds: float, act: Callable[[], object]) -> None:
        self._act = act
        self._fired = False
        self._timer = threading.Timer(seconds, self._fire)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> bool:
        """Stop it, and return whether it has acted; then its connection may not be used again."""
        self._timer.cancel()
        if self._fired:
            self._timer.join(1.0)
        return self._fired

    def _fire(self) -> None:
        self._fired = True
        self._act()


def limit_of(deadline: Deadline) -> int:
    """Return the seconds after which a query has ended, unless the server cannot stop it; they stand in its comment."""
    return math.ceil(deadline.left) + LATE_S


def require_stopped(location: Location, running: int) -> None:
    """Send no further SQL to a server that still runs several queries after their time."""
    if running >= MAX_RUNNING:
        raise DatabaseUnavailableError(
            f"{location} still runs {running} queries whose time is over: one call of a function goes on there, "
            "although its query was stopped. No further SQL is sent. Wait until they have ended, or have an "
            "administrator end them; then run the same command again."
        )
