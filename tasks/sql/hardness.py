"""Grades a query's difficulty by Spider's counts of its clauses (Yu et al., 2018, section 5)."""

from typing import Literal

from tasks.database.schema import Schema
from tasks.sql.clauses import Clauses, clauses

Hardness = Literal["easy", "medium", "hard", "extra"]


def hardness(sql: str, schema: Schema) -> Hardness | None:
    """Grade a query; None where it cannot be parsed.

    >>> hardness("SELECT name FROM singer WHERE age > 20", Schema("d", (), dialect="sqlite"))
    'easy'
    """
    query = clauses(sql, schema)
    return None if query is None else grade(query)


def grade(query: Clauses) -> Hardness:
    """Grade a query by the counts of its clauses, of its nested queries and of repeated parts."""
    parts, nested, extras = count_clauses(query), count_nested(query), count_extras(query)
    if parts <= 1 and extras == 0 and nested == 0:
        return "easy"
    if nested == 0 and ((extras <= 2 and parts <= 1) or (extras < 2 and parts <= 2)):
        return "medium"
    if nested == 0 and ((extras > 2 and parts <= 2) or (2 < parts <= 3 and extras <= 2)):
        return "hard"
    if parts <= 1 and extras == 0 and nested <= 1:
        return "hard"
    return "extra"


def count_clauses(query: Clauses) -> int:
    """Count WHERE, GROUP BY, ORDER BY, LIMIT, and every join, OR and LIKE."""
    conditions = query.conditions
    return (
        bool(query.where.terms)
        + bool(query.group)
        + bool(query.order)
        + query.limited
        + max(len(query.tables) - 1, 0)
        + conditions.connectors.count("or")
        + sum(term.operator == "like" for term in conditions.terms)
    )


def count_nested(query: Clauses) -> int:
    """Count queries in conditions and behind set operations; derived tables are not counted."""
    return sum(len(term.nested) for term in query.conditions.terms) + len(query.operations[:1])


def count_extras(query: Clauses) -> int:
    """Count how many of these occur more than once: aggregates, selected columns, conditions, groups.

    As published, a negated condition counts as an aggregate, and one in HAVING only if there are several.
    """
    aggregates = (
        sum(term.aggregated for term in query.select)
        + sum(term.negated for term in (*query.where.terms, *query.having.terms))
        + sum(term.aggregated for term in query.group)
        + sum(ordered.term.aggregated for ordered in query.order)
        + len(query.having.connectors)
    )
    return (aggregates > 1) + (len(query.select) > 1) + (len(query.where.terms) > 1) + (len(query.group) > 1)
