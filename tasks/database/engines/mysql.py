"""MySQL and MariaDB, by PyMySQL: written in Python, so it installs without a compiler, and is kept up."""

import re
from collections.abc import Iterator
from typing import Any

from tasks.core.errors import ConfigurationError, CrosscheckError, DatabaseUnavailableError, DataError
from tasks.database.engine import ENGINES, Connection, Structure, Values
from tasks.database.identifiers import quoted
from tasks.database.limits import Limits
from tasks.database.location import Location
from tasks.database.servers.engine import ServerEngine, ServerValues, fingerprint
from tasks.database.servers.mysql_connection import MysqlConnection
from tasks.database.servers.mysql_opening import (
    DIALECT,
    driver,
    explained,
    open_reading,
    read_structure,
    rows_of,
    unreachable,
)

ABSENT = frozenset({1044, 1049})
"""No such database, or none that the role may open: MySQL does not tell a reader which."""
READING = frozenset({"USAGE", "SELECT", "SHOW VIEW", "SHOW DATABASES"})
_GRANT = re.compile(r"GRANT (.+?) ON (?!\S+@)")
_COLUMNS = re.compile(r"(?<!\s)\s*+\([^()]*\)")
_READER = (
    "CREATE USER reader@'%' IDENTIFIED BY '...'; GRANT SELECT, SHOW VIEW ON `{database}`.* TO reader@'%'"
)
_TEXT = ("char", "varchar", "text", "tinytext", "mediumtext", "longtext", "enum", "set")
_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "year")


class Mysql(ServerEngine):
    """The engine of MySQL and MariaDB databases."""

    name = "mysql"
    dialect = DIALECT
    schemes = ("mysql", "mariadb")
    environment_variable = "MYSQL_PWD"

    def product(self, location: Location) -> str:
        """Return MySQL or MariaDB with the server's version."""
        with self.reading(location, location.address) as connection:
            return _product(connection, 3)

    def require(self, location: Location, database_id: str) -> None:
        """Make sure that the server lets the role in, and that the role cannot write."""
        with self.reading(location, database_id, first=True) as connection:
            grants = [str(row[0]) for row in rows_of(connection, "SHOW GRANTS")]
            ((database,),) = rows_of(connection, "SELECT DATABASE()")
        written = (found.group(1) for grant in grants if (found := _GRANT.match(grant)))
        rights = {right.strip() for each in written for right in _COLUMNS.sub("", each).split(",")}
        if beyond := sorted(rights - READING):
            if location.writable:
                return
            raise ConfigurationError(
                f'Database "{database_id}": the role of {location} has more rights than to read: '
                f"{', '.join(beyond)}. SQL written by a model must not run under it. Make one that only reads: "
                f"{_READER.format(database=database)} Or, if you accept that a read-only transaction alone protects "
                'the data: "--set benchmark.allow_writable_role=true".'
            )

    def connect(self, location: Location, limits: Limits) -> Connection:
        """Open a connection that only reads."""
        return MysqlConnection(location)

    def driver_error(self) -> type[BaseException]:
        """Return the class of the driver's errors."""
        found: type[BaseException] = driver().Error
        return found

    def open(self, location: Location) -> Any:
        """Open a connection that only reads."""
        return open_reading(location)

    def is_absent(self, error: BaseException) -> bool:
        """Return whether there is no such database."""
        return bool(error.args) and error.args[0] in ABSENT

    def refused(self, location: Location, database_id: str, error: BaseException) -> CrosscheckError:
        """Return an error of the driver as ours."""
        return _refused(location, database_id, error)

    def structure(self, connection: Any, sample_rows: int) -> Structure:
        """Read tables, comments, keys and the first rows."""
        return read_structure(connection, sample_rows)

    def stream(self, connection: Any) -> Values:
        """Return the values that a connection reads."""
        return MysqlValues(connection)

    def fingerprint(self, location: Location) -> str:
        """Return the fingerprint of schema and row counts."""
        with self.reading(location, location.address) as connection:

            def count(table: str) -> int:
                return int(rows_of(connection, f"SELECT count(*) FROM {quoted(table, DIALECT)}")[0][0])

            return fingerprint(
                read_structure(connection, 0), _product(connection, 2), location.version, count
            )


def _product(connection: Any, parts: int) -> str:
    """Return the server's name, and so many parts of its version."""
    server = connection.get_server_info()
    name = "MariaDB" if "MariaDB" in server else "MySQL"
    # MariaDB may put a version of MySQL in front, for old clients
    version = re.findall(r"\d+", server.removeprefix("5.5.5-"))
    return f"{name} {'.'.join(version[:parts])}"


class MysqlValues(ServerValues):
    """The values of a database."""

    dialect = DIALECT

    def texts(self, table: str, column: str, longest: int) -> Iterator[tuple[str, int]]:
        """Yield the different texts of a column of text; other types have none. Case and accents count."""
        name, source = quoted(column, DIALECT), quoted(table, DIALECT)
        if self._type(table, column) in _TEXT:
            for raw, uses in self._rows(
                f"SELECT BINARY {name}, count(*) FROM {source} "
                f"WHERE char_length({name}) BETWEEN 1 AND {longest} GROUP BY BINARY {name}"
            ):
                yield raw.decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else raw, uses

    def has_numbers(self, table: str, column: str) -> bool:
        """Return whether the type of a column is one of numbers."""
        return self._type(table, column) in _NUMBERS

    def _type(self, table: str, column: str) -> str:
        with self._connection.cursor() as cursor:
            cursor.execute(
                "SELECT data_type FROM information_schema.columns "
                "WHERE table_schema = DATABASE() AND table_name = %s AND column_name = %s",
                (table, column),
            )
            row = cursor.fetchone()
        return str(row[0]).lower() if row else ""

    def _rows(self, sql: str) -> Iterator[Any]:
        with self._connection.cursor(driver().cursors.SSCursor) as cursor:
            cursor.execute(sql)
            yield from cursor


def _refused(
    location: Location, database_id: str, error: BaseException
) -> DataError | DatabaseUnavailableError:
    text = explained(error)[:400]
    about = f'Database "{database_id}": {location}' if database_id else str(location)
    if "using password" in text:
        how = "Check user and password; the password is read from the URL or MYSQL_PWD."
    elif "denied" in text:
        how = f"Grant the role what it needs to read: {_READER.format(database='...')}"
    elif "SSL" in text or "TLS" in text or "certificate" in text:
        how = "Say how to encrypt at the end of the URL: ?sslmode=require, disable or verify-full&sslrootcert=FILE."
    elif unreachable(error):
        how = "Check host, port and whether the server runs; then run the same command again to continue."
        return DatabaseUnavailableError(f"{about}: the server does not answer ({text}). {how}")
    else:
        how = "Check the URL: mysql://user@host:port/database."
    return DataError(f"{about}: the server refuses ({text}). {how}")


ENGINES.register("mysql")(Mysql())
