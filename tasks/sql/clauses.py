"""Splits a query into its clauses, which Spider's exact set match compares and its hardness counts.

Own reading of the definitions in Yu et al., "Spider" (2018), sections 4 and 5. Literals, DISTINCT and aliases
are left out; columns are resolved to `table.column` in lower case, and columns that an inner join makes equal are
one. ORDER BY and LIMIT behind a set operation belong to its last query, as in Spider's grammar.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from tasks.database.schema import Schema
from tasks.sql.parsing import exp, parse, write
from tasks.sql.resolution import connected
from tasks.sql.rewriting import with_joined_operators


@dataclass(frozen=True, slots=True)
class Term:
    """Canonical text of an expression, and whether it contains an aggregate."""

    text: str
    aggregated: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition without its values."""

    negated: bool  # whether it follows NOT
    operator: str  # "eq", "gt", "like", "in", "between", "exists", ..., as sqlglot calls it
    left: Term  # what is compared; two columns that are compared for equality, in the order of their names
    nested: tuple["Clauses", ...] = ()  # the queries it is compared with


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions in the order written, and the "and" or "or" between each two."""

    terms: tuple[Condition, ...] = ()
    connectors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Clauses:
    """The clauses of one query."""

    select: tuple[Term, ...] = ()  # what is selected
    # names of the tables, lower case, with a derived table as its own clauses
    tables: tuple["str | Clauses", ...] = ()
    joins: tuple[str, ...] = ()  # kinds of join other than the plain one ("left", "natural", ...), in order
    on: Conditions = Conditions()  # join conditions
    where: Conditions = Conditions()
    group: tuple[Term, ...] = ()
    having: Conditions = Conditions()
    order: tuple[tuple[Term, bool], ...] = ()  # with whether it is descending
    limited: bool = False  # whether there is a LIMIT
    # set operations that follow: "union", "intersect" or "except" and the query behind it
    operations: tuple["SetOperation", ...] = ()

    @property
    def conditions(self) -> Conditions:
        """The conditions of JOIN, WHERE and HAVING together."""
        parts = (self.on, self.where, self.having)
        return Conditions(
            tuple(term for part in parts for term in part.terms),
            tuple(connector for part in parts for connector in part.connectors),
        )


@dataclass(frozen=True, slots=True)
class SetOperation:
    """A set operation and the query behind it."""

    kind: str
    query: Clauses


@lru_cache(maxsize=4096)
def clauses(sql: str, schema: Schema) -> Clauses | None:
    """Split a query into its clauses; return None if it cannot be parsed or is no query.

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("Pet", (Column("Age"), Column("name"))),), dialect="sqlite")
    >>> taken = clauses("SELECT DISTINCT p.name FROM pet AS p WHERE p.age > 3", schema)
    >>> [term.text for term in taken.select], taken.where.terms[0].left.text
    (['pet.name'], 'pet.age')
    """
    tree = parse(with_joined_operators(sql), schema.dialect).tree
    if not isinstance(tree, exp.Query):
        return None
    try:
        return _Reader(schema).query(tree, None)
    except RecursionError:
        return None


@dataclass(frozen=True, slots=True)
class _Scope:
    """Tables of a query by alias, in FROM order; None for a derived one. `outer` is the query around it.

    `equal` maps a column that an inner join makes equal to others, by its alias and name, to the first of them.
    """

    schema: Schema
    tables: Mapping[str, str | None]
    outer: "_Scope | None"
    equal: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: "exp.Query", schema: Schema, outer: "_Scope | None") -> "_Scope":
        """Read the FROM of a query."""
        tables = {
            source.alias_or_name.lower(): source.name.lower() if isinstance(source, exp.Table) else None
            for source in _sources(tree)
        }
        scope = cls(schema, tables, outer)
        equal: dict[tuple[str, str], str] = {}
        for columns in connected(scope._equalities(tree)):
            first_name = min(map(scope._full_name, columns))
            equal |= dict.fromkeys(columns, first_name)
        return replace(scope, equal=equal)

    def name(self, column: "exp.Column") -> str | None:
        """Return a column as `table.column`, the first of equal ones; None where no table has it."""
        scope: _Scope | None = self
        while scope is not None:
            if (own := scope._find_own(column)) is not None:
                return scope.equal.get(own) or scope._full_name(own)
            scope = scope.outer
        return None

    def _equalities(self, tree: "exp.Query") -> Iterator[set[tuple[str, str]]]:
        """Yield the pairs of columns that inner joins demand to be equal."""
        for join in tree.args.get("joins") or []:
            is_inner = not join.side and not join.method
            condition = join.args.get("on") if is_inner else None
            parts = condition.flatten() if isinstance(condition, exp.And) else (condition,)
            for part in parts:
                if isinstance(part, exp.EQ):
                    columns = [side for side in (part.this, part.expression) if isinstance(side, exp.Column)]
                    pair = {own for column in columns if (own := self._find_own(column)) is not None}
                    if len(pair) == 2:
                        yield pair

    def _find_own(self, column: "exp.Column") -> tuple[str, str] | None:
        """Return the alias and name of a column of this query's own tables."""
        name, qualifier = column.name.lower(), column.table.lower()
        for alias, table in self.tables.items():
            if qualifier:
                is_here = alias == qualifier
            else:
                is_here = table is not None and name in self.schema.columns_by_table.get(table, ())
            if is_here:
                return alias, name
        return None

    def _full_name(self, own: tuple[str, str]) -> str:
        alias, name = own
        table = self.tables[alias]
        return f"{table}.{name}" if table else name


