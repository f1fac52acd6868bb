"""What the engines of PostgreSQL and MySQL have in common: connections, structure, values, errors and fingerprints.

Every query runs in a transaction that only reads, in a session that is reset after it. The server ends the query at its
deadline. If it does not, a timer stops it from outside, and those that run on even then are counted: one call of a
function can go on in the server for as long as it takes, although its query was stopped and its connection closed. Each
query says in a comment how long it may take, by which later connections recognise such ones.
"""

import hashlib
import json
import math
import os
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache, partial
from importlib import import_module
from itertools import islice
from typing import Any, ClassVar

from tasks.core.errors import ConfigurationError, CrosscheckError, DatabaseUnavailableError, DataError
from tasks.core.records import Status
from tasks.database.dialects import quoted
from tasks.database.engine import Connection, Cursor, Engine, QueryDeadline, Values, schema_of
from tasks.database.limits import Limits, RefusedError
from tasks.database.location import Location
from tasks.database.plain import exact_row
from tasks.database.schema import Schema, Table
from tasks.database.server_gate import MysqlGate, PostgresqlGate

CONNECT_S = 10
STOP_AFTER_S = 0.1
"""Seconds after its deadline at which a query is stopped from outside."""
EARLY_S = 0.05
"""Seconds before its deadline from which on a stopped query may have met it."""
LATE_S = 3
"""Seconds after its deadline in which a query has ended, if the server can stop it."""
MAX_RUNNING = 3
"""Queries that run on after their time with which a server gets no further SQL."""
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


class ServerConnection(Connection):
    """A session of a worker process on a server; `current` is False once it is closed."""

    running: ClassVar[str]  # SQL that counts the role's queries whose time is over, stopped ones, too
    interrupted: ClassVar[str | int]  # code of a query that was stopped, by its deadline or another session
    timed_out: ClassVar[frozenset[str | int]] = frozenset()  # codes of a query that the server has stopped
    too_large: ClassVar[frozenset[str | int]]  # codes of a query that takes more than the server gives

    def __init__(self, location: Location) -> None:
        self.errors = (self.driver().Error, RefusedError, UnicodeError)
        self._location = location
        self._connection = self._connect()
        self._started = False  # whether the query has given a row
        self._deadline = QueryDeadline(0.0)
        with self._available():
            self._gate = self.gate()

    @staticmethod
    @abstractmethod
    def driver() -> Any:
        """Return the driver's module."""

    @staticmethod
    @abstractmethod
    def open(location: Location) -> Any:
        """Open a connection of the driver whose transactions only read, and whose values are plain."""

    @classmethod
    @abstractmethod
    def is_unreachable(cls, error: BaseException) -> bool:
        """Return whether an error is the server's or the connection's, whatever the SQL."""

    @staticmethod
    @abstractmethod
    def code(error: BaseException) -> str | int | None:
        """Return the server's code of an error."""

    @staticmethod
    @abstractmethod
    def message(error: BaseException) -> str:
        """Return an error's message on one line."""

    @abstractmethod
    def gate(self) -> PostgresqlGate | MysqlGate:
        """Return the check of SQL before it is sent."""

    @abstractmethod
    def begin(self, deadline: QueryDeadline) -> None:
        """Begin a transaction that only reads, with the server's own deadline."""

    @abstractmethod
    def send(self, sql: str, limit_s: int) -> tuple[tuple[str, ...] | None, Iterable[tuple[Any, ...]]]:
        """Start a query, with its limit in a comment; return its columns and rows."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the query from another connection."""

    @abstractmethod
    def reset(self, finished: bool) -> None:
        """Reset the session after a query, whose rows were all sent or not; close the connection if that fails."""

    def execute(self, sql: str, deadline: QueryDeadline) -> Cursor:
        """Start one query in a read-only transaction; a watchdog stops it if the server does not at the deadline."""
        self._started = False
        self._deadline = deadline
        if not self._gate.check(sql):  # no statement: no transaction is begun, so none has to be ended
            return _Cursor(columns=None, rows=(), end=lambda finished: False)
        self.begin(deadline)
        watchdog = Watchdog(deadline.left + STOP_AFTER_S, self.stop)
        try:
            columns, rows = self.send(sql, math.ceil(deadline.left) + LATE_S)
        except BaseException:
            # past its deadline, the query may go on in the server
            self._end(watchdog, finished=not deadline.past)
            raise
        self._started = True
        return _Cursor(columns, rows, partial(self._end, watchdog))

    def _end(self, watchdog: "Watchdog", finished: bool) -> None:
        """End a query; a session in which the watchdog has acted is closed."""
        if watchdog.stop():
            self.close()
        else:  # at once: the transaction keeps the tables from being altered or dropped
            self.reset(finished)

    def explain(self, error: BaseException) -> tuple[Status, str]:
        """Return the status of a failed query, and the server's own message."""
        code = self.code(error)
        was_interrupted = code == self.interrupted
        if code in self.timed_out or (was_interrupted and self._deadline.left < EARLY_S):
            return "timeout", ""
        if code in self.too_large:
            return "too_large", self.explanation(error)
        # Interrupted long before its deadline: another session ended the query or this session.
        if isinstance(error, self.driver().Error) and (was_interrupted or self.is_unreachable(error)):
            raise DatabaseUnavailableError(f"{self._location}: {self.message(error)}") from error
        return "error", self.explanation(error)

    def explanation(self, error: BaseException) -> str:
        """Return an error's message as the result of a query shows it."""
        return self.message(error)

    def recover(self, error: BaseException) -> bool:
        """Connect again where the server ended connection or query before it gave a row."""
        if not isinstance(error, self.driver().Error) or not self.is_unreachable(error) or self._started:
            return False
        self.close()
        self._connection = self._connect()
        return True

    @contextmanager
    def _available(self) -> Iterator[None]:
        try:
            yield
        except self.driver().Error as error:
            raise DatabaseUnavailableError(f"{self._location}: {self.message(error)}") from error

    def _connect(self) -> Any:
        with self._available():
            connection = self.open(self._location)
            ((running,),) = rows_of(connection, self.running)
        if running >= MAX_RUNNING:
            raise DatabaseUnavailableError(
                f"{self._location} still runs {running} queries whose time is over: one call of a function goes on "
                "there, although its query was stopped. No further SQL is sent. Wait until they have ended, or have an "
                "administrator end them; then run the same command again."
            )
        return connection


