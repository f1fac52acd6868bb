"""A query as its clauses, built with sqlglot, its SQL, and joins over foreign keys."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp
from sqlglot.dialects.sqlite import SQLite

from tasks.backbone.offline.prompt.english import stems
from tasks.backbone.offline.prompt.schema import PromptSchema, Reference
from tasks.core.records import ColumnName
from tasks.database.identifiers import SQLITE, quoted_if_needed

if TYPE_CHECKING:
    Expression: TypeAlias = exp.Expr
else:
    Expression = exp.Expression  # older versions of sqlglot have no other base class

_KEY_ENDINGS = stems("id code number isbn ssn")


@dataclass(frozen=True, slots=True)
class Edge:
    """Two tables that can be joined, and the columns that join them."""

    left: str
    right: str
    key: Reference


@dataclass(frozen=True, slots=True)
class JoinTree:
    """Tables in joining order; `keys[i]` joins `tables[i + 1]` to those before it, None where nothing does."""

    tables: tuple[str, ...]
    keys: tuple[Reference | None, ...]


def join_tree(schema: PromptSchema, tables: Sequence[str]) -> JoinTree:
    """Join the tables by short ways, one after the other; those that no way leads to without a condition."""
    joined = list(tables[:1])
    keys: list[Reference | None] = []
    left = [table for table in tables if table not in joined]
    while left:
        ways = {table: way for table in left if (way := path(schema, joined, table))}
        if not ways:
            joined.append(left[0])
            keys.append(None)
        for edge in min(ways.values(), key=len, default=()):
            new = edge.right if edge.left in joined else edge.left
            if new not in joined:
                joined.append(new)
                keys.append(edge.key)
        left = [table for table in left if table not in joined]
    return JoinTree(tuple(joined), tuple(keys))


def path(schema: PromptSchema, start: Sequence[str], goal: str) -> tuple[Edge, ...]:
    """Return the shortest way from any of the tables to the goal, () without one; declared keys go first."""
    edges = _edges(schema)
    ways: dict[str, tuple[Edge, ...]] = dict.fromkeys(start, ())
    queue = list(start)
    for table in queue:
        if table == goal:
            return ways[table]
        for edge in edges.get(table, ()):
            other = edge.right if edge.left == table else edge.left
            if other not in ways:
                ways[other] = (*ways[table], edge)
                queue.append(other)
    return ()


@lru_cache(maxsize=8)
def _edges(schema: PromptSchema) -> dict[str, list[Edge]]:
    """Return the edges that leave each table: a foreign key each, else columns of one name that ends like a key."""
    edges: dict[frozenset[str], Edge] = {}
    for reference in (*schema.references, *_evident(schema)):
        left, right = reference.child.table, reference.parent.table
        if left != right:
            edges.setdefault(frozenset((left, right)), Edge(left, right, reference))
    leaving: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges.values():
        leaving[edge.left].append(edge)
        leaving[edge.right].append(edge)
    return leaving


def _evident(schema: PromptSchema) -> Iterator[Reference]:
    for column in schema.columns:
        if len(column.stems) > 1 and column.stems[-1] in _KEY_ENDINGS:
            for other in schema.find(column.name.column)[:12]:
                yield Reference(column.name, other)


class BacktickedSQLite(SQLite):
    """SQLite with names quoted in backticks: in double quotes a misspelt name would be a string."""

    class Tokenizer(SQLite.Tokenizer):
        """SQLite's tokenizer; the first pair of quotes is the one that is written."""

        IDENTIFIERS = ["`", '"', ("[", "]")]  # noqa: RUF012 - sqlglot's own form