def _sources(tree: "exp.Query") -> "Iterator[exp.Expression]":
    """Yield what a query reads from: its FROM, then its joins."""
    origin = tree.args.get("from_") or tree.args.get("from")
    joined = [join.this for join in tree.args.get("joins") or []]
    yield from (source for source in ([origin.this] if origin else []) + joined if source is not None)


@dataclass(frozen=True, slots=True)
class _Reader:
    schema: Schema

    def query(self, tree: "exp.Query", outer: _Scope | None) -> Clauses:
        """Read a query; ORDER BY and LIMIT behind a query in brackets replace those within."""
        while isinstance(tree, exp.Subquery) and not tree.args.get("order") and not tree.args.get("limit"):
            tree = tree.this  # only brackets
        if isinstance(tree, exp.SetOperation):
            return self._set_operation(tree, outer)
        if isinstance(tree, exp.Select):
            return self._select(tree, outer)
        if isinstance(tree, exp.Subquery):
            scope = _Scope(self.schema, {}, outer)
            return replace(
                self.query(tree.this, outer),
                order=self._order(tree, scope),
                limited=bool(tree.args.get("limit")),
            )
        return Clauses(select=(Term(write(tree, self.schema.dialect)),))

    def _set_operation(self, tree: "exp.SetOperation", outer: _Scope | None) -> Clauses:
        first, last = self.query(tree.this, outer), self.query(tree.expression, outer)
        if tree.args.get("order") or tree.args.get("limit"):
            scope = _Scope.of(_last_select(tree), self.schema, outer)
            last = replace(last, order=self._order(tree, scope), limited=bool(tree.args.get("limit")))
        kind = tree.key if tree.args.get("distinct", True) else f"{tree.key} all"
        return replace(first, operations=(*first.operations, SetOperation(kind, last)))

    def _select(self, tree: "exp.Select", outer: _Scope | None) -> Clauses:
        joins = tree.args.get("joins") or []
        scope = _Scope.of(tree, self.schema, outer)
        group = tree.args.get("group")
        join_words = [(join.args.get("method"), join.side, _kind(join)) for join in joins]
        join_kinds = [" ".join(word.lower() for word in words if word) for words in join_words]
        on = [condition for join in joins if (condition := join.args.get("on"))]
        return Clauses(
            select=tuple(self._term(item, scope) for item in tree.expressions),
            tables=tuple(self._source(source, outer) for source in _sources(tree)),
            joins=tuple(kind for kind in join_kinds if kind),
            on=self._conditions(exp.and_(*on) if on else None, scope),
            where=self._clause(tree, "where", scope),
            group=tuple(self._term(item, scope) for item in group.expressions) if group else (),
            having=self._clause(tree, "having", scope),
            order=self._order(tree, scope),
            limited=bool(tree.args.get("limit")),
        )

    def _source(self, source: "exp.Expression", outer: _Scope | None) -> str | Clauses:
        if isinstance(source, exp.Subquery):
            return self.query(source.this, outer)
        return source.name.lower()

    def _clause(self, tree: "exp.Select", name: str, scope: _Scope) -> Conditions:
        clause = tree.args.get(name)
        return self._conditions(clause.this if clause else None, scope)

    def _order(self, tree: "exp.Query", scope: _Scope) -> tuple[tuple[Term, bool], ...]:
        order = tree.args.get("order")
        if not order:
            return ()
        return tuple((self._term(o.this, scope), bool(o.args.get("desc"))) for o in order.expressions)

    def _conditions(self, tree: "exp.Expr | None", scope: _Scope) -> Conditions:
        """Return the terms of a condition and what connects them, in the order of the text; brackets are dropped."""
        if tree is None:
            return Conditions()
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if isinstance(tree, exp.And | exp.Or):
            left, right = self._conditions(tree.this, scope), self._conditions(tree.expression, scope)
            return Conditions(left.terms + right.terms, (*left.connectors, tree.key, *right.connectors))
        return Conditions((self._condition(tree, scope),))

    def _condition(self, tree: "exp.Expr", scope: _Scope) -> Condition:
        """Return one comparison; the two columns of an equality are in alphabetical order."""
        negated = False
        while isinstance(tree, exp.Not | exp.Paren):
            if isinstance(tree, exp.Not):
                negated = not negated
            tree = tree.this
        if isinstance(tree, exp.Exists):
            return Condition(negated, "exists", Term(""), (self.query(tree.this, scope),))
        if not isinstance(tree, exp.Predicate | exp.Binary):
            return Condition(negated, "", self._term(tree, scope))
        values = [tree.args.get(name) for name in ("expression", "query", "low", "high")]
        nested = tuple(self.query(v, scope) for v in values if isinstance(v, exp.Query))
        left = self._term(tree.this, scope)
        if isinstance(tree, exp.EQ | exp.NEQ):
            columns = [side for side in (tree.this, tree.expression) if isinstance(side, exp.Column)]
            names = [name for column in columns if (name := scope.name(column))]
            if len(names) == 2:
                left = Term(", ".join(sorted(names)))
        return Condition(negated, tree.key, left, nested)

    def _term(self, tree: "exp.Expr", scope: _Scope) -> Term:
        aggregated = any(
            isinstance(node, exp.AggFunc) for node in tree.walk(prune=lambda n: isinstance(n, exp.Query))
        )
        return Term(self._text(tree, scope), aggregated)

    def _text(self, tree: "exp.Expr", scope: _Scope) -> str:
        """Return an expression without values, with full column names; a nested query by a digest of its clauses."""
        if isinstance(tree, exp.Column):
            return "*" if isinstance(tree.this, exp.Star) else scope.name(tree) or tree.name.lower()
        if isinstance(tree, exp.Star):
            return "*"
        if isinstance(tree, exp.Literal):
            return "_"
        if isinstance(tree, exp.Alias | exp.Paren):
            return self._text(tree.this, scope)
        if isinstance(tree, exp.Distinct):
            return ", ".join(self._text(item, scope) for item in tree.expressions)
        if isinstance(tree, exp.Query):
            # the text itself, quoted once more at each level, would double in length with each
            text = repr(self.query(tree, scope)).encode("utf-8", "surrogatepass")
            return f"query({hashlib.sha256(text).hexdigest()})"
        name = tree.name.lower() if isinstance(tree, exp.Anonymous) else tree.key
        children = [self._text(child, scope) for child in tree.iter_expressions()]
        return f"{name}({', '.join(children)})" if children else tree.sql(self.schema.dialect).lower()


