"""A MySQL or MariaDB database that is written.

Creating a table ends every transaction there, so the rows are one transaction, and a mark that says "not complete"
comes first: a copy that was interrupted is known by it. Texts compare and are ordered by their bytes, as in SQLite.
"""

import os
from collections.abc import Callable
from itertools import islice
from typing import Any, ClassVar

from tasks.core.errors import ConfigurationError
from tasks.database.loading.plan import Kind, LoadedTable, LoadPlan, Source
from tasks.database.loading.target import (
    CHUNK,
    MARKED,
    MARKING,
    READER_PASSWORD,
    TARGETS,
    Mark,
    Target,
    TargetContents,
)
from tasks.database.location import Location
from tasks.database.schema import LOAD_MARK
from tasks.database.servers.mysql_opening import DIALECT, database_of, driver, explained, open_connection

_ABSENT = 1049
_DENIED = frozenset({1044, 1045, 1142, 1227, 1410})
_NO_ROLE = (1133, 1141)
MOST_IN_KEY = 768
"""Characters of a text in a key; a key has 3072 bytes."""
MOST_IN_COMMENT = 1024
_BY_BYTES = """
SELECT collation_name FROM information_schema.collations
WHERE collation_name IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin', 'utf8mb4_bin')
ORDER BY collation_name = 'utf8mb4_bin' LIMIT 1
"""
"""The collation by bytes; in the last one, the only one of MySQL 5.7, blanks at the end of a text do not count."""


