"""What the engines of servers have in common: connections for one purpose, whose errors become ours."""

import hashlib
import json
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from typing import Any, ClassVar

from tasks.core.errors import CrosscheckError, DatabaseUnavailableError, DataError
from tasks.database.engine import Engine, StreamedValues, Structure, Values
from tasks.database.identifiers import quoted
from tasks.database.location import Location
from tasks.database.plain import plain


class ServerEngine(Engine):
    """The engine of a server's databases."""

    server = True
    environment_variable: ClassVar[str]  # environment variable of the password

    def __init__(self) -> None:
        self._remembered = lru_cache(maxsize=1024)(self.fingerprint)

    @abstractmethod
    def driver_error(self) -> type[BaseException]:
        """Return the class of the driver's errors."""

    @abstractmethod
    def open(self, location: Location) -> Any:
        """Open a connection that only reads."""

    @abstractmethod
    def is_absent(self, error: BaseException) -> bool:
        """Return whether an error says that there is no such database."""

    @abstractmethod
    def refused(self, location: Location, database_id: str, error: BaseException) -> CrosscheckError:
        """Return an error of the driver as a Crosscheck error: what happened, where, and what to do about it."""

    @abstractmethod
    def structure(self, connection: Any, sample_rows: int) -> Structure:
        """Read tables, comments, keys and the first rows."""

    @abstractmethod
    def fingerprint(self, location: Location) -> str:
        """Return the fingerprint of schema and row counts."""

    @abstractmethod
    def stream(self, connection: Any) -> Values:
        """Return the values that a connection reads."""

    @contextmanager
    def reading(self, location: Location, database_id: str, *, first: bool = False) -> Iterator[Any]:
        """Open a connection for as long as the block runs.

        `first`: nothing was read before, so that a server that does not answer is a wrong address.
        """
        connection = None
        try:
            connection = self.open(location)
            yield connection
        except self.driver_error() as error:
            raise self._explained(location, database_id, error, first=first) from error
        finally:
            if connection is not None:
                connection.close()

    def _explained(
        self, location: Location, database_id: str, error: BaseException, *, first: bool
    ) -> CrosscheckError:
        found = self.refused(location, database_id, error)
        return DataError(str(found)) if first and isinstance(found, DatabaseUnavailableError) else found

    def password(self) -> str:
        """Return the password of the environment."""
        return os.environ.get(self.environment_variable, "")

    def exists(self, location: Location) -> bool:
        """Return whether the server has the database, and the role may open it.

        Raises:
            DataError: it does not answer, or lets this role not in.
        """
        try:
            self.open(location).close()
        except self.driver_error() as error:
            if self.is_absent(error):
                return False
            raise self._explained(location, "", error, first=True) from error
        return True

    def digest(self, location: Location) -> str:
        """Return the fingerprint of schema and row counts, which is computed once per process."""
        return self._remembered(location)

    def current_digest(self, location: Location) -> str:
        """Return the fingerprint of schema and row counts of now."""
        return self.fingerprint(location)

    def read(self, location: Location, database_id: str, sample_rows: int) -> Structure:
        """Read tables, comments, keys and the first rows."""
        with self.reading(location, database_id) as connection:
            return self.structure(connection, sample_rows)

    def values(self, location: Location) -> Values:
        """Open its values."""
        try:
            values = self.stream(self.open(location))
            values.errors = (self.driver_error(),)
            return values
        except self.driver_error() as error:
            raise self.refused(location, "", error) from error


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


def fingerprint(structure: Structure, server: str, version: str, count: Callable[[str], int]) -> str:
    """Return a sha256 of schema and row counts, or of schema and the user's version.

    Samples do not count. Rows are counted where the user names no version.
    """
    tables = [
        [
            table.name,
            [[column.name, column.type, column.description] for column in table.columns],
            table.primary_key,
            table.description,
            None if version else count(table.name),
        ]
        for table in structure.tables
    ]
    content = [server, version, tables, [asdict(key) for key in structure.foreign_keys]]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()