def _kind(join: "exp.Join") -> str:
    return "" if join.kind.upper() in ("INNER", "CROSS") else str(join.kind)


def _last_select(tree: "exp.Query") -> "exp.Query":
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.expression if isinstance(tree, exp.SetOperation) else tree.this
    return tree


Hardness = Literal["easy", "medium", "hard", "extra"]


def hardness(sql: str, schema: Schema) -> Hardness | None:
    """Grade a query; None where it cannot be parsed.

    >>> hardness("SELECT name FROM singer WHERE age > 20", Schema("d", (), dialect="sqlite"))
    'easy'
    """
    query = clauses(sql, schema)
    return None if query is None else grade(query)


def grade(query: Clauses) -> Hardness:
    """Grade a query by the counts of its clauses, nested queries and repeated parts, with Spider's own limits."""
    parts = count_clauses(query)
    nested = count_nested(query)
    extras = count_extras(query)
    if parts <= 1 and extras == 0 and nested == 0:
        return "easy"
    if nested == 0 and ((extras <= 2 and parts <= 1) or (extras < 2 and parts <= 2)):
        return "medium"
    if nested == 0 and ((extras > 2 and parts <= 2) or (2 < parts <= 3 and extras <= 2)):
        return "hard"
    if parts <= 1 and extras == 0 and nested <= 1:
        return "hard"
    return "extra"


def count_clauses(query: Clauses) -> int:
    """Count WHERE, GROUP BY, ORDER BY, LIMIT, and every join, OR and LIKE."""
    conditions = query.conditions
    return (
        bool(query.where.terms)
        + bool(query.group)
        + bool(query.order)
        + query.limited
        + max(len(query.tables) - 1, 0)
        + conditions.connectors.count("or")
        + sum(term.operator == "like" for term in conditions.terms)
    )


def count_nested(query: Clauses) -> int:
    """Count queries in conditions and behind set operations; derived tables are not counted."""
    return sum(len(term.nested) for term in query.conditions.terms) + len(query.operations[:1])


def count_extras(query: Clauses) -> int:
    """Count how many of these occur more than once: aggregates, selected columns, conditions, groups.

    As published, a negated condition counts as an aggregate, and so does each AND or OR in HAVING.
    """
    aggregates = (
        sum(term.aggregated for term in query.select)
        + sum(term.negated for term in (*query.where.terms, *query.having.terms))
        + sum(term.aggregated for term in query.group)
        + sum(term.aggregated for term, _ in query.order)
        + len(query.having.connectors)
    )
    return (aggregates > 1) + (len(query.select) > 1) + (len(query.where.terms) > 1) + (len(query.group) > 1)
