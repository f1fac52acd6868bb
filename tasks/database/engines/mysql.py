"""MySQL and MariaDB, by PyMySQL: written in Python, so it installs without a compiler, and is kept up."""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from tasks.database.dialects import quoted
from tasks.database.engine import ENGINES, Structure
from tasks.database.schema import Column, ForeignKey, Table
from tasks.database.servers.engine import ServerEngine, ServerValues, rows_of, with_first_rows
from tasks.database.servers.mysql import MysqlConnection, driver

DIALECT = "mysql"

# by name: create_time has whole seconds and is new after ALTER, so copies of one database would be read in two orders
_TABLES = """
SELECT table_name, CASE table_type WHEN 'VIEW' THEN '' ELSE table_comment END, table_type = 'VIEW'
FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_type IN ('BASE TABLE', 'VIEW') ORDER BY table_type, table_name
"""
_COLUMN_LIST = """
SELECT table_name, column_name, column_type, column_comment FROM information_schema.columns
WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position
"""
_KEYS = """
SELECT table_name, constraint_name, column_name, referenced_table_name, referenced_column_name
FROM information_schema.key_column_usage
WHERE table_schema = DATABASE() AND (constraint_name = 'PRIMARY' OR referenced_table_schema = DATABASE())
ORDER BY table_name, constraint_name, ordinal_position
"""


def read_structure(connection: Any, sample_rows: int) -> Structure:
    """Read tables with so many of their first rows, in the table's own order, views, and keys.

    Views that no query can read have no columns, and are left out.

    The connection is one of `open_reading`, which gives plain values.
    """
    columns: dict[str, list[Column]] = {}
    for table, name, kind, comment in rows_of(connection, _COLUMN_LIST):
        columns.setdefault(table, []).append(Column(name, kind, comment or ""))
    primary: dict[str, tuple[str, ...]] = {}
    foreign = []
    for (table, constraint), group in groupby(rows_of(connection, _KEYS), key=lambda row: (row[0], row[1])):
        members = list(group)
        own = tuple(row[2] for row in members)
        if constraint == "PRIMARY":
            primary[table] = own
        else:
            foreign.append(ForeignKey(table, own, members[0][3], tuple(row[4] for row in members)))
    tables = (
        Table(name, tuple(columns.get(name, ())), primary.get(name, ()), comment or "", bool(view))
        for name, comment, view in rows_of(connection, _TABLES)
        if name in columns or not view
    )
    sampled = (with_first_rows(connection, table, sample_rows, DIALECT) for table in tables)
    return Structure(tuple(sampled), tuple(foreign))


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
        rows = rows_of(
            self._connection,
            "SELECT data_type FROM information_schema.columns "
            "WHERE table_schema = DATABASE() AND table_name = %s AND column_name = %s",
            [table, column],
        )
        return str(rows[0][0]).lower() if rows else ""

    def _rows(self, sql: str) -> Iterator[Any]:
        with self._connection.cursor(driver().cursors.SSCursor) as cursor:
            cursor.execute(sql)
            yield from cursor


ABSENT = frozenset({1044, 1049})
"""No such database, or none that the role may open: MySQL does not tell a reader which."""
READING = frozenset({"USAGE", "SELECT", "SHOW VIEW", "SHOW DATABASES"})
_GRANT = re.compile(r"GRANT (.+?) ON (?!\S+@)")
_COLUMNS = re.compile(r"(?<!\s)\s*+\([^()]*\)")
_GRANTS = (
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
    sessions = MysqlConnection
    structure = staticmethod(read_structure)
    stored_values = MysqlValues
    server_name = "the server"
    grants = _GRANTS
    url_form = "mysql://user@host:port/database"
    login_sources = "the URL or MYSQL_PWD"
    refusals = (("using password", "login"), ("denied", "rights"), ("SSL|TLS|certificate", "encryption"))

    def is_absent(self, error: BaseException) -> bool:
        """Return whether there is no such database."""
        return bool(error.args) and error.args[0] in ABSENT

    def release(self, connection: Any) -> tuple[str, list[int]]:
        """Return MySQL or MariaDB with the server's version."""
        server = connection.get_server_info()
        # MariaDB may put a version of MySQL in front, for old clients
        numbers = re.findall(r"\d+", server.removeprefix("5.5.5-"))
        return "MariaDB" if "MariaDB" in server else "MySQL", [int(number) for number in numbers[:3]]

    def rights(self, connection: Any) -> tuple[str, str]:
        """Return what the role may do beyond reading, and the name of the database."""
        grants = (_GRANT.match(str(grant)) for (grant,) in rows_of(connection, "SHOW GRANTS"))
        lists = (_COLUMNS.sub("", grant[1]) for grant in grants if grant)
        granted = {right.strip() for listed in lists for right in listed.split(",")}
        ((database,),) = rows_of(connection, "SELECT DATABASE()")
        beyond = ", ".join(sorted(granted - READING))
        return f"has more rights than to read: {beyond}" if beyond else "", database


ENGINES.register("mysql")(Mysql())
