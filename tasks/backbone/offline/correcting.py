"""Writing a query anew after it failed or returned nothing: simpler step by step, never one tried before."""

import re
from collections.abc import Iterator
from dataclasses import replace

from tasks.backbone.offline.query import Expression, Query, render
from tasks.backbone.offline.reading import Prompt
from tasks.backbone.offline.writing import read_query

_EQUAL_TEXT = re.compile(r"^ = '((?:[^']|'')+)'$")


def correct(prompt: Prompt) -> str:
    """Return a query that has not been tried in this conversation.

    The model's own reading comes first, then ever simpler forms of it; when all have been tried, the query that
    was given comes back unchanged.
    """
    tried = [*(attempt.sql for attempt in prompt.attempts), *prompt.earlier]
    own = read_query(prompt)
    if own is not None:
        for query in (own, *simpler(own)):
            sql = render(query, prompt.schema)
            if not any(same_sql(sql, other) for other in tried):
                return sql
    return tried[0].strip() if tried else ""


def simpler(query: Query) -> Iterator[Query]:
    """Yield forms of a query that return more: looser text comparisons, then fewer conditions.

    The order is: all text compared with LIKE, each condition left out in turn from the last, no set operation,
    no HAVING, no condition at all, and last the bare columns.
    """
    loose = tuple(_loosened(condition) for condition in query.where)
    if loose != query.where:
        yield replace(query, where=loose)
    for index in reversed(range(len(query.where))):
        yield replace(query, where=query.where[:index] + query.where[index + 1 :])
    if query.combined is not None:
        yield replace(query, operator=None, combined=None)
    if query.having:
        yield replace(query, having=())
    bare = replace(query, where=(), having=(), operator=None, combined=None)
    if bare != query:
        yield bare
    last = replace(bare, group=(), order=(), limit=None, distinct=False)
    if last != bare:
        yield last


def same_sql(left: str, right: str) -> bool:
    """Whether two texts are the same query but for blanks, case and a final semicolon."""
    return _bare(left) == _bare(right)


def _bare(sql: str) -> str:
    return re.sub(r"\s+", " ", sql).strip(" ;").lower()


def _loosened(condition: Expression) -> Expression:
    """Return `column = 'text'` as `column LIKE '%text%'`, anything else as it is."""
    last = condition.parts[-1]
    if len(condition.parts) == 2 and isinstance(last, str) and (match := _EQUAL_TEXT.match(last)):
        return Expression((condition.parts[0], f" LIKE '%{match[1]}%'"))
    return condition
