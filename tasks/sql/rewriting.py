"""Rewrites of a query that the papers' released code applies, and the ORDER BY of a query."""

import re
from dataclasses import dataclass
from functools import lru_cache

from tasks.sql.parsing import exp, parse, tokens, write

SPIDER_OPERATORS = (("> =", ">="), ("< =", "<="), ("! =", "!="))
"""Operators that tokenised predictions write apart, and what Spider's evaluator makes of them, also within texts."""


@lru_cache(maxsize=4096)
def as_spider_executes(sql: str, dialect: str) -> str:
    """Return a SQL as Spider's test-suite evaluator executes it.

    Operators that were written apart are joined, the text after the first statement is left out, and so is DISTINCT.

    >>> as_spider_executes("SELECT DISTINCT a FROM t WHERE b > = 2; SELECT 1", "sqlite")
    'SELECT a FROM t WHERE b >= 2'
    """
    return without_distinct(postprocessed(sql, dialect), dialect)


def postprocessed(sql: str, dialect: str) -> str:
    """Return a SQL with operators joined and without the text after its first statement.

    A SQL that cannot be read keeps all of its text.
    """
    sql = with_joined_operators(sql)
    if ";" not in sql:
        return sql
    sql_tokens = tokens(sql, dialect) or ()
    semicolon = next((token for token in sql_tokens if token.token_type.name == "SEMICOLON"), None)
    if semicolon is None:
        return sql
    before, after = sql[: semicolon.start].rstrip(), sql[semicolon.end + 1 :].strip()
    return before if before and after else sql


def with_joined_operators(sql: str) -> str:
    """Return a SQL with the operators joined that tokenised queries write apart.

    >>> with_joined_operators("SELECT a FROM t WHERE b > = 2")
    'SELECT a FROM t WHERE b >= 2'
    """
    for apart, joined in SPIDER_OPERATORS:
        sql = sql.replace(apart, joined)
    return sql


@lru_cache(maxsize=4096)
def without_distinct(sql: str, dialect: str) -> str:
    """Remove the DISTINCT keywords of a SQL, as the Spider test-suite evaluation does by default.

    All else stays as written, IS DISTINCT FROM and DISTINCT ON too: they mean something else. A SQL that cannot be
    read is returned unchanged.

    >>> without_distinct("SELECT DISTINCT a, count(DISTINCT b) FROM `distinct`", "sqlite")
    'SELECT a, count(b) FROM `distinct`'
    """
    sql_tokens = tokens(sql, dialect) if "distinct" in sql.lower() else None
    if sql_tokens is None:
        return sql
    remaining = []
    position = 0
    for index, token in enumerate(sql_tokens):
        if token.token_type.name != "DISTINCT" or sql[token.start : token.end + 1].upper() != "DISTINCT":
            continue
        before = sql_tokens[index - 1].text.upper() if index else ""
        after = sql_tokens[index + 1].text.upper() if index + 1 < len(sql_tokens) else ""
        if after == "ON" or (after == "FROM" and before in ("IS", "NOT")):
            continue
        remaining.append(sql[position : token.start])
        # leave out the blanks behind it: "SELECT DISTINCT`a`" shows that the one before separates enough
        position = token.end + 1
        while position < len(sql) and sql[position].isspace():
            position += 1
    return "".join([*remaining, sql[position:]])


def without_concatenation(sql: str, dialect: str) -> str:
    """Replace concatenations with `||` in the outermost SELECT by lists of their columns.

    Texts between them are dropped. A concatenation of fewer than two columns stays, and so does every one in a query
    with DISTINCT, GROUP BY or set operations, whose meaning would change. So does a SQL that cannot be read or written.

    >>> without_concatenation("SELECT first || ' ' || last AS name, age FROM person", "sqlite")
    'SELECT first, last, age FROM person'
    >>> without_concatenation("SELECT 'Mr ' || last FROM person", "sqlite")
    "SELECT 'Mr ' || last FROM person"
    """
    tree = parse(sql, dialect).tree
    if not isinstance(tree, exp.Select) or tree.args.get("distinct") or tree.args.get("group"):
        return sql
    listed = [_columns_of(expression) for expression in tree.expressions]
    if all(len(columns) == 1 for columns in listed):  # nothing concatenates two columns
        return sql
    rewritten = tree.copy()
    rewritten.set("expressions", [column.copy() for columns in listed for column in columns])
    return write(rewritten, dialect) or sql


def _columns_of(expression: "exp.Expr") -> "list[exp.Expr]":
    """Return the columns of a concatenation, or the expression itself if it does not concatenate two columns."""
    inner = expression.this if isinstance(expression, exp.Alias) else expression
    operands = _operands(inner)
    columns = [operand for operand in operands if not isinstance(operand, exp.Literal)]
    return columns if len(columns) > 1 else [expression]


def _operands(expression: "exp.Expr") -> "list[exp.Expr]":
    """Return the operands of a concatenation from left to right; any other expression is its own operand."""
    inner = expression.unnest()
    if isinstance(inner, exp.DPipe):
        return [*_operands(inner.left), *_operands(inner.right)]
    if isinstance(inner, exp.Concat):
        return [operand for part in inner.expressions for operand in _operands(part)]
    return [expression]


@dataclass(frozen=True, slots=True)
class Ordering:
    """Where a query has ORDER BY; one in a window or an aggregate orders no rows and is not counted."""

    anywhere: bool = False  # in the query or any query within it
    outermost: bool = False  # on the query whose rows are the result


@lru_cache(maxsize=4096)
def ordering(sql: str, dialect: str) -> Ordering:
    """Find ORDER BY in a query, never in its strings, names or comments.

    What cannot be parsed is searched for the two words, outermost being outside of all parentheses.

    >>> ordering("SELECT a FROM (SELECT a FROM t ORDER BY b)", "sqlite")
    Ordering(anywhere=True, outermost=False)
    >>> ordering("SELECT 'order by' FROM t", "sqlite")
    Ordering(anywhere=False, outermost=False)
    """
    if "order" not in sql.lower():  # most queries, and parsing takes a hundred times as long
        return Ordering()
    tree = parse(sql, dialect).tree
    if tree is None:
        return _by_words(sql, dialect)
    anywhere = any(isinstance(order.parent, exp.Query) for order in tree.find_all(exp.Order))
    outermost = tree
    while isinstance(outermost, exp.Subquery) and not outermost.args.get("order"):
        outermost = outermost.this
    return Ordering(anywhere, bool(outermost.args.get("order")))


def _by_words(sql: str, dialect: str) -> Ordering:
    """Find ORDER BY in SQL that cannot be parsed: anywhere, and outside of brackets."""
    sql_tokens = tokens(sql, dialect)
    if sql_tokens is None:
        is_there = re.search(r"\border\s+by\b", sql, re.IGNORECASE) is not None
        return Ordering(anywhere=is_there, outermost=is_there)
    depth = 0
    depths_of_order = set()
    for token in sql_tokens:
        if token.text == "(":
            depth += 1
        elif token.text == ")":
            depth -= 1
        elif token.token_type.name == "ORDER_BY":
            depths_of_order.add(depth)
    return Ordering(anywhere=bool(depths_of_order), outermost=0 in depths_of_order)
