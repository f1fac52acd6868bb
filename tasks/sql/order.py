"""Finds ORDER BY in a query."""

import re
from dataclasses import dataclass
from functools import lru_cache

from tasks.sql.parsing import parse, tokens


@dataclass(frozen=True, slots=True)
class Ordering:
    """Where a query has ORDER BY; one in a window or an aggregate orders no rows and is not counted."""

    anywhere: bool  # in the query or any query within it
    outermost: bool  # on the query whose rows are the result


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
        return Ordering(anywhere=False, outermost=False)
    from sqlglot import exp

    tree = parse(sql, dialect).tree
    if tree is None:
        return _by_words(sql, dialect)
    anywhere = any(isinstance(order.parent, exp.Query) for order in tree.find_all(exp.Order))
    outermost = tree
    while isinstance(outermost, exp.Subquery) and not outermost.args.get("order"):
        outermost = outermost.this
    return Ordering(anywhere, bool(outermost.args.get("order")))


def _by_words(sql: str, dialect: str) -> Ordering:
    read = tokens(sql, dialect)
    if read is None:
        return Ordering(*[re.search(r"\border\s+by\b", sql, re.IGNORECASE) is not None] * 2)
    depth, found = 0, []
    for token in read:
        word = token.text.upper()
        depth += (word == "(") - (word == ")")
        if token.token_type.name == "ORDER_BY":
            found.append(depth)
    return Ordering(bool(found), 0 in found)
