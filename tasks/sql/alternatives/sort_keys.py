"""What a query sorts by, and what MIN and MAX compare: the values, their order with NULL, and as numbers."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


def ordered(tree: "exp.Expr") -> "Iterator[exp.Ordered]":
    """Yield the terms of every ORDER BY."""
    from sqlglot import exp

    return (term for term in tree.find_all(exp.Ordered) if isinstance(term.parent, exp.Order))


def sort_keys(tree: "exp.Expr") -> "list[exp.Expr]":
    """Return the terms of ORDER BY and the arguments of MIN and MAX whose values can be looked at: plain columns."""
    from sqlglot import exp

    found: list[exp.Expr] = []
    for node in tree.find_all(exp.Ordered, exp.Min, exp.Max):
        if isinstance(node, exp.Ordered) and not isinstance(node.parent, exp.Order):
            continue
        if isinstance(node.this, exp.Column) and node.find_ancestor(exp.Select) is not None:
            found.append(node.this)
    return found


def probe(key: "exp.Expr") -> "exp.Select":
    """Return a query of the values of a column in the rows of its SELECT."""
    from sqlglot import exp

    select = key.find_ancestor(exp.Select)
    assert select is not None
    rows = exp.Select(
        **{
            name: part.copy()
            for name, part in select.args.items()
            if name in _ROWS and isinstance(part, exp.Expression)
        }
    )
    rows.set("joins", [join.copy() for join in select.args.get("joins") or ()])
    return rows.select(_without_alias(key, select).copy()).distinct()


_ROWS = ("with_", "with", "from_", "from", "where")
"""The parts of a SELECT that make its rows, as versions of sqlglot name them, beside `joins`."""


def _without_alias(key: "exp.Expr", select: "exp.Select") -> "exp.Expr":
    from sqlglot import exp

    if isinstance(key, exp.Column) and not key.table:
        for each in select.expressions:
            own = each.unalias()
            if each.alias.lower() == key.name.lower() and isinstance(own, exp.Column):
                return own
    return key


def cast(tree: "exp.Expr", wanted: Sequence[bool], *, inside: bool) -> None:
    """Cast the results of MIN and MAX of the wanted sort keys to numbers; `inside`: also the keys themselves."""
    from sqlglot import exp

    def number(node: exp.Expr) -> exp.Expr:
        return exp.Cast(this=node.copy(), to=exp.DataType.build("DOUBLE"))

    for key, is_wanted in zip(sort_keys(tree), wanted, strict=True):
        if not is_wanted:
            continue
        select, parent = key.find_ancestor(exp.Select), key.parent
        assert select is not None
        if inside:
            key.replace(number(_without_alias(key, select)))
        if isinstance(parent, exp.Min | exp.Max):
            parent.replace(number(parent))
