"""Rewrites of a query that the papers' released code applies."""

from functools import lru_cache
from typing import TYPE_CHECKING

from tasks.sql.parsing import parse, tokens

if TYPE_CHECKING:
    from sqlglot import exp


@lru_cache(maxsize=4096)
def without_distinct(sql: str, dialect: str) -> str:
    """Return the SQL without its DISTINCT keywords, as the Spider test-suite evaluation compares by default.

    All else stays as written, IS DISTINCT FROM and DISTINCT ON too: they mean something else. A SQL that cannot be
    read is returned unchanged.

    >>> without_distinct("SELECT DISTINCT a, count(DISTINCT b) FROM `distinct`", "sqlite")
    'SELECT a, count(b) FROM `distinct`'
    """
    read = tokens(sql, dialect)
    if read is None:
        return sql
    kept, position = [], 0
    for index, token in enumerate(read):
        if token.token_type.name != "DISTINCT" or sql[token.start : token.end + 1].upper() != "DISTINCT":
            continue
        before = read[index - 1].text.upper() if index else ""
        after = read[index + 1].text.upper() if index + 1 < len(read) else ""
        if after == "ON" or (after == "FROM" and before in ("IS", "NOT")):
            continue
        end = token.end + 1
        while end < len(sql) and sql[end].isspace():
            end += 1
        # "SELECT(DISTINCT" and "DISTINCT(a)" need no blank, "SELECT DISTINCT`a`" keeps the one before
        kept.append(sql[position : token.start])
        position = end
    return "".join([*kept, sql[position:]])


def without_concatenation(sql: str, dialect: str) -> str:
    """Return a SQL whose outermost SELECT lists the columns that it concatenated with `||`.

    Texts between them are dropped. A concatenation of fewer than two columns stays, and so does every one in a query
    with DISTINCT, GROUP BY or set operations, whose meaning would change. So does a SQL that cannot be read.

    >>> without_concatenation("SELECT first || ' ' || last AS name, age FROM person", "sqlite")
    'SELECT first, last, age FROM person'
    >>> without_concatenation("SELECT 'Mr ' || last FROM person", "sqlite")
    "SELECT 'Mr ' || last FROM person"
    """
    from sqlglot import exp

    tree = parse(sql, dialect).tree
    if not isinstance(tree, exp.Select) or tree.args.get("distinct") or tree.args.get("group"):
        return sql
    listed = [_taken_apart(expression) for expression in tree.expressions]
    if all(len(columns) == 1 for columns in listed):
        return sql
    rewritten = tree.copy()
    rewritten.set("expressions", [column.copy() for columns in listed for column in columns])
    return rewritten.sql(dialect=dialect)


def _taken_apart(expression: "exp.Expr") -> "list[exp.Expr]":
    """Return the columns of a concatenation; the expression itself where it is none of at least two columns."""
    from sqlglot import exp

    inner = expression.this if isinstance(expression, exp.Alias) else expression
    operands = _operands(inner)
    columns = [operand for operand in operands if not isinstance(operand, exp.Literal)]
    return columns if len(columns) > 1 else [expression]


def _operands(expression: "exp.Expr") -> "list[exp.Expr]":
    from sqlglot import exp

    inner = expression.unnest()
    if isinstance(inner, exp.DPipe):
        return [*_operands(inner.left), *_operands(inner.right)]
    if isinstance(inner, exp.Concat):
        return [operand for part in inner.expressions for operand in _operands(part)]
    return [expression]
