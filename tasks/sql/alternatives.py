"""Alternatives of a query: SQL that another correct engine, row order or plan could execute in its place.

Each is a pair of queries. If their results differ, the data and the query do not decide the result:

- `limit_tie`: rows that ORDER BY leaves equal, at the cut of a LIMIT; sorted by the output, upwards and downwards.
- `limit_without_order`: a LIMIT without ORDER BY; sorted by the output, upwards and downwards.
- `order_tie`: rows that the outermost ORDER BY leaves equal, where the rule compares the order.
- `bare_column`: a column beside an aggregate that is not in GROUP BY; its least and its greatest value of the group.
- `extreme_row`: the same beside one MIN or MAX. SQLite takes the column from the row of that value, other engines not.
- `text_number`: numbers in a column of texts, sorted as texts and as numbers.
- `null_order`: NULL before and after the other values of an ORDER BY.
- `float_sum`: a sum of numbers in one and in two parts, as a parallel plan computes it.

Both queries of a pair break ties in the same way, except for the kinds about ties. Execute both to know
whether their results differ. The width of a subquery that selects `*` is unknown, so its ties are not broken.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from sqlglot import exp

from tasks.sql.parsing import parse, write

Kind = Literal[
    "limit_tie",
    "limit_without_order",
    "order_tie",
    "bare_column",
    "extreme_row",
    "text_number",
    "null_order",
    "float_sum",
]
KINDS: tuple[Kind, ...] = get_args(Kind)


def _nodes_of(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression, those of subqueries and windows left out."""
    skipped = (exp.Query, exp.Subquery, exp.Window)
    if isinstance(node, skipped):
        return
    for inner in node.walk(prune=lambda part: isinstance(part, skipped)):
        if not isinstance(inner, skipped):
            yield inner


def _parts(select: exp.Select) -> list[exp.Expr]:
    """Return the expressions of a SELECT that are computed after grouping."""
    having, order = select.args.get("having"), select.args.get("order")
    return [*select.expressions, *([having] if having else []), *(order.expressions if order else [])]


def _aggregates(select: exp.Select) -> list[exp.Expr]:
    return [node for part in _parts(select) for node in _nodes_of(part) if isinstance(node, exp.AggFunc)]


def has_one_extreme(select: exp.Select) -> bool:
    """Return whether the only aggregate of a SELECT is one MIN or one MAX."""
    extremes = {node.sql() for node in _aggregates(select) if isinstance(node, exp.Min | exp.Max)}
    return len(extremes) == 1 and len({node.sql() for node in _aggregates(select)}) == 1


def bare_columns(select: exp.Select) -> list[exp.Column]:
    """Return the columns of a grouped SELECT that are in no aggregate and not in GROUP BY."""
    group = select.args.get("group")
    if not group and not _aggregates(select):
        return []
    aliases = {expression.alias.lower(): expression for expression in select.expressions if expression.alias}
    terms = group.expressions if group else []
    keys = [_key(term, select, aliases) for term in terms]
    columns = []
    for part in _parts(select):
        for node in _nodes_of(part):
            if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                continue
            # HAVING and ORDER BY may name an output
            is_alias = part not in select.expressions and not node.table and node.name.lower() in aliases
            path = _path_up(node, part)
            is_bare = not any(isinstance(outer, exp.AggFunc) or _is_key(outer, keys) for outer in path)
            if is_bare and not is_alias:
                columns.append(node)
    return columns


def _path_up(node: exp.Expr, top: exp.Expr) -> list[exp.Expr]:
    """Return a node and the nodes around it, up to `top`."""
    path = [node]
    while path[-1] is not top and path[-1].parent is not None:
        path.append(path[-1].parent)
    return path


def _key(term: exp.Expr, select: exp.Select, aliases: dict[str, exp.Expr]) -> exp.Expr:
    """Return the expression that a term of GROUP BY stands for: a number is a position, a name may be an alias."""
    if isinstance(term, exp.Literal) and term.is_int and 0 < int(term.name) <= len(select.expressions):
        output: exp.Expr = select.expressions[int(term.name) - 1].unalias()
        return output
    if isinstance(term, exp.Column) and not term.table and term.name.lower() in aliases:
        return aliases[term.name.lower()].unalias()
    return term


def _is_key(node: exp.Expr, keys: Sequence[exp.Expr]) -> bool:
    """Return whether a node is one of the keys; a column without a table is that of any table."""

    def same(key: exp.Expr) -> bool:
        if isinstance(node, exp.Column) and isinstance(key, exp.Column):
            tables = {node.table.lower(), key.table.lower()} - {""}
            return node.name.lower() == key.name.lower() and len(tables) < 2
        return node == key

    return any(map(same, keys))


def wrap(columns: Sequence[exp.Column], name: str) -> None:
    """Replace columns by their MIN or MAX, under the same name in the output."""
    for column in columns:
        parent = column.parent
        wrapped = getattr(exp, name)(this=column.copy())
        is_output = isinstance(parent, exp.Select) and column in parent.expressions
        column.replace(exp.alias_(wrapped, column.name, quoted=True) if is_output else wrapped)


