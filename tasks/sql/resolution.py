"""Resolves the names in a query to database columns, and groups columns that foreign keys make equal."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from tasks.database.schema import Schema
from tasks.sql.parsing import exp, parse
from tasks.sql.skeleton import skeleton

T = TypeVar("T")
Home = tuple[str, str]
"""Table and column, both in lower case."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """Resolved names of a query, in lower case."""

    tables: frozenset[str]  # tables of the schema that it reads
    # each column node, with its database column; None for an output name, a column of a derived table, or a name that
    # means nothing. A qualified name need not exist in its table.
    columns: "tuple[tuple[exp.Column, Home | None], ...]"
    using: frozenset[Home]  # columns named by USING, in every table that owns them


def resolve(tree: "exp.Query", schema: Schema) -> Resolution | None:
    """Resolve every column of a query; return None if sqlglot cannot, as when two tables have the same alias."""
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.scope import traverse_scope

    try:
        scopes = [_Sources.of(scope, schema) for scope in traverse_scope(tree)]
    except (SqlglotError, RecursionError):
        return None
    # nodes are found by their identity: equal nodes may be in several places of a query
    by_query = {id(sources.scope.expression.unnest()): sources for sources in scopes}
    return Resolution(
        tables=frozenset(table for sources in scopes for table in sources.tables.values()),
        columns=tuple(
            (column, sources.find_in_chain(column, by_query))
            for sources in scopes
            for column in sources.columns()
        ),
        using=frozenset(column for sources in scopes for column in sources.joined_using()),
    )


@lru_cache(maxsize=256)
def equal_columns(schema: Schema) -> Mapping[str, str]:
    """Map each column that foreign keys make equal to others to the first of them by name, in lower case.

    >>> from tasks.database.schema import ForeignKey
    >>> equal_columns(Schema("d", (), (ForeignKey("Pet", ("owner",), "Man", ("id",)),), dialect="sqlite"))["pet.owner"]
    'man.id'
    """
    pairs = (
        {f"{key.table}.{child}".lower(), f"{key.parent}.{parent}".lower()}
        for key in schema.foreign_keys
        for child, parent in zip(key.columns, key.parent_columns, strict=False)
    )
    return {column: min(group) for group in connected(pairs) for column in group}


def connected(pairs: Iterable[set[T]]) -> list[set[T]]:
    """Return the groups of what pairs connect."""
    groups: list[set[T]] = []
    for pair in pairs:
        apart = [group for group in groups if not group & pair]
        groups = [*apart, pair.union(*(group for group in groups if group & pair))]
    return groups


@dataclass(frozen=True, slots=True)
class _Sources:
    """Sources in the FROM clause of one scope, in lower case."""

    scope: Any  # sqlglot's scope: one query without the queries within it
    tables: dict[str, str]  # database tables by the alias they have here
    # columns of derived tables and CTEs, by alias; "*" among them where it selects one
    derived: dict[str, frozenset[str]]
    inner: dict[str, Any]  # sqlglot's scopes of the same, by alias
    owned: Mapping[str, frozenset[str]]  # columns of the database's tables, by table
    # the database columns that `*` in its SELECT was found to mean, by name
    passed: dict[str, Home | None] = field(default_factory=dict)

    @classmethod
    def of(cls, scope: Any, schema: Schema) -> "_Sources":
        """Read the FROM of a scope."""
        tables: dict[str, str] = {}
        derived: dict[str, frozenset[str]] = {}
        inner: dict[str, Any] = {}
        for alias, (_, source) in scope.selected_sources.items():
            if not isinstance(source, exp.Table):
                derived[alias.lower()] = frozenset(name.lower() for name in source.expression.named_selects)
                inner[alias.lower()] = source
            elif source.name.lower() in schema.columns_by_table:
                tables[alias.lower()] = source.name.lower()
        return cls(scope, tables, derived, inner, schema.columns_by_table)

    def columns(self) -> "Iterator[exp.Column]":
        """Yield the columns written in this scope itself, not those of queries within it."""
        from sqlglot.optimizer.scope import walk_in_scope

        for node in walk_in_scope(self.scope.expression):
            if isinstance(node, exp.Column):
                yield node

    def joined_using(self) -> Iterator[tuple[str, str]]:
        for join in self.scope.expression.args.get("joins") or ():
            for name in join.args.get("using") or ():
                for table in self.tables.values():
                    if name.name.lower() in self.owned[table]:
                        yield table, name.name.lower()

    def find_in_chain(self, column: "exp.Column", by_query: "dict[int, _Sources]") -> tuple[str, str] | None:
        """Find a column in this scope, then in the enclosing ones (correlated queries)."""
        sources: _Sources | None = self
        while sources is not None:
            is_known, home = sources.find(column, by_query)
            if is_known:
                return home
            parent = sources.scope.parent
            sources = by_query.get(id(parent.expression.unnest())) if parent is not None else None
        return None

    def find(self, column: "exp.Column", by_query: "dict[int, _Sources]") -> tuple[bool, Home | None]:
        """Return whether a name is known in this scope, and its database column, None if it has none."""
        name, qualifier = column.name.lower(), column.table.lower()
        if qualifier:
            if qualifier in self.tables:
                return True, (self.tables[qualifier], name)
            return qualifier in self.derived, self._behind(qualifier, name, by_query)
        if self._is_output_name(column):
            return True, None
        home = self._among(name, (*self.tables, *self.derived), by_query)
        is_output_of_derived = any(name in outputs for outputs in self.derived.values())
        return home is not None or is_output_of_derived, home

    def _among(self, name: str, aliases: Iterable[str], by_query: "dict[int, _Sources]") -> Home | None:
        """Return the database column of an unqualified name among the sources of the aliases; None where it has none.

        The first source that has the name decides: a table, or a derived table that passes it on by `*`. A derived
        table that names the output itself gives None.
        """
        for alias in aliases:
            if alias in self.tables:
                if name in self.owned[self.tables[alias]]:
                    return self.tables[alias], name
            elif name in self.derived[alias]:
                return None
            elif home := self._behind(alias, name, by_query):
                return home
        return None

    def _behind(self, alias: str, name: str, by_query: "dict[int, _Sources]") -> Home | None:
        """Return the database column that a derived table passes on by `*`; None for its other columns."""
        if name in self.derived.get(alias, ()) or "*" not in self.derived.get(alias, ()):
            return None
        query = self.inner[alias].expression
        while isinstance(query, exp.SetOperation | exp.Subquery):
            query = query.this  # the first query's columns name the result's
        sources = by_query.get(id(query))
        return sources._passed_on(name, by_query) if sources else None

    def _passed_on(self, name: str, by_query: "dict[int, _Sources]") -> Home | None:
        """Return the database column that `*` in this SELECT passes on under a name; None where there is none."""
        if name not in self.passed:
            self.passed[name] = None  # a recursive CTE passes on nothing of its own
            aliases = (*self.tables, *self.derived)
            star_aliases: list[str] = []
            for star in (select for select in self.scope.expression.selects if select.is_star):
                table = star.args.get("table")  # of `alias.*`; None for `*`
                star_aliases += [alias for alias in aliases if not table or alias == table.name.lower()]
            self.passed[name] = self._among(name, star_aliases, by_query)
        return self.passed[name]

    def _is_output_name(self, column: "exp.Column") -> bool:
        """Return whether ORDER BY names a column of the result, which then hides those of the tables."""
        ordered = column.parent
        if not isinstance(ordered, exp.Ordered) or not isinstance(self.scope.expression, exp.Select):
            return False
        return any(
            isinstance(select, exp.Alias) and select.alias.lower() == column.name.lower()
            for select in self.scope.expression.selects
        )


@dataclass(frozen=True, slots=True)
class QueryParts:
    """The parts of a query. Names are in lower case, columns that a foreign key makes equal are one."""

    tables: frozenset[str]  # tables it reads
    columns: frozenset[str]  # columns it uses otherwise than to join
    # pairs of columns that it joins on, by the names of both, before any are made one
    joins: frozenset[frozenset[str]]
    values: tuple[str, ...]  # strings and numbers in it, sorted; LIMIT included
    skeleton: str | None  # its structure


@lru_cache(maxsize=4096)
def query_parts(sql: str, schema: Schema) -> QueryParts | None:
    """Split a query into parts; return None if it cannot be parsed or its names cannot be resolved.

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("a", (Column("id"), Column("x"))), Table("b", (Column("id"),))), dialect="sqlite")
    >>> found = query_parts("SELECT x FROM a JOIN b ON a.id = b.id WHERE x > 5", schema)
    >>> sorted(found.columns), [sorted(pair) for pair in found.joins], found.values
    (['a.x'], [['a.id', 'b.id']], ('5',))
    """
    tree = parse(sql, schema.dialect).tree
    resolution = resolve(tree, schema) if isinstance(tree, exp.Query) else None
    if tree is None or resolution is None:
        return None
    equal = equal_columns(schema)
    names = {id(node): f"{home[0]}.{home[1]}" for node, home in resolution.columns if home is not None}
    equalities = ({id(node.this), id(node.expression)} for node in tree.find_all(exp.EQ))
    pairs = [sides for sides in equalities if sides <= names.keys()]  # both sides are columns
    joining = {side for sides in pairs for side in sides}
    columns = {equal.get(name, name) for node, name in names.items() if node not in joining}
    joins = {frozenset(names[side] for side in sides) for sides in pairs}
    schema_columns = {f"{name.table}.{name.column}".lower() for name in schema.column_names}
    quoted = [
        node.name
        for node, _ in resolution.columns
        # in SQLite a name in double quotes that means no column is a string
        if node.this.args.get("quoted") and not node.table and id(node) not in names
    ]
    literals = [literal.name for literal in tree.find_all(exp.Literal)]
    return QueryParts(
        tables=resolution.tables,
        columns=frozenset(columns & (schema_columns | set(equal.values()))),
        joins=frozenset(joins),
        values=tuple(sorted([*literals, *quoted])),
        skeleton=skeleton(sql, schema.dialect),
    )