@TARGETS.register("mysql")
class MysqlTarget(Target):
    """One database."""

    dialect = DIALECT
    types: ClassVar[dict[Kind, str]] = {
        "integer": "BIGINT",
        "real": "DOUBLE",
        "boolean": "BOOLEAN",
        "date": "DATE",
        "timestamp": "DATETIME(6)",
        "text": "LONGTEXT",
        "blob": "LONGBLOB",
    }

    def __init__(self, location: Location) -> None:
        self.errors = (driver().Error,)
        self._location = location
        self._database = database_of(location)
        self._connection: Any = None

    def held(self) -> TargetContents | None:
        """Return what the database holds; None where there is none."""
        try:
            self._connection = open_connection(self._location, self._database)
        except driver().OperationalError as error:
            if error.args and error.args[0] == _ABSENT:
                return None
            raise
        tables = [name for (name, *_) in self._execute("SHOW TABLES")]
        return TargetContents.found(tables, lambda: next(iter(self._execute(MARKED)), None))

    def write(
        self,
        source: Source,
        plan: LoadPlan,
        mark: Mark,
        held: TargetContents | None,
        on_rows: Callable[[int], None],
    ) -> tuple[str, ...]:
        """Replace what the database holds; it is marked as complete at the end."""
        if held is None:
            with open_connection(self._location, None) as server, server.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE {self.name(self._database)} CHARACTER SET utf8mb4")
            self._connection = open_connection(self._location, self._database)
        self._execute(
            "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO', SESSION foreign_key_checks = 0"
        )
        own = held.mark.tables if held and held.mark else ()
        started = Mark(mark.fingerprint, False, tuple(dict.fromkeys((*mark.tables, *own))))
        if held and held.mark:
            self._execute(f"DELETE FROM {LOAD_MARK}")
        else:
            self._execute(MARKING[0])
        self._execute(MARKING[1], [started.text])
        if held:
            views = {name for (name, *_) in self._execute("SHOW FULL TABLES WHERE Table_type = 'VIEW'")}
            for name in held.tables:
                self._execute(f"DROP {'VIEW' if name in views else 'TABLE'} {self.name(name)}")
        ((collation,),) = self._execute(_BY_BYTES)
        keyed = {(key.table, column) for key in plan.foreign_keys for column in key.columns}
        wide = {table.name for table in plan.tables if self._too_wide(table)}
        for table in plan.tables:
            self._execute(self._creation(table, keyed, wide, collation))
        self._execute("BEGIN")
        for table in plan.tables:
            self._copy(source, table, on_rows)
        self._execute("COMMIT")
        self._execute("SET SESSION foreign_key_checks = 1")
        for key in plan.foreign_keys:
            if key.parent not in wide:
                self._execute(f"ALTER TABLE {self.name(key.table)} ADD {self.reference(key)}")
        self._execute(f"UPDATE {LOAD_MARK} SET content = %s", [mark.text])
        return tuple(f"{name}: without its primary key, whose texts are too long." for name in sorted(wide))

    def grant(self, role: str) -> None:
        """Let a role read, `name` or `name@host`; make it where there is none.

        Raises:
            ConfigurationError: there is no such role, and no password to make it with.
        """
        name, _, host = role.partition("@")
        user = f"{self._connection.escape(name)}@{self._connection.escape(host or '%')}"
        if not self._has(user):
            password = os.environ.get(READER_PASSWORD)
            if not password:
                raise ConfigurationError(
                    f"--reader {role}: the server has no such role. Set {READER_PASSWORD} to the password that it is "
                    "to have; without one, everybody could log in."
                )
            self._execute(f"CREATE USER {user} IDENTIFIED BY {self._connection.escape(password)}")
        self._execute(f"GRANT SELECT, SHOW VIEW ON {self.name(self._database)}.* TO {user}")

    def _has(self, user: str) -> bool:
        """Return whether there is a role; GRANT would make one without a password on some servers."""
        try:
            self._execute(f"SHOW GRANTS FOR {user}")
        except driver().Error as error:
            return error.args[0] not in _NO_ROLE  # another error: this role may not know
        return True

    def rights(self, error: BaseException | None = None) -> str:
        """Return what the role needs, or what the server said."""
        needs = f"The role of --to needs: GRANT ALL ON {self.name(self._database)}.* TO ..."
        if error is None:
            return needs
        message = f"the server says: {explained(error)}."
        return (
            f"{message} {needs}"
            if error.args and error.args[0] in _DENIED
            else f"{message} Check the URL of --to."
        )

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _creation(
        self, table: LoadedTable, keyed: set[tuple[str, str]], wide: set[str], collation: str
    ) -> str:
        """Return CREATE TABLE; a text in a key needs a length, any other has none."""
        parts = []
        for column in table.columns:
            kind = self.types[column.kind]
            in_key = column.name in table.primary_key or (table.name, column.name) in keyed
            if column.kind == "text" and in_key and column.longest <= MOST_IN_KEY:
                kind = f"VARCHAR({max(1, column.longest)})"
            comment = self._connection.escape(column.comment[:MOST_IN_COMMENT])
            parts.append(
                f"{self.name(column.name)} {kind}" + (f" COMMENT {comment}" if column.comment else "")
            )
        if table.primary_key and table.name not in wide:
            parts.append(f"PRIMARY KEY ({self.names(table.primary_key)})")
        comment = (
            f" COMMENT {self._connection.escape(table.comment[:MOST_IN_COMMENT])}" if table.comment else ""
        )
        body = ", ".join(parts)
        return f"CREATE TABLE {self.name(table.name)} ({body}) CHARACTER SET utf8mb4 COLLATE {collation}{comment}"

    def _too_wide(self, table: LoadedTable) -> bool:
        """Return whether a primary key has more bytes than a key may have."""
        texts = [c.longest for c in table.columns if c.name in table.primary_key and c.kind == "text"]
        return sum(texts) > MOST_IN_KEY

    def _copy(self, source: Source, table: LoadedTable, on_rows: Callable[[int], None]) -> None:
        values = ", ".join(["%s"] * len(table.columns))
        sql = f"INSERT INTO {self.name(table.name).replace('%', '%%')} VALUES ({values})"
        # there is no infinity
        rows = (
            tuple(None if value in _INFINITE else value for value in row) if _INFINITE & {*row} else row
            for row in source.rows(table)
        )
        with self._connection.cursor() as cursor:
            while chunk := list(islice(rows, CHUNK)):
                cursor.executemany(sql, chunk)
                on_rows(len(chunk))

    def _execute(self, sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())


_INFINITE = frozenset({float("inf"), float("-inf")})
