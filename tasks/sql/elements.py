"""Tables and columns that a SQL uses: the gold elements of schema linking (spec: metrics, schema linking)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tasks.database.schema import Schema
from tasks.records import ColumnName
from tasks.sql.identifiers import mentions_word
from tasks.sql.parsing import parse
from tasks.sql.resolution import resolve

GoldElements = Literal["cross", "resolved"]


@dataclass(frozen=True, slots=True)
class Elements:
    """Tables and columns of a SQL, in schema order, spelled as the database spells them.

    Attributes:
        tables: tables of the schema that the SQL reads.
        columns: columns of the schema that the SQL names.
        reason: why this is only a guess, "" normally: the SQL could not be parsed, so the names were searched
            for in its text.
    """

    tables: tuple[str, ...]
    columns: tuple[ColumnName, ...]
    reason: str = ""


def elements(sql: str, schema: Schema, definition: GoldElements = "cross") -> Elements:
    """Return the elements of a SQL by either definition."""
    return cross_elements(sql, schema) if definition == "cross" else resolved_elements(sql, schema)


def cross_elements(sql: str, schema: Schema) -> Elements:
    """Return (tables named in the SQL × columns named in it) ∩ schema: the published definition.

    A column that two of the tables own counts twice, whichever was meant. `*` names no column.

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("a", (Column("id"), Column("x"))), Table("b", (Column("id"),))))
    >>> [str(c) for c in cross_elements("SELECT a.id FROM a JOIN b ON x = 1", schema).columns]
    ['a.id', 'a.x', 'b.id']
    """
    from sqlglot import exp

    parsed = parse(sql, schema.dialect)
    if parsed.tree is None:
        return _by_words(sql, schema, parsed.reason)
    tables = {node.name.lower() for node in parsed.tree.find_all(exp.Table)}
    columns = {node.name.lower() for node in parsed.tree.find_all(exp.Column)}
    return _in_schema_order(schema, tables, {(table, column) for table in tables for column in columns})


def resolved_elements(sql: str, schema: Schema) -> Elements:
    """Return the columns that the SQL really means, each name resolved to the table it comes from.

    Aliases, nested and correlated queries, derived tables, CTEs, USING and unqualified names are followed;
    a column of a derived table counts where it is read from the database. `*` names no column.
    An unqualified name that several tables own counts for the first of them (SQLite calls it an error).

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("a", (Column("id"), Column("x"))), Table("b", (Column("id"),))))
    >>> [str(c) for c in resolved_elements("SELECT t.id FROM a AS t JOIN b ON x = 1", schema).columns]
    ['a.id', 'a.x']
    """
    from sqlglot import exp

    parsed = parse(sql, schema.dialect)
    if not isinstance(parsed.tree, exp.Query):
        return _by_words(sql, schema, parsed.reason or "not a query")
    found = resolve(parsed.tree, schema)
    if found is None:
        return _by_words(sql, schema, "its scopes cannot be told apart")
    columns = {home for _, home in found.columns if home is not None}
    return _in_schema_order(schema, found.tables, columns.union(found.using))


def _by_words(sql: str, schema: Schema, reason: str) -> Elements:
    tables = {t.name.lower() for t in schema.tables if mentions_word(sql, t.name)}
    columns = {
        (name.table.lower(), name.column.lower())
        for name in schema.column_names
        if name.table.lower() in tables and mentions_word(sql, name.column)
    }
    return _in_schema_order(schema, tables, columns, reason)


def _in_schema_order(
    schema: Schema, tables: Iterable[str], columns: set[tuple[str, str]], reason: str = ""
) -> Elements:
    named = set(tables)
    return Elements(
        tuple(t.name for t in schema.tables if t.name.lower() in named),
        tuple(n for n in schema.column_names if (n.table.lower(), n.column.lower()) in columns),
        reason,
    )
