"""PostgreSQL, by psycopg 3."""

import re
from collections.abc import Iterator
from typing import Any

from tasks.core.errors import ConfigurationError, CrosscheckError, DatabaseUnavailableError, DataError
from tasks.database.engine import ENGINES, Connection, Structure, Values
from tasks.database.identifiers import quoted
from tasks.database.limits import Limits
from tasks.database.location import Location
from tasks.database.servers.engine import ServerEngine, ServerValues, fingerprint
from tasks.database.servers.postgresql_connection import PostgresConnection
from tasks.database.servers.postgresql_opening import (
    DIALECT,
    driver,
    open_reading,
    read_structure,
    unreachable,
)

_ABSENT = re.compile(r'database "[^"]*" does not exist')
_READER = (
    "CREATE ROLE reader LOGIN PASSWORD '...'; GRANT CONNECT ON DATABASE \"{database}\" TO reader; "
    "GRANT USAGE ON SCHEMA public TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader; "
    "REVOKE CREATE ON SCHEMA public FROM PUBLIC; ALTER ROLE reader SET temp_file_limit = '1GB'"
)
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


class Postgresql(ServerEngine):
    """The engine of PostgreSQL databases."""

    name = "postgresql"
    dialect = DIALECT
    schemes = ("postgresql", "postgres")
    environment_variable = "PGPASSWORD"

    def product(self, location: Location) -> str:
        """Return PostgreSQL with the server's version."""
        with self.reading(location, location.address) as connection:
            release, patch = divmod(connection.info.server_version, 10000)
        return f"PostgreSQL {release}.{patch}"

    def require(self, location: Location, database_id: str) -> None:
        """Make sure that the server lets the role in, and that the role cannot write."""
        with self.reading(location, database_id, first=True) as connection:
            rights = [right for (right,) in connection.execute(_RIGHTS).fetchall()]
            database = connection.info.dbname
        if rights and not location.writable:
            raise ConfigurationError(
                f'Database "{database_id}": the role of {location} {", ".join(rights)}. SQL written by a model must '
                f"not run under it. Make one that only reads: {_READER.format(database=database)} "
                "Or, if you accept that a read-only transaction alone protects the data: "
                '"--set benchmark.allow_writable_role=true".'
            )

    def connect(self, location: Location, limits: Limits) -> Connection:
        """Open a connection that only reads."""
        return PostgresConnection(location)

    def driver_error(self) -> type[BaseException]:
        """Return the class of the driver's errors."""
        found: type[BaseException] = driver().Error
        return found

    def open(self, location: Location) -> Any:
        """Open a connection that only reads."""
        return open_reading(location)

    def is_absent(self, error: BaseException) -> bool:
        """Return whether there is no such database."""
        return _ABSENT.search(str(error)) is not None

    def refused(self, location: Location, database_id: str, error: BaseException) -> CrosscheckError:
        """Return an error of the driver as ours."""
        return _refused(location, database_id, error)

    def structure(self, connection: Any, sample_rows: int) -> Structure:
        """Read tables, comments, keys and the first rows."""
        return read_structure(connection, sample_rows)

    def stream(self, connection: Any) -> Values:
        """Return the values that a connection reads."""
        return PostgresValues(connection)

    def fingerprint(self, location: Location) -> str:
        """Return the fingerprint of schema and row counts."""
        with self.reading(location, location.address) as connection:
            server = f"PostgreSQL {connection.info.server_version // 10000}"

            def count(table: str) -> int:
                sql = f"SELECT count(*) FROM {quoted(table, DIALECT)}"
                return int(connection.execute(sql).fetchall()[0][0])

            return fingerprint(read_structure(connection, 0), server, location.version, count)


class PostgresValues(ServerValues):
    """The values of a database."""

    dialect = DIALECT

    def texts(self, table: str, column: str, longest: int) -> Iterator[tuple[str, int]]:
        """Yield the different texts of a column of text or of an enum; other types have none."""
        name, source = quoted(column, DIALECT), quoted(table, DIALECT)
        if self._category(table, column) in ("S", "E"):
            yield from self._rows(
                f"SELECT {name}::text, count(*) FROM {source} "
                f"WHERE length({name}::text) BETWEEN 1 AND {longest} GROUP BY 1"
            )

    def has_numbers(self, table: str, column: str) -> bool:
        """Return whether the type of a column is one of numbers."""
        return self._category(table, column) == "N"

    def _category(self, table: str, column: str) -> str:
        row = self._connection.execute(
            "SELECT t.typcategory::text FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
            "WHERE a.attrelid = %s::regclass AND a.attname = %s",
            [quoted(table, DIALECT), column],
        ).fetchone()
        return str(row[0]) if row else ""

    def _rows(self, sql: str) -> Iterator[Any]:
        with self._connection.transaction(), self._connection.cursor(name="values") as cursor:
            cursor.itersize = 10_000
            cursor.execute(sql)
            yield from cursor


def _refused(
    location: Location, database_id: str, error: BaseException
) -> DataError | DatabaseUnavailableError:
    text = " ".join(str(error).split())[:400]
    about = f'Database "{database_id}": {location}' if database_id else str(location)
    if "password" in text or "authentication" in text:
        how = "Check user and password; the password is read from the URL, PGPASSWORD or ~/.pgpass."
    elif "permission denied" in text:
        how = f"Grant the role what it needs to read: {_READER.format(database='...')}"
    elif re.search(r"sslmode|certificate|SSL (?!SYSCALL)", text):
        how = "Say how to encrypt at the end of the URL: ?sslmode=require, disable or verify-full&sslrootcert=FILE."
    elif unreachable(error) and "does not exist" not in text:
        how = "Check host, port and whether the server runs; then run the same command again to continue."
        return DatabaseUnavailableError(f"{about}: PostgreSQL does not answer ({text}). {how}")
    else:
        how = "Check the URL: postgresql://user@host:port/database."
    return DataError(f"{about}: PostgreSQL refuses ({text}). {how}")


ENGINES.register("postgresql")(Postgresql())
