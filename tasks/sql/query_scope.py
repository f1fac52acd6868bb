"""Resolution of column names within one query, and its parts for comparison with a gold query."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tasks.database.schema import Schema
from tasks.sql.parsing import parse
from tasks.sql.resolution import equal_columns, resolve
from tasks.sql.skeleton import skeleton

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class QueryScope:
    """Tables of a query by alias, in FROM order; None for a derived one. `outer` is the query around it.

    `equal` maps a column that an inner join makes equal to others, by its alias and name, to the first of them.
    """

    schema: Schema
    tables: Mapping[str, str | None]
    outer: "QueryScope | None"
    equal: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: "exp.Query", schema: Schema, outer: "QueryScope | None") -> "QueryScope":
        """Read the FROM of a query."""
        from sqlglot import exp

        tables = {
            source.alias_or_name.lower(): source.name.lower() if isinstance(source, exp.Table) else None
            for source in sources(tree)
        }
        scope = cls(schema, tables, outer)
        groups: list[set[tuple[str, str]]] = []
        for pair in scope._equalities(tree):
            apart = [group for group in groups if not group & pair]
            groups = [*apart, pair.union(*(group for group in groups if group & pair))]
        return replace(scope, equal={own: min(map(scope._full, group)) for group in groups for own in group})

    def name(self, column: "exp.Column") -> str | None:
        """Return a column as `table.column`, the first of equal ones; None where no table has it."""
        scope: QueryScope | None = self
        while scope is not None:
            if (own := scope._own(column)) is not None:
                return scope.equal.get(own) or scope._full(own)
            scope = scope.outer
        return None

    def _equalities(self, tree: "exp.Query") -> Iterator[set[tuple[str, str]]]:
        """Yield the pairs of columns that inner joins demand to be equal."""
        from sqlglot import exp

        for join in tree.args.get("joins") or []:
            condition = None if join.side or join.method else join.args.get("on")
            for part in condition.flatten() if isinstance(condition, exp.And) else (condition,):
                if isinstance(part, exp.EQ):
                    columns = [s for s in (part.this, part.expression) if isinstance(s, exp.Column)]
                    pair = {own for column in columns if (own := self._own(column)) is not None}
                    if len(pair) == 2:
                        yield pair

    def _own(self, column: "exp.Column") -> tuple[str, str] | None:
        """Return the alias and name of a column of this query's own tables."""
        name, qualifier = column.name.lower(), column.table.lower()
        for alias, table in self.tables.items():
            if alias == qualifier if qualifier else table and self._has(table, name):
                return alias, name
        return None

    def _full(self, own: tuple[str, str]) -> str:
        alias, name = own
        table = self.tables[alias]
        return f"{table}.{name}" if table else name

    def _has(self, table: str, column: str) -> bool:
        found = self.schema.table(table)
        return found is not None and any(c.name.lower() == column for c in found.columns)


def sources(tree: "exp.Query") -> "Iterator[exp.Expression]":
    """Yield what a query reads from: its FROM, then its joins."""
    origin = tree.args.get("from_") or tree.args.get("from")
    joined = [join.this for join in tree.args.get("joins") or []]
    yield from (source for source in ([origin.this] if origin else []) + joined if source is not None)


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
    from sqlglot import exp

    tree = parse(sql, schema.dialect).tree
    found = resolve(tree, schema) if isinstance(tree, exp.Query) else None
    if tree is None or found is None:
        return None
    equal = equal_columns(schema)
    names = {id(node): f"{home[0]}.{home[1]}" for node, home in found.columns if home is not None}
    pairs = [
        (node, {id(node.this), id(node.expression)})
        for node in tree.find_all(exp.EQ)
        if id(node.this) in names and id(node.expression) in names
    ]
    joining = {side for _, sides in pairs for side in sides}
    columns = {equal.get(name, name) for node, name in names.items() if node not in joining}
    joins = {frozenset(names[side] for side in sides) for _, sides in pairs}
    owned = {f"{c.table}.{c.column}".lower() for c in schema.column_names}
    quoted = [
        node.name
        for node, _ in found.columns
        # in SQLite a name in double quotes that means no column is a string
        if node.this.args.get("quoted") and not node.table and id(node) not in names
    ]
    literals = [literal.name for literal in tree.find_all(exp.Literal)]
    return QueryParts(
        found.tables,
        frozenset(columns & (owned | set(equal.values()))),
        frozenset(joins),
        tuple(sorted([*literals, *quoted])),
        skeleton(sql, schema.dialect),
    )
