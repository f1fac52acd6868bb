"""The schema of a PostgreSQL database: tables on the search path, comments, keys, first rows."""

from typing import TYPE_CHECKING, Any

from tasks.database.engine import Structure
from tasks.database.identifiers import quoted
from tasks.database.plain import plain_row
from tasks.database.schema import Column, ForeignKey, Table

if TYPE_CHECKING:
    import psycopg

DIALECT = "postgres"

# tables, partitioned ones without their parts, foreign tables, materialized views; other views hold no data
_TABLES = """
SELECT c.oid, c.relname, obj_description(c.oid, 'pg_class')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f', 'm') AND NOT c.relispartition AND n.nspname = ANY (current_schemas(false))
  AND has_table_privilege(c.oid, 'SELECT') AND pg_table_is_visible(c.oid)
ORDER BY c.oid
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


def read_structure(connection: "psycopg.Connection[Any]", sample_rows: int) -> Structure:
    """Read tables with so many of their first rows, in the table's own order, and keys.

    The connection is one of `open_reading`, which gives plain values.
    """
    listed = connection.execute(_TABLES).fetchall()
    names = {oid: name for oid, name, _ in listed}
    columns: dict[int, list[Column]] = {oid: [] for oid in names}
    for oid, name, kind, comment in connection.execute(_COLUMNS, [list(names)]).fetchall():
        columns[oid].append(Column(name, kind, comment or ""))
    primary: dict[int, tuple[str, ...]] = {}
    foreign = []
    for kind, table, parent, own, others in connection.execute(_KEYS, [list(names)]).fetchall():
        if kind in (b"p", "p"):
            primary[table] = tuple(own)
        elif parent in names:
            foreign.append(ForeignKey(names[table], tuple(own), names[parent], tuple(others)))
    tables = (
        Table(name, tuple(columns[oid]), primary.get(oid, ()), comment or "") for oid, name, comment in listed
    )
    sampled = (table.with_rows(_first_rows(connection, table.name, sample_rows)) for table in tables)
    return Structure(tuple(sampled), tuple(foreign))


def _first_rows(connection: "psycopg.Connection[Any]", table: str, rows: int) -> list[tuple[Any, ...]]:
    sql = f"SELECT * FROM {quoted(table, DIALECT)} LIMIT {rows}"
    return [plain_row(row) for row in connection.execute(sql).fetchall()] if rows else []
