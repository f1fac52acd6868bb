"""Reads a question into a query, clause by clause, each clause taking the words it explains."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tasks.backbone.offline.clauses.conditions import read_conditions
from tasks.backbone.offline.clauses.grouping import Grouping, read_grouping, read_having
from tasks.backbone.offline.clauses.ordering import Ordering, read_sorting, read_superlative
from tasks.backbone.offline.clauses.projection import Item, Projection, is_aggregate_question, read_projection
from tasks.backbone.offline.question.query import COUNT, Expression, Query, path, plain
from tasks.backbone.offline.question.text import QuestionText
from tasks.backbone.offline.question.value_columns import Condition
from tasks.backbone.offline.question.values import find_values
from tasks.core.records import ColumnName

_NEGATION = (
    r"(?:(?:do|does|did|have|has|had|is|are|was|were|can|could|will) not(?: (?:have|had|been|be|yet))*"
    r"|without|with no|has no|have no|had no|never|not have|not in|no)(?: (?:a|any|an|the|been|had|have|ever|in))*"
)
_ROUND = (
    r"(?:and )?round(?:ed)?(?: it| them| the (?:result|average|share|percentage))? to (?:(?:the|a) )?"
    r"(?:<n>|one|nearest|whole)(?: \w+)?"
)
_BOTH = re.compile(r"\bboth\b|\bas well as\b|\band\b")
_ALL_OF_IT = re.compile(
    r"\b(?:all|every|any)? ?(?:information|info|details?|attributes|columns|contents?|data|rows|everything)\b"
)


@dataclass(frozen=True, slots=True)
class Absence:
    """A table whose rows must not exist, with where it is said."""

    table: str
    start: int
    end: int


def read_question(text: QuestionText) -> Query | None:
    """Read a question into a query; None over an empty schema."""
    if not text.schema.tables:
        return None
    digits = _rounding(text)
    values = find_values(text)
    absence = _absence(text)
    sorting = read_sorting(text)
    ordering = read_superlative(text)
    having = read_having(text)
    grouping = read_grouping(text) if is_aggregate_question(text) else Grouping()
    conditions = read_conditions(text, values)
    ordering = ordering if ordering.order else sorting
    groups = [group for group in (grouping.group, having.group, ordering.group) if group]
    projection = read_projection(text, groups[0].table if groups else "")
    query = _selected(text, projection, grouping, having, ordering)
    query = _restricted(text, query, conditions, absence)
    return replace(query, select=tuple(_rounded(one, digits) for one in query.select))


def _rounding(text: QuestionText) -> int | None:
    for found in text.find(_ROUND):
        number = next((t.text for t in text.tokens[found.start : found.end] if t.kind == "number"), "")
        text.use(found.start, found.end)
        return min(int(number), 9) if number.isdigit() else int("one" in found.match[0])
    return None


def _rounded(expression: Expression, digits: int | None) -> Expression:
    if digits is None or not expression.find(exp.Avg, exp.Sum, exp.Div):
        return expression
    return exp.Round(this=expression, decimals=exp.Literal.number(digits) if digits else None)


def _selected(
    text: QuestionText, projection: Projection, grouping: Grouping, having: Grouping, ordering: Ordering
) -> Query:
    """Put the clauses together, but for WHERE."""
    items = list(projection.items)
    group = grouping.group or having.group or ordering.group
    if not items:
        items = _default_items(text, ordering, group)
    plains = [item.column for item in items if item.column is not None]
    counts = [item for item in items if item.counts]
    tables = [item.counts for item in counts]
    if grouping.group and not any(column.table == grouping.group.table for column in plains):
        items.extend(Item(grouping.position, plain(column), column) for column in grouping.shown)
        # Before a count the group comes first, beside an average it stays where the question has it.
        items.sort(key=lambda item: (item.column is None, item.start) if counts else (False, item.start))
    counted = any(order.by == COUNT for order in ordering.order)
    if group is None and plains and ((projection.aggregates and len(plains) < len(items)) or counted):
        first = plains[0]
        group = text.key(first.table) if counted or first in text.name_columns(first.table) else first
    select = tuple(item.expression for item in items)
    tables.extend((*having.tables, *ordering.tables))
    if not tables and not any(expression.find(exp.Column) for expression in select):
        tables.append(text.subject)
    return Query(
        select,
        tuple(dict.fromkeys(tables)),
        distinct=projection.distinct and not projection.aggregates and group is None,
        group=group,
        having=having.having,
        order=ordering.order,
        limit=ordering.limit,
    )


def _default_items(text: QuestionText, ordering: Ordering, group: ColumnName | None) -> list[Item]:
    subject = group.table if group else text.subject
    if ordering.target is not None:
        columns: tuple[ColumnName, ...] = (ordering.target,)
    elif _ALL_OF_IT.search(text.plain):
        return [Item(0, exp.Star())]
    elif group is not None and group != text.key(subject):
        columns = (group,)
    else:
        columns = text.name_columns(subject)
    return [Item(0, plain(column), column) for column in columns]


def _absence(text: QuestionText) -> Absence | None:
    """Read "do not have any pets": rows of another table must not exist."""
    for found in text.find(_NEGATION):
        stop = min(text.sentence_end(found.end), found.end + 7)
        mentions = (m for m in text.tables if found.end <= m.start < stop)
        mention = next((m for m in mentions if text.table_of(m) != text.subject), None)
        if mention is None or not path(text.schema, [text.subject], text.table_of(mention)):
            continue
        if not any(c.score >= 0.9 and c.end <= mention.start for c in text.columns_in(found.end, stop)):
            text.use(found.start, found.end)
            return Absence(text.table_of(mention), found.start, text.sentence_end(found.end))
    return None


def _restricted(
    text: QuestionText, query: Query, conditions: Sequence[Condition], absence: Absence | None
) -> Query:
    """Add conditions: several values of one column are alternatives, or with "both" a query each."""
    inside = [c for c in conditions if absence and absence.start <= c.start < absence.end]
    groups: list[list[Condition]] = []
    for condition in sorted((c for c in conditions if c not in inside), key=lambda one: one.start):
        if groups and _is_alternative(text, groups[-1][-1], condition):
            groups[-1].append(condition)
        else:
            groups.append([condition])
    both = next((group for group in groups if len(group) == 2 and _is_both(text, *group)), None)
    others: list[Expression] = [
        exp.or_(*(one.test for one in group)) for group in groups if group is not both
    ]
    if absence is not None:
        others.append(_not_in(text, absence, inside))
        query = replace(query, tables=query.tables or (text.subject,))
    if both is None:
        return replace(query, where=tuple(others))
    first, second = (replace(query, where=(*others, one.test)) for one in both)
    return replace(first, intersect=replace(second, order=(), limit=None))


def _is_alternative(text: QuestionText, last: Condition, condition: Condition) -> bool:
    """Whether a condition goes with the one before it: joined by "or", or another value of the same column."""
    if "evidence" in (last.operator, condition.operator):
        return False
    if "or" in text.between(last.end, condition.start).split():
        return True
    equal = last.operator in ("=", "LIKE") and condition.operator in ("=", "LIKE")
    return equal and last.column == condition.column


def _is_both(text: QuestionText, first: Condition, second: Condition) -> bool:
    between = text.between(first.end, second.start)
    if "or" in between.split() or first.column != second.column:
        return False
    return bool(_BOTH.search(between) or "both" in text.between(first.start - 12, first.start).split())


def _not_in(text: QuestionText, absence: Absence, conditions: Sequence[Condition]) -> Expression:
    subject = text.subject
    way = path(text.schema, [subject], absence.table)
    key = way[0].key
    own, other = (key.parent, key.child) if key.parent.table == subject else (key.child, key.parent)
    direct = other.table == absence.table or (not conditions and len(way) == 2)
    tables = (other.table,) if direct else (other.table, absence.table)
    inner = Query((plain(other),), tables, where=tuple(condition.test for condition in conditions))
    return exp.Not(this=plain(own).isin(inner.build(text.schema)))
