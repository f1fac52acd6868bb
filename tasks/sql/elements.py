"""Finds the tables and columns that a SQL uses: gold links, DAC's used elements, RSL-SQL's backward linking."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from tasks.core.records import ColumnName, Entities
from tasks.database.schema import Schema
from tasks.sql.parsing import exp, parse
from tasks.sql.resolution import Home, resolve

if TYPE_CHECKING:
    from tasks.settings.stages import Match

GoldElements = Literal["cross", "resolved"]


Elements = Entities
"""Tables of the schema that a SQL reads, and columns that it names. Of a SQL that cannot be parsed it is a guess: the
names that are found in its text."""


def elements(sql: str, schema: Schema, definition: GoldElements = "cross") -> Elements:
    """Return the elements of a SQL by either definition."""
    return cross_elements(sql, schema) if definition == "cross" else resolved_elements(sql, schema)


@lru_cache(maxsize=4096)
def cross_elements(sql: str, schema: Schema) -> Elements:
    """Return (tables named in the SQL × columns named in it) ∩ schema: the published definition.

    A column that two of the tables own counts twice, whichever was meant. `*` names no column.

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("a", (Column("id"), Column("x"))), Table("b", (Column("id"),))), dialect="sqlite")
    >>> [str(c) for c in cross_elements("SELECT a.id FROM a JOIN b ON x = 1", schema).columns]
    ['a.id', 'a.x', 'b.id']
    """
    tree = parse(sql, schema.dialect).tree
    if tree is None:
        return _by_words(sql, schema)
    tables = {node.name.lower() for node in tree.find_all(exp.Table)}
    columns = {node.name.lower() for node in tree.find_all(exp.Column)}
    return _in_schema_order(schema, tables, {(table, column) for table in tables for column in columns})


@lru_cache(maxsize=4096)
def resolved_elements(sql: str, schema: Schema) -> Elements:
    """Return the tables and columns that a SQL reads, each name resolved to the table it belongs to.

    Aliases, nested and correlated queries, derived tables, CTEs, USING and unqualified names are followed;
    a column of a derived table counts where it is read from the database. `*` names no column; a column that it passes
    on counts if an outer query names it. An unqualified name that several tables own counts for the first of them
    (SQLite calls it an error).

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("a", (Column("id"), Column("x"))), Table("b", (Column("id"),))), dialect="sqlite")
    >>> [str(c) for c in resolved_elements("SELECT t.id FROM a AS t JOIN b ON x = 1", schema).columns]
    ['a.id', 'a.x']
    """
    tree = parse(sql, schema.dialect).tree
    resolution = resolve(tree, schema) if isinstance(tree, exp.Query) else None
    if resolution is None:
        return _by_words(sql, schema)
    columns = {home for _, home in resolution.columns if home is not None}
    return _in_schema_order(schema, resolution.tables, columns.union(resolution.using))


@lru_cache(maxsize=4096)
def used_elements(sql: str, schema: Schema) -> Elements:
    """Return the tables that a query reads and the columns that it uses otherwise than to join (DAC, section 3.4).

    Aliases are resolved, in nested and correlated queries too; `*` names no column; a column that both joins and
    does something else counts. To join is to be in USING, in a condition of ON that joins two sources
    (`ON a.id = b.id`, but not `AND b.kind = 'x'`), or in an equality of two sources' columns in WHERE.

    A query that cannot be parsed is searched for names, as in `resolved_elements`.

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("a", (Column("id"), Column("x"))), Table("b", (Column("id"),))), dialect="sqlite")
    >>> [str(c) for c in used_elements("SELECT t.x FROM a AS t JOIN b ON t.id = b.id", schema).columns]
    ['a.x']
    """
    tree = parse(sql, schema.dialect).tree
    resolution = resolve(tree, schema) if isinstance(tree, exp.Query) else None
    if resolution is None:
        return resolved_elements(sql, schema)
    homes = {id(node): home for node, home in resolution.columns if home is not None}
    used = {home for node, home in resolution.columns if home is not None and not _joins(node, homes)}
    return _in_schema_order(schema, resolution.tables, used)


def columns_mentioned(sql: str, schema: Schema, match: "Match") -> tuple[ColumnName, ...]:
    """Return the columns of the schema that a SQL mentions, in schema order (RSL-SQL, section 3.1, backward link).

    "substring" (published) and "word" keep a name for every table that owns it; "substring" also finds `id`
    inside `provide`. "parsed" resolves names to their tables, and falls back to "word" within the tables
    named if the SQL cannot be parsed.

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("a", (Column("id"), Column("day"))), Table("b", (Column("id"),))), dialect="sqlite")
    >>> sql = "SELECT a.id FROM a WHERE kind = 'holiday'"
    >>> [[str(c) for c in columns_mentioned(sql, schema, m)] for m in ("substring", "word", "parsed")]
    [['a.id', 'a.day', 'b.id'], ['a.id', 'b.id'], ['a.id']]
    """
    if match == "parsed":
        return resolved_elements(sql, schema).columns
    mentions = mentions_substring if match == "substring" else mentions_word
    distinct_names = {name.column.lower() for name in schema.column_names}
    mentioned = {name for name in distinct_names if mentions(sql, name)}
    return tuple(name for name in schema.column_names if name.column.lower() in mentioned)


def _by_words(sql: str, schema: Schema) -> Elements:
    tables = {table.name.lower() for table in schema.tables if mentions_word(sql, table.name)}
    columns = {
        (name.table.lower(), name.column.lower())
        for name in schema.column_names
        if name.table.lower() in tables and mentions_word(sql, name.column)
    }
    return _in_schema_order(schema, tables, columns)


def _in_schema_order(schema: Schema, tables: Iterable[str], columns: set[tuple[str, str]]) -> Elements:
    mentioned = set(tables)
    return Elements(
        tuple(table.name for table in schema.tables if table.name.lower() in mentioned),
        tuple(name for name in schema.column_names if (name.table.lower(), name.column.lower()) in columns),
    )


def mentions_word(text: str, name: str) -> bool:
    """Return whether a name occurs in a text with no letter, digit or underscore beside it, compared without case.

    >>> mentions_word("SELECT id FROM t", "ID"), mentions_word("provide", "id")
    (True, False)
    """
    return bool(name) and _word(name.lower()).search(text.lower()) is not None


def mentions_substring(text: str, name: str) -> bool:
    """Return whether a name occurs anywhere in a text, compared without case.

    >>> mentions_substring("provide", "ID")
    True
    """
    return bool(name) and name.lower() in text.lower()


@lru_cache(maxsize=8192)
def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")


def _joins(column: "exp.Column", homes: dict[int, Home]) -> bool:
    """Return whether a column is in a condition that joins two sources: one of ON, or an equality in WHERE."""
    condition: exp.Expr = column  # in the end, the whole condition between AND, OR, NOT or brackets
    while condition.parent is not None and not isinstance(
        condition.parent,
        exp.Join | exp.Where | exp.Query | exp.Having | exp.Case | exp.Connector | exp.Paren | exp.Not,
    ):
        condition = condition.parent
    clause = condition.find_ancestor(exp.Join, exp.Where, exp.Query, exp.Having, exp.Case)
    if isinstance(clause, exp.Join):
        columns = list(condition.find_all(exp.Column))
    elif isinstance(clause, exp.Where) and isinstance(condition, exp.EQ):
        columns = [side for side in (condition.this, condition.expression) if isinstance(side, exp.Column)]
    else:
        return False
    sources = {source for each in columns if (source := _source(each, columns, homes))}
    return len(sources) > 1


def _source(column: "exp.Column", beside: "list[exp.Column]", homes: dict[int, Home]) -> str:
    """Return the source of a column: its qualifier, or its table if another column of the condition has none."""
    home = homes.get(id(column))
    if home is not None and not all(other.table for other in beside):
        return home[0]
    return str(column.table).lower()