@dataclass(frozen=True, slots=True)
class Order:
    """One ORDER BY term."""

    by: Expression
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """One SELECT. Columns in its expressions are qualified by the names of their tables, without aliases."""

    select: tuple[Expression, ...]
    # tables that must be joined even if no column of theirs is named; the first is the FROM table where it has no
    # reason to be another
    tables: tuple[str, ...] = ()
    distinct: bool = False
    where: tuple[Expression, ...] = ()
    group: ColumnName | None = None
    having: Expression | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    intersect: "Query | None" = None  # another query whose rows must be in the result too

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """Every column of this SELECT, nested queries left out, in order of mention."""
        expressions = (
            *self.select,
            *self.where,
            *filter(None, [self.having]),
            *(one.by for one in self.order),
        )
        mentioned = [column for expression in expressions for column in columns_of(expression)]
        return tuple(dict.fromkeys((*mentioned, *filter(None, [self.group]))))

    @property
    def used_tables(self) -> tuple[str, ...]:
        """Every table that this SELECT needs."""
        return tuple(dict.fromkeys((*self.tables, *(column.table for column in self.columns))))

    def build(self, schema: PromptSchema) -> exp.Query:
        """Return the query as sqlglot's tree, its tables joined by the shortest way over the schema's keys."""
        tree = join_tree(schema, self.used_tables)
        alias = {table: f"T{n}" for n, table in enumerate(tree.tables, 1)} if len(tree.tables) > 1 else {}

        def placed(expression: Expression) -> Expression:
            return _with_aliases(expression, tree.tables, alias)

        select = exp.Select(expressions=[placed(one) for one in self.select])
        select = _joined(select, tree, alias)
        for condition in self.where:
            select = select.where(placed(condition), copy=False)
        if self.group:
            select = select.group_by(placed(plain(self.group)), copy=False)
        if self.having:
            select = select.having(placed(self.having), copy=False)
        for order in self.order:
            select = select.order_by(
                exp.Ordered(this=placed(order.by), desc=order.descending, nulls_first=not order.descending),
                copy=False,
            )
        if self.limit is not None:
            select = select.limit(self.limit, copy=False)
        if self.distinct:
            select = select.distinct(copy=False)
        if self.intersect:
            return exp.Intersect(this=select, expression=self.intersect.build(schema), distinct=True)
        return select

    def sql(self, schema: PromptSchema) -> str:
        """Return the query's SQL."""
        return written(self.build(schema), schema.dialect)

    def simpler(self) -> Iterator["Query"]:
        """Yield forms of the query that return more: all text compared with LIKE, then fewer conditions."""
        yield replace(self, where=tuple(map(_loosened, self.where)))
        for index in reversed(range(len(self.where))):
            yield replace(self, where=self.where[:index] + self.where[index + 1 :])
        yield replace(self, intersect=None)
        yield replace(self, having=None)
        yield replace(self, where=(), having=None, intersect=None)


def written(tree: Expression, dialect: str) -> str:
    """Return the SQL of a tree in a dialect, names quoted where it needs quotes."""
    if dialect == SQLITE:
        return tree.sql(BacktickedSQLite)
    tree = tree.copy()
    for identifier in tree.find_all(exp.Identifier):
        identifier.set("quoted", quoted_if_needed(identifier.name, dialect) != identifier.name)
    return tree.sql(dialect)


def name(text: str) -> exp.Identifier:
    """Return a name, quoted only where it needs quotes."""
    return exp.to_identifier(text, quoted=quoted_if_needed(text, SQLITE) != text)


def plain(column: ColumnName) -> exp.Column:
    """Return a bare column."""
    return exp.Column(this=name(column.column), table=name(column.table))


def call(function: str, column: ColumnName | None, *, distinct: bool = False) -> Expression:
    """Return FUNCTION(column), or FUNCTION(*) without a column."""
    argument: Expression = plain(column) if column else exp.Star()
    return exp.func(function, exp.Distinct(expressions=[argument]) if distinct else argument)


def text_literal(text: str) -> exp.Literal:
    """Return a text as SQL."""
    return exp.Literal.string(text)


OPERATORS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ, "!=": exp.NEQ, "<": exp.LT, ">": exp.GT, "<=": exp.LTE, ">=": exp.GTE, "LIKE": exp.Like,
}  # fmt: skip


def compare(left: Expression, operator: str, right: Expression) -> Expression:
    """Return `left operator right`."""
    if operator == "NOT LIKE":
        return exp.Not(this=exp.Like(this=left, expression=right))
    return OPERATORS[operator](this=left, expression=right)


COUNT = call("COUNT", None)
"""COUNT(*)."""


def columns_of(expression: Expression) -> tuple[ColumnName, ...]:
    """Return the columns of an expression, those of nested queries left out, in order of mention."""
    nodes = expression.dfs(prune=lambda node: isinstance(node, exp.Query))
    found = (node for node in nodes if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star))
    return tuple(ColumnName(node.table, node.name) for node in found)


def _joined(select: exp.Select, tree: JoinTree, alias: dict[str, str]) -> exp.Select:
    for index, table in enumerate(tree.tables):
        source: Expression = exp.Table(this=name(table))
        source = exp.alias_(source, alias[table], table=True) if alias else source
        key = tree.keys[index - 1] if index else None
        ends = (
            [_with_aliases(plain(end), tree.tables, alias) for end in (key.child, key.parent)] if key else []
        )
        on = exp.EQ(this=ends[0], expression=ends[1]) if ends else None
        select = select.join(source, on=on, copy=False) if index else select.from_(source, copy=False)
    return select


def _with_aliases(expression: Expression, tables: Iterable[str], alias: dict[str, str]) -> Expression:
    copy = expression.copy()
    for node in list(copy.dfs(prune=lambda node: isinstance(node, exp.Query))):
        if isinstance(node, exp.Column) and node.table in tables:
            node.set("table", exp.to_identifier(alias[node.table]) if alias else None)
    return copy


def _loosened(condition: Expression) -> Expression:
    if isinstance(condition, exp.EQ) and condition.expression.is_string:
        return exp.Like(this=condition.this, expression=text_literal(f"%{condition.expression.name}%"))
    return condition
