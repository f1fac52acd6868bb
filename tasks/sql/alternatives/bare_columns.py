"""Columns beside an aggregate that are not in GROUP BY: their least or greatest value of the group."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


def selects(tree: "exp.Expr") -> "list[exp.Select]":
    """Return the SELECTs of a tree."""
    from sqlglot import exp

    return list(tree.find_all(exp.Select))


def _own(node: "exp.Expr") -> "Iterator[exp.Expr]":
    """Yield the nodes of an expression, those of subqueries and windows left out."""
    from sqlglot import exp

    skipped = (exp.Query, exp.Subquery, exp.Window)
    if isinstance(node, skipped):
        return
    for inner in node.walk(prune=lambda each: isinstance(each, skipped)):
        if not isinstance(inner, skipped):
            yield inner


def _parts(select: "exp.Select") -> "list[exp.Expr]":
    """Return the expressions of a SELECT that are computed after grouping."""
    having, order = select.args.get("having"), select.args.get("order")
    return [*select.expressions, *([having] if having else []), *(order.expressions if order else [])]


def _aggregates(select: "exp.Select") -> "list[exp.Expr]":
    from sqlglot import exp

    return [node for part in _parts(select) for node in _own(part) if isinstance(node, exp.AggFunc)]


def has_one_extreme(select: "exp.Select") -> bool:
    """Return whether the only aggregate of a SELECT is one MIN or one MAX."""
    from sqlglot import exp

    found = {node.sql() for node in _aggregates(select) if isinstance(node, exp.Min | exp.Max)}
    return len(found) == 1 and len({node.sql() for node in _aggregates(select)}) == 1


def bare_columns(select: "exp.Select") -> "list[exp.Column]":
    """Return the columns of a grouped SELECT that are in no aggregate and not in GROUP BY."""
    from sqlglot import exp

    group = select.args.get("group")
    if not group and not _aggregates(select):
        return []
    aliases = {each.alias.lower(): each for each in select.expressions if each.alias}
    keys = [_key(each, select, aliases) for each in (group.expressions if group else [])]
    found = []
    for part in _parts(select):
        for node in _own(part):
            if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                continue
            above = _ancestors(node, part)
            is_alias = part not in select.expressions and not node.table and node.name.lower() in aliases
            if is_alias or any(isinstance(each, exp.AggFunc) or _is_key(each, keys) for each in above):
                continue
            found.append(node)
    return found


def _ancestors(node: "exp.Expr", top: "exp.Expr") -> "list[exp.Expr]":
    found = [node]
    while found[-1] is not top and found[-1].parent is not None:
        found.append(found[-1].parent)
    return found


def _key(each: "exp.Expr", select: "exp.Select", aliases: "dict[str, exp.Expr]") -> "exp.Expr":
    """Return the expression that a term of GROUP BY stands for: a number is a position, a name may be an alias."""
    from sqlglot import exp

    if isinstance(each, exp.Literal) and each.is_int and 0 < int(each.name) <= len(select.expressions):
        output: exp.Expr = select.expressions[int(each.name) - 1].unalias()
        return output
    if isinstance(each, exp.Column) and not each.table and each.name.lower() in aliases:
        return aliases[each.name.lower()].unalias()
    return each


def _is_key(node: "exp.Expr", keys: "Sequence[exp.Expr]") -> bool:
    from sqlglot import exp

    def same(key: exp.Expr) -> bool:
        if isinstance(node, exp.Column) and isinstance(key, exp.Column):
            tables = {node.table.lower(), key.table.lower()} - {""}
            return node.name.lower() == key.name.lower() and len(tables) < 2
        return node == key

    return any(map(same, keys))


def wrap(columns: "Sequence[exp.Column]", name: str) -> None:
    """Replace columns by their MIN or MAX, under the same name in the output."""
    from sqlglot import exp

    for column in columns:
        alias = column.parent.args.get("expressions") if column.parent is not None else None
        wrapped = getattr(exp, name)(this=column.copy())
        is_output = alias is not None and isinstance(column.parent, exp.Select) and column in alias
        column.replace(exp.alias_(wrapped, column.name, quoted=True) if is_output else wrapped)
