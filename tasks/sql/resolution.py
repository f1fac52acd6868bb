"""Resolves the names in a query to database columns, and groups columns that foreign keys make equal."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tasks.database.schema import Schema

if TYPE_CHECKING:
    from sqlglot import exp

Home = tuple[str, str]
"""Table and column, both in lower case."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """Resolved names of a query, in lower case.

    Attributes:
        tables: tables of the schema that it reads.
        columns: each column node, with its database column; None for an output name, a column of a derived
            table, or a name that means nothing. A qualified name need not exist in its table.
        using: columns named by USING, in every table that owns them.
    """

    tables: frozenset[str]
    columns: "tuple[tuple[exp.Column, Home | None], ...]"
    using: frozenset[Home]


def resolve(tree: "exp.Query", schema: Schema) -> Resolution | None:
    """Resolve every column of a query; return None if sqlglot cannot, as when two tables have the same alias."""
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.scope import traverse_scope

    try:
        scopes = [_Sources.of(scope, schema) for scope in traverse_scope(tree)]
    except (SqlglotError, RecursionError):
        return None
    by_scope = {id(sources.scope): sources for sources in scopes}
    return Resolution(
        frozenset(table for sources in scopes for table in sources.tables.values()),
        tuple((column, s.find_in_chain(column, by_scope)) for s in scopes for column in s.columns()),
        frozenset(home for sources in scopes for home in sources.joined_using()),
    )


@lru_cache(maxsize=256)
def equal_columns(schema: Schema) -> Mapping[str, str]:
    """Map each column that foreign keys make equal to others to the first of them by name, in lower case.

    >>> from tasks.database.schema import ForeignKey
    >>> equal_columns(Schema("d", (), (ForeignKey("Pet", ("owner",), "Man", ("id",)),), dialect="sqlite"))["pet.owner"]
    'man.id'
    """
    groups: list[set[str]] = []
    for key in schema.foreign_keys:
        for child, parent in zip(key.columns, key.parent_columns, strict=False):
            pair = {f"{key.table}.{child}".lower(), f"{key.parent}.{parent}".lower()}
            touched = [group for group in groups if group & pair]
            groups = [group for group in groups if not group & pair] + [pair.union(*touched)]
    return {column: min(group) for group in groups for column in group}


@dataclass(frozen=True, slots=True)
class _Sources:
    """Sources in the FROM clause of one scope, in lower case.

    Attributes:
        scope: sqlglot's scope: one query without the queries within it.
        tables: database tables by the alias they have here.
        derived: columns of derived tables and CTEs, by alias.
        owned: columns of the database tables, by alias.
    """

    scope: Any
    tables: dict[str, str]
    derived: dict[str, frozenset[str]]
    owned: dict[str, frozenset[str]]

    @classmethod
    def of(cls, scope: Any, schema: Schema) -> "_Sources":
        """Read the FROM of a scope."""
        from sqlglot import exp

        tables: dict[str, str] = {}
        derived: dict[str, frozenset[str]] = {}
        owned: dict[str, frozenset[str]] = {}
        for alias, (_, source) in scope.selected_sources.items():
            if isinstance(source, exp.Table):
                table = schema.table(source.name)
                if table is not None:
                    tables[alias.lower()] = table.name.lower()
                    owned[alias.lower()] = frozenset(c.name.lower() for c in table.columns)
            else:
                derived[alias.lower()] = frozenset(n.lower() for n in source.expression.named_selects)
        return cls(scope, tables, derived, owned)

    def columns(self) -> "Iterator[exp.Column]":
        """Yield the columns written in this scope itself, not those of queries within it."""
        from sqlglot import exp
        from sqlglot.optimizer.scope import walk_in_scope

        for node in walk_in_scope(self.scope.expression):
            if isinstance(node, exp.Column):
                yield node

    def joined_using(self) -> Iterator[tuple[str, str]]:
        for join in self.scope.expression.args.get("joins") or ():
            for name in join.args.get("using") or ():
                for alias, table in self.tables.items():
                    if name.name.lower() in self.owned[alias]:
                        yield table, name.name.lower()

    def find_in_chain(self, column: "exp.Column", by_scope: "dict[int, _Sources]") -> tuple[str, str] | None:
        """Find a column in this scope, then in the enclosing ones (correlated queries)."""
        sources: _Sources | None = self
        while sources is not None:
            found, home = sources.find(column)
            if found:
                return home
            parent = sources.scope.parent
            sources = by_scope.get(id(parent)) if parent is not None else None
        return None

    def find(self, column: "exp.Column") -> tuple[bool, tuple[str, str] | None]:
        """Return whether a name is known in this scope, and its database column if it has one."""
        name, qualifier = column.name.lower(), column.table.lower()
        if qualifier:
            if qualifier in self.tables:
                return True, (self.tables[qualifier], name)
            return qualifier in self.derived, None
        if self._is_output_name(column):
            return True, None
        for alias, table in self.tables.items():
            if name in self.owned[alias]:
                return True, (table, name)
        return any(name in outputs for outputs in self.derived.values()), None

    def _is_output_name(self, column: "exp.Column") -> bool:
        """Return whether ORDER BY names a column of the result, which then hides those of the tables."""
        from sqlglot import exp

        ordered = column.parent
        if not isinstance(ordered, exp.Ordered) or not isinstance(self.scope.expression, exp.Select):
            return False
        return any(
            isinstance(select, exp.Alias) and select.alias.lower() == column.name.lower()
            for select in self.scope.expression.selects
        )
