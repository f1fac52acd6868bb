"""A query as a small frozen tree, and its text."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from tasks.backbone.offline.joins import JoinTree, join_tree
from tasks.backbone.offline.lexicon import words_of
from tasks.backbone.offline.schema import PromptSchema
from tasks.records import ColumnName

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = words_of(
    """
    abort action add after all alter analyze and as asc attach autoincrement before begin between by
    cascade case cast check collate column commit conflict constraint create cross current current_date
    current_time current_timestamp database default deferrable deferred delete desc detach distinct do
    drop each else end escape except exclude exclusive exists explain fail filter first following for
    foreign from full generated glob group groups having if ignore immediate in index indexed initially
    inner insert instead intersect into is isnull join key last left like limit match materialized
    natural no not nothing notnull null nulls of offset on or order others outer over partition plan
    pragma preceding primary query raise range recursive references regexp reindex release rename
    replace restrict returning right rollback row rows savepoint select set table temp temporary then
    ties to transaction trigger unbounded union unique update using vacuum values view virtual when
    where window with without
    """
)


@dataclass(frozen=True, slots=True)
class Expression:
    """SQL text with columns and nested queries in it, so that aliases are put in when it is rendered."""

    parts: tuple["str | ColumnName | Query", ...]

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """The columns of this level of nesting."""
        return tuple(part for part in self.parts if isinstance(part, ColumnName))


@dataclass(frozen=True, slots=True)
class Order:
    """One ORDER BY term."""

    by: Expression
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """One SELECT, with what it is combined with.

    Attributes:
        tables: tables that must be joined even if no column of theirs is named; the first is the FROM table
            where it has no reason to be another.
        where: conditions, all of which must hold.
        combined: another query that UNION, INTERSECT or EXCEPT attaches.
    """

    select: tuple[Expression, ...]
    tables: tuple[str, ...] = ()
    distinct: bool = False
    where: tuple[Expression, ...] = ()
    group: tuple[ColumnName, ...] = ()
    having: tuple[Expression, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    operator: Literal["UNION", "INTERSECT", "EXCEPT"] | None = None
    combined: "Query | None" = None

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """Every column of this SELECT, nested queries left out, in order of mention."""
        expressions = (*self.select, *self.where, *self.having, *(order.by for order in self.order))
        return tuple(dict.fromkeys((*(c for e in expressions for c in e.columns), *self.group)))

    @property
    def used_tables(self) -> tuple[str, ...]:
        """Every table that this SELECT needs."""
        return tuple(dict.fromkeys((*self.tables, *(column.table for column in self.columns))))

    def queries(self) -> Iterator["Query"]:
        """Yield this query and every one nested in it or combined with it."""
        yield self
        for expression in (*self.select, *self.where, *self.having):
            for part in expression.parts:
                if isinstance(part, Query):
                    yield from part.queries()
        if self.combined is not None:
            yield from self.combined.queries()

    def with_where(self, conditions: Iterable[Expression]) -> "Query":
        """Return this query with other conditions."""
        return replace(self, where=tuple(conditions))


def plain(column: ColumnName) -> Expression:
    """Return a bare column."""
    return Expression((column,))


def call(function: str, column: ColumnName | None, *, distinct: bool = False) -> Expression:
    """Return FUNCTION(column), or FUNCTION(*) without a column."""
    if column is None:
        return Expression((f"{function}(*)",))
    return Expression((f"{function}({'DISTINCT ' if distinct else ''}", column, ")"))


def compare(left: Expression, operator: str, right: "str | Query | Expression") -> Expression:
    """Return `left operator right`; text is SQL already, a query is put in parentheses."""
    if isinstance(right, Query):
        return Expression((*left.parts, f" {operator} (", right, ")"))
    if isinstance(right, Expression):
        return Expression((*left.parts, f" {operator} ", *right.parts))
    return Expression((*left.parts, f" {operator} {right}"))


def any_of(conditions: Iterable[Expression]) -> Expression:
    """Join conditions with OR, in parentheses when there are several."""
    several = tuple(dict.fromkeys(conditions))
    if len(several) == 1:
        return several[0]
    parts: list[str | ColumnName | Query] = []
    for condition in several:
        parts.extend((" OR " if parts else "(", *condition.parts))
    return Expression((*parts, ")"))


def literal(text: str, *, number: bool = False) -> str:
    """Return an SQL literal."""
    return text if number else "'" + text.replace("'", "''") + "'"


def is_reserved(word: str) -> bool:
    """Whether SQLite reads a word as a keyword."""
    return word.lower() in _RESERVED


def quoted(name: str) -> str:
    """Return a name as SQLite takes it, in backticks only where it needs quotes."""
    if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def render(query: Query, schema: PromptSchema) -> str:
    """Return a query's SQL, its tables joined by the shortest way over the schema's keys."""
    tree = join_tree(schema, query.used_tables)
    alias = {table: f"T{index}" for index, table in enumerate(tree.tables, 1)} if len(tree.tables) > 1 else {}
    pieces = [
        "SELECT "
        + ("DISTINCT " if query.distinct else "")
        + ", ".join(_text(e, schema, alias) for e in query.select),
        _from(tree, alias),
    ]
    if query.where:
        pieces.append("WHERE " + " AND ".join(_text(condition, schema, alias) for condition in query.where))
    if query.group:
        pieces.append("GROUP BY " + ", ".join(_column(column, alias) for column in query.group))
    if query.having:
        pieces.append("HAVING " + " AND ".join(_text(condition, schema, alias) for condition in query.having))
    if query.order:
        terms = (_text(o.by, schema, alias) + (" DESC" if o.descending else " ASC") for o in query.order)
        pieces.append("ORDER BY " + ", ".join(terms))
    if query.limit is not None:
        pieces.append(f"LIMIT {query.limit}")
    if query.operator and query.combined:
        pieces.extend((query.operator, render(query.combined, schema)))
    return " ".join(piece for piece in pieces if piece)


def _from(tree: JoinTree, alias: dict[str, str]) -> str:
    """Return the FROM clause."""
    if not tree.tables:
        return ""
    first, *others = tree.tables
    text = "FROM " + quoted(first) + (f" AS {alias[first]}" if alias else "")
    for table, keys in zip(others, tree.keys, strict=True):
        text += f" JOIN {quoted(table)} AS {alias[table]}"
        if keys:
            text += " ON " + " AND ".join(
                f"{_column(k.child, alias)} = {_column(k.parent, alias)}" for k in keys
            )
    return text


def _column(column: ColumnName, alias: dict[str, str]) -> str:
    """Return a column with its table's alias, where tables have one."""
    name = quoted(column.column)
    return f"{alias[column.table]}.{name}" if alias else name


def _text(expression: Expression, schema: PromptSchema, alias: dict[str, str]) -> str:
    """Render an expression."""
    pieces = []
    for part in expression.parts:
        if isinstance(part, str):
            pieces.append(part)
        elif isinstance(part, ColumnName):
            pieces.append(_column(part, alias))
        else:
            pieces.append(render(part, schema))
    return "".join(pieces)
