"""Columns found in a SQL: the pure half of RSL-SQL's backward link (section 3.1; spec: rsl-sql, 1c)."""

from tasks.database.schema import Schema
from tasks.records import ColumnName
from tasks.settings.pipeline import Match
from tasks.sql.elements import resolved_elements
from tasks.sql.identifiers import mentions_substring, mentions_word


def columns_mentioned(sql: str, schema: Schema, match: Match) -> tuple[ColumnName, ...]:
    """Return the columns of the schema that a SQL mentions, in schema order.

    "substring" (published) and "word" keep a name for every table that owns it; "substring" also finds `id`
    inside `provide`. "parsed" resolves names to their tables, and falls back to "word" within the tables
    named if the SQL cannot be parsed.

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("a", (Column("id"), Column("day"))), Table("b", (Column("id"),))))
    >>> sql = "SELECT a.id FROM a WHERE kind = 'holiday'"
    >>> [[str(c) for c in columns_mentioned(sql, schema, m)] for m in ("substring", "word", "parsed")]
    [['a.id', 'a.day', 'b.id'], ['a.id', 'b.id'], ['a.id']]
    """
    if match == "parsed":
        return resolved_elements(sql, schema).columns
    found = mentions_substring if match == "substring" else mentions_word
    hits = {name: found(sql, name) for name in {c.column.lower() for c in schema.column_names}}
    return tuple(c for c in schema.column_names if hits[c.column.lower()])
