"""Sums and averages in two parts, as a parallel plan computes them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


def sum_in_parts(tree: "exp.Expr") -> bool:
    """Write every sum and average as that of two parts; return whether there is one."""
    from sqlglot import exp

    found = [
        node
        for node in tree.find_all(exp.Sum, exp.Avg)
        if not isinstance(node.this, exp.Distinct) and not isinstance(node.parent, exp.Window | exp.Filter)
    ]
    for node in found:
        value = node.this
        # odd where a digit after the point is: whole numbers, whose sums are exact, are all in one part
        digits = exp.Add(this=_whole(value, 10), expression=_whole(value, 1000))
        rest = exp.Mod(this=exp.paren(digits), expression=exp.Literal.number(2))
        even = exp.EQ(this=rest, expression=exp.Literal.number(0))
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
        some = exp.GT(this=count, expression=exp.Literal.number(0))
        node.replace(exp.Case(ifs=[exp.If(this=some, true=total)]))
    return bool(found)


def _whole(value: "exp.Expr", times: int) -> "exp.Expr":
    from sqlglot import exp

    product = exp.Mul(this=exp.paren(value.copy()), expression=exp.Literal.number(times))
    return exp.Cast(this=product, to=exp.DataType.build("BIGINT"))
