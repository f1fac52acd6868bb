"""PostgreSQL, by psycopg 3."""

import re
from collections.abc import Iterator
from typing import Any

from tasks.database.dialects import quoted
from tasks.database.engine import ENGINES, Structure
from tasks.database.schema import Column, ForeignKey, Table
from tasks.database.servers.engine import ServerEngine, ServerValues, rows_of, with_first_rows
from tasks.database.servers.postgresql import PostgresConnection

DIALECT = "postgres"

# tables, partitioned ones without their parts, foreign tables, materialized views; then views but those of extensions
_TABLES = """
SELECT c.oid, c.relname, obj_description(c.oid, 'pg_class'), c.relkind = 'v'
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f', 'm', 'v') AND NOT c.relispartition AND n.nspname = ANY (current_schemas(false))
  AND has_table_privilege(c.oid, 'SELECT') AND pg_table_is_visible(c.oid)
  AND (c.relkind <> 'v' OR NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e'))
ORDER BY c.relkind = 'v', c.oid
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


def read_structure(connection: Any, sample_rows: int) -> Structure:
    """Read tables with so many of their first rows, in the table's own order, views, and keys.

    The connection is one of `open_reading`, which gives plain values.
    """
    listed = rows_of(connection, _TABLES)
    names = {oid: name for oid, name, _, _ in listed}
    columns: dict[int, list[Column]] = {oid: [] for oid in names}
    for oid, name, kind, comment in rows_of(connection, _COLUMNS, [list(names)]):
        columns[oid].append(Column(name, kind, comment or ""))
    primary: dict[int, tuple[str, ...]] = {}
    foreign = []
    for kind, table, parent, own, others in rows_of(connection, _KEYS, [list(names)]):
        if kind in (b"p", "p"):
            primary[table] = tuple(own)
        elif parent in names:
            foreign.append(ForeignKey(names[table], tuple(own), names[parent], tuple(others)))
    tables = (
        Table(name, tuple(columns[oid]), primary.get(oid, ()), comment or "", view)
        for oid, name, comment, view in listed
    )
    sampled = (with_first_rows(connection, table, sample_rows, DIALECT) for table in tables)
    return Structure(tuple(sampled), tuple(foreign))


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
        rows = rows_of(
            self._connection,
            "SELECT t.typcategory::text FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
            "WHERE a.attrelid = %s::regclass AND a.attname = %s",
            [quoted(table, DIALECT), column],
        )
        return str(rows[0][0]) if rows else ""

    def _rows(self, sql: str) -> Iterator[Any]:
        with self._connection.transaction(), self._connection.cursor(name="values") as cursor:
            cursor.itersize = 10_000
            cursor.execute(sql)
            yield from cursor


_ABSENT = re.compile(r'database "[^"]*" does not exist')
_GRANTS = (
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
    sessions = PostgresConnection
    structure = staticmethod(read_structure)
    stored_values = PostgresValues
    server_name = "PostgreSQL"
    grants = _GRANTS
    url_form = "postgresql://user@host:port/database"
    login_sources = "the URL, PGPASSWORD or ~/.pgpass"
    refusals = (
        ("password|authentication", "login"),
        ("permission denied", "rights"),
        (r"sslmode|certificate|SSL (?!SYSCALL)", "encryption"),
    )

    def is_absent(self, error: BaseException) -> bool:
        """Return whether there is no such database."""
        return _ABSENT.search(str(error)) is not None

    def release(self, connection: Any) -> tuple[str, list[int]]:
        """Return PostgreSQL with the server's version."""
        return "PostgreSQL", [*divmod(connection.info.server_version, 10000)]

    def rights(self, connection: Any) -> tuple[str, str]:
        """Return what the role may do beyond reading, and the name of the database."""
        return ", ".join(right for (right,) in rows_of(connection, _RIGHTS)), connection.info.dbname


ENGINES.register("postgresql")(Postgresql())