def ordered(tree: exp.Expr) -> Iterator[exp.Ordered]:
    """Yield the terms of every ORDER BY."""
    return (term for term in tree.find_all(exp.Ordered) if isinstance(term.parent, exp.Order))


def sort_keys(tree: exp.Expr) -> list[exp.Expr]:
    """Return the terms of ORDER BY and the arguments of MIN and MAX that are plain columns, as `probe` takes them."""
    keys: list[exp.Expr] = []
    for node in tree.find_all(exp.Ordered, exp.Min, exp.Max):
        if isinstance(node, exp.Ordered) and not isinstance(node.parent, exp.Order):
            continue
        if isinstance(node.this, exp.Column) and node.find_ancestor(exp.Select) is not None:
            keys.append(node.this)
    return keys


def probe(key: exp.Expr) -> exp.Select:
    """Return a query of the different values that a sort key has in the rows of its SELECT."""
    select = key.find_ancestor(exp.Select)
    assert select is not None
    rows = exp.Select()
    for name, part in select.args.items():
        if name in _ROWS and isinstance(part, exp.Expression):
            rows.set(name, part.copy())
    rows.set("joins", [join.copy() for join in select.args.get("joins") or ()])
    return rows.select(_without_alias(key, select).copy()).distinct()


_ROWS = ("with_", "with", "from_", "from", "where")
"""The parts of a SELECT that make its rows, as versions of sqlglot name them, beside `joins`."""


def _without_alias(key: exp.Expr, select: exp.Select) -> exp.Expr:
    """Return the column that a sort key names by its alias in the SELECT, any other key as it is."""
    if isinstance(key, exp.Column) and not key.table:
        for output in select.expressions:
            expression = output.unalias()
            if output.alias.lower() == key.name.lower() and isinstance(expression, exp.Column):
                return expression
    return key


def cast(tree: exp.Expr, text_numbers: Sequence[bool], *, inside: bool) -> None:
    """Cast MIN and MAX of sort keys whose texts hold numbers to numbers; with `inside`, the keys themselves, too."""

    def number(node: exp.Expr) -> exp.Expr:
        return exp.Cast(this=node.copy(), to=exp.DataType.build("DOUBLE"))

    for key, is_text_number in zip(sort_keys(tree), text_numbers, strict=True):
        if not is_text_number:
            continue
        select = key.find_ancestor(exp.Select)
        parent = key.parent
        assert select is not None
        if inside:
            key.replace(number(_without_alias(key, select)))
        if isinstance(parent, exp.Min | exp.Max):
            parent.replace(number(parent))


def sum_in_parts(tree: exp.Expr) -> bool:
    """Write every sum and average as the sum of two parts of the rows; return whether there is one."""
    sums = [
        node
        for node in tree.find_all(exp.Sum, exp.Avg)
        if not isinstance(node.this, exp.Distinct) and not isinstance(node.parent, exp.Window | exp.Filter)
    ]
    for node in sums:
        value = node.this
        # A row is in the first part if 10 times and 1000 times its value, both without decimals, have an even sum.
        # All whole numbers are: their sums are exact in any order.
        multiples = exp.Add(this=_whole(value, 10), expression=_whole(value, 1000))
        remainder = exp.Mod(this=exp.paren(multiples), expression=exp.Literal.number(2))
        even = exp.EQ(this=remainder, expression=exp.Literal.number(0))
        parts = [
            exp.Coalesce(
                this=exp.Sum(this=exp.Case(ifs=[exp.If(this=part, true=value.copy())])),
                expressions=[exp.Literal.number(0)],
            )
            for part in (even, exp.Not(this=exp.paren(even.copy())))
        ]
        total: exp.Expr = exp.paren(exp.Add(this=parts[0], expression=parts[1]))
        count = exp.Count(this=value.copy())
        if isinstance(node, exp.Avg):
            real = exp.Mul(this=total, expression=exp.Literal.number("1.0"))
            total = exp.Div(this=exp.paren(real), expression=count.copy(), typed=True)
        has_values = exp.GT(this=count, expression=exp.Literal.number(0))
        node.replace(exp.Case(ifs=[exp.If(this=has_values, true=total)]))
    return bool(sums)


def _whole(value: exp.Expr, times: int) -> exp.Expr:
    product = exp.Mul(this=exp.paren(value.copy()), expression=exp.Literal.number(times))
    return exp.Cast(this=product, to=exp.DataType.build("BIGINT"))


def queries(tree: exp.Expr) -> Iterator[exp.Query]:
    """Yield the SELECTs and set operations of a tree, from the outside in."""
    return (node for node in tree.find_all(exp.Select, exp.SetOperation))


def _is_limited(node: exp.Expr) -> bool:
    return bool(node.args.get("limit") or node.args.get("offset"))