class _Cursor(Cursor):
    """A query whose rows the server sends as they are fetched; `end` is told whether it sent all of them."""

    def __init__(
        self, columns: tuple[str, ...] | None, rows: Iterable[tuple[Any, ...]], end: Callable[[bool], object]
    ) -> None:
        self.columns = columns
        self._rows = iter(rows)
        self._end = end
        self._finished = False

    def fetch(self, rows: int) -> list[tuple[Any, ...]]:
        batch = [] if self._finished else [exact_row(row) for row in islice(self._rows, rows)]
        self._finished = len(batch) < rows
        return batch

    def close(self) -> None:
        self._end(self._finished)


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
    # SQL of the structure, as `schema_of` takes it
    tables: ClassVar[str]
    columns: ClassVar[str]
    keys: ClassVar[str]

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

    def structure(self, connection: Any, database_id: str, sample_rows: int) -> Schema:
        """Read tables with their first `sample_rows` rows, in the table's own order, views, and keys.

        Views that no query can read have no columns, and are left out.
        """

        def first_rows(table: Table) -> Iterable[tuple[Any, ...]]:
            # by name: `*` leaves out the invisible columns of MariaDB and MySQL
            names = ", ".join(quoted(column.name, self.dialect) for column in table.columns)
            sql = f"SELECT {names} FROM {quoted(table.name, self.dialect)} LIMIT {sample_rows}"
            return rows_of(connection, sql) if sample_rows else ()

        tables, columns, keys = (rows_of(connection, sql) for sql in (self.tables, self.columns, self.keys))
        return schema_of(database_id, self.dialect, tables, columns, keys, first_rows)

    @contextmanager
    def reading(self, location: Location, database_id: str = "") -> Iterator[Any]:
        """Open a connection for as long as the block runs."""
        connection = None
        try:
            connection = self.sessions.open(location)
            yield connection
        except self.sessions.driver().Error as error:
            raise self.refusal(location, database_id, error) from error
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
        with self.reading(location, database_id) as connection:
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
            raise self.refusal(location, "", error) from error
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
            structure = self.structure(connection, "", 0)
            tables = [
                [
                    table.name,
                    [[column.name, column.type, column.description] for column in table.columns],
                    table.primary_key,
                    table.description,
                    None if location.version or table.view else self._count(connection, table.name),
                ]
                for table in structure.tables
            ]
        *release, _patch = numbers
        server = f"{name} {'.'.join(map(str, release))}"
        content = [server, location.version, tables, [asdict(key) for key in structure.foreign_keys]]
        return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()

    def _count(self, connection: Any, table: str) -> int:
        ((count,),) = rows_of(connection, f"SELECT count(*) FROM {quoted(table, self.dialect)}")
        return int(count)

    def read(self, location: Location, database_id: str, sample_rows: int) -> Schema:
        """Read tables, comments, keys and the first rows."""
        with self.reading(location, database_id) as connection:
            return self.structure(connection, database_id, sample_rows)

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


class ServerValues(Values):
    """The values of a database on a server, read by a connection."""

    column_type: ClassVar[str]  # SQL of a column's type, by the names of table and column
    text_types: ClassVar[frozenset[str]]
    number_types: ClassVar[frozenset[str]]
    texts: ClassVar[str]  # SQL of the different texts of a column, and how often each occurs

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def _type(self, table: str, column: str) -> str:
        rows = rows_of(self._connection, self.column_type, [table, column])
        return str(rows[0][0]).lower() if rows else ""

    def different_texts(self, table: str, column: str, longest: int) -> str | None:
        """Return the SQL of the different texts of a column of text or of an enum."""
        if self._type(table, column) not in self.text_types:
            return None
        name, source = quoted(column, self.dialect), quoted(table, self.dialect)
        return self.texts.format(name=name, source=source, longest=longest)

    def is_number(self, table: str, column: str) -> str | None:
        """Return the condition that a value of a column of numbers is one."""
        is_number = self._type(table, column) in self.number_types
        return f"{quoted(column, self.dialect)} IS NOT NULL" if is_number else None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
