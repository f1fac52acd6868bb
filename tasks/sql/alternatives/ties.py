"""Ties of an ORDER BY, and LIMIT without one: broken by the output, upwards or downwards."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tasks.sql.alternatives.kinds import Kind

if TYPE_CHECKING:
    from sqlglot import exp


def queries(tree: "exp.Expr") -> "Iterator[exp.Query]":
    """Yield the SELECTs and set operations of a tree, from the outside in."""
    from sqlglot import exp

    return (node for node in tree.find_all(exp.Select, exp.SetOperation))


def _is_limited(node: "exp.Expr") -> bool:
    return bool(node.args.get("limit") or node.args.get("offset"))


TIES: "dict[Kind, Callable[[exp.Expr, exp.Expr], bool]]" = {
    "limit_tie": lambda tree, node: _is_limited(node) and bool(node.args.get("order")),
    "limit_without_order": lambda tree, node: _is_limited(node) and not node.args.get("order"),
    "order_tie": lambda tree, node: node is tree and bool(node.args.get("order")) and not _is_limited(node),
}
"""Which queries of a tree the kinds of ties are about."""


def break_ties(node: "exp.Query", width: int | None, *, downwards: bool) -> None:
    """Sort rows that are equal in the ORDER BY of a query by its output.

    `width` is the number of its columns if it is the outermost query, else None.
    """
    from sqlglot import exp

    order = node.args.get("order")
    if not (_is_limited(node) or (order and width is not None)):
        return
    columns = node.selects
    known = None if any(column.is_star for column in columns) else len(columns)
    count = known or width
    if not count:
        return
    terms = [
        exp.Ordered(this=exp.Literal.number(place), desc=downwards, nulls_first=not downwards)
        for place in range(1, count + 1)
    ]
    if order:
        order.set("expressions", [*order.expressions, *terms])
    else:
        node.set("order", exp.Order(expressions=terms))