TIES: dict[Kind, Callable[[exp.Expr, exp.Expr], bool]] = {
    "limit_tie": lambda tree, node: _is_limited(node) and bool(node.args.get("order")),
    "limit_without_order": lambda tree, node: _is_limited(node) and not node.args.get("order"),
    "order_tie": lambda tree, node: node is tree and bool(node.args.get("order")) and not _is_limited(node),
}
"""Which queries of a tree the kinds of ties are about."""


def break_ties(node: exp.Query, width: int | None, *, downwards: bool) -> None:
    """Sort rows that are equal in the ORDER BY of a query by its output columns, ascending or `downwards`.

    `width` is the number of its columns if it is the outermost query, else None.
    """
    order = node.args.get("order")
    if not (_is_limited(node) or (order and width is not None)):
        return
    columns = node.selects
    has_star = any(column.is_star for column in columns)
    count = width if has_star or not columns else len(columns)
    if not count:  # not known
        return
    terms = [
        exp.Ordered(this=exp.Literal.number(position), desc=downwards, nulls_first=not downwards)
        for position in range(1, count + 1)
    ]
    if order:
        order.set("expressions", [*order.expressions, *terms])
    else:
        node.set("order", exp.Order(expressions=terms))


@dataclass(frozen=True, slots=True)
class AlternativePair:
    """Two queries that are equally correct readings of one."""

    kind: Kind
    one: str
    other: str


@dataclass(frozen=True)
class Alternatives:
    """A query whose alternatives can be written."""

    tree: exp.Expr  # never changed
    dialect: str

    @property
    def same(self) -> str:
        """The query as sqlglot writes it: a result other than the query's own means that it cannot be rewritten."""
        return write(self.tree, self.dialect)

    @property
    def probes(self) -> tuple[str, ...]:
        """Queries whose only column are the values of a sort key, or of an argument of MIN or MAX, in their order."""
        return tuple(write(probe(key), self.dialect) for key in sort_keys(self.tree))

    def pairs(self, width: int, text_numbers: Sequence[bool]) -> Iterator[AlternativePair]:
        """Yield the pairs that apply.

        Args:
            width: columns of the query's result.
            text_numbers: of each probe, whether its values are numbers in texts.
        """
        for kind, pick in TIES.items():
            if any(pick(self.tree, node) for node in queries(self.tree)):
                yield AlternativePair(
                    kind, self._write(self.tree, width), self._write(self.tree, width, pick)
                )
        selects_with_bare = [select for select in self.tree.find_all(exp.Select) if bare_columns(select)]
        if selects_with_bare:
            least, greatest = self.tree.copy(), self.tree.copy()  # with MIN or MAX of each bare column
            for tree, name in ((least, "Min"), (greatest, "Max")):
                for select in list(tree.find_all(exp.Select)):
                    wrap(bare_columns(select), name)
            yield AlternativePair(
                "extreme_row" if all(map(has_one_extreme, selects_with_bare)) else "bare_column",
                self._write(least, width),
                self._write(greatest, width),
            )
        if any(text_numbers):
            as_texts, as_numbers = self.tree.copy(), self.tree.copy()
            cast(as_texts, text_numbers, inside=False)
            cast(as_numbers, text_numbers, inside=True)
            yield AlternativePair("text_number", self._write(as_texts, width), self._write(as_numbers, width))
        if list(ordered(self.tree)):
            other_end = self.tree.copy()  # with NULL at the other end of the order
            for term in ordered(other_end):
                term.set("nulls_first", not term.args.get("nulls_first"))
            yield AlternativePair("null_order", self._write(self.tree, width), self._write(other_end, width))
        in_parts = self.tree.copy()
        if sum_in_parts(in_parts):
            yield AlternativePair("float_sum", self._write(self.tree, width), self._write(in_parts, width))

    def _write(
        self, tree: exp.Expr, width: int, downwards: Callable[[exp.Expr, exp.Expr], bool] | None = None
    ) -> str:
        """Write a copy of a tree in which rows that are equal in an ORDER BY are sorted by the columns of the output.

        The order is ascending, but descending in each query of the tree for which `downwards(tree, query)` is true.
        `width` is the number of columns of the tree's result.
        """
        copy = tree.copy()
        for query in list(queries(copy)):
            descending = downwards is not None and downwards(copy, query)
            break_ties(query, width if query is copy else None, downwards=descending)
        return write(copy, self.dialect)


def find_alternatives(sql: str, dialect: str) -> Alternatives | None:
    """Return the alternatives of a query; None where sqlglot cannot parse it, or it is no query.

    >>> found = find_alternatives("SELECT a FROM t ORDER BY b LIMIT 1", "sqlite")
    >>> next(found.pairs(1, [False])).other
    'SELECT a FROM t ORDER BY b, 1 DESC LIMIT 1'
    """
    tree = parse(sql, dialect).tree
    return Alternatives(tree, dialect) if isinstance(tree, exp.Query) else None
