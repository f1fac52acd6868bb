"""The offline model's own reading of a question: clause by clause, each taking the words it explains."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tasks.backbone.offline.conditions import read_conditions
from tasks.backbone.offline.grouping import Grouping, read_grouping, read_having
from tasks.backbone.offline.joins import counting_tables, path
from tasks.backbone.offline.ordering import COUNT, Ordering, read_sorting
from tasks.backbone.offline.projection import Item, Projection, is_aggregate_question, read_projection
from tasks.backbone.offline.query import Expression, Query, any_of, plain
from tasks.backbone.offline.superlatives import read_superlative
from tasks.backbone.offline.text import QuestionText
from tasks.backbone.offline.value_columns import Condition
from tasks.backbone.offline.values import find_values
from tasks.records import ColumnName

_NEGATION = (
    r"(?:(?:do|does|did|have|has|had|is|are|was|were|can|could|will) not(?: (?:have|had|been|be|yet))*"
    r"|without|with no|has no|have no|had no|never|not have|not in|no)(?: (?:a|any|an|the|been|had|have|ever|in))*"
)
_ROUND = (
    r"(?:and )?round(?:ed)?(?: it| them| the (?:result|average|share|percentage))? to (?:(?:the|a) )?"
    r"(?:<n>|one|nearest|whole)(?: \w+)?"
)
_BOTH = re.compile(r"\bboth\b|\bas well as\b")
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
    superlative = read_superlative(text)
    having = read_having(text)
    grouping = read_grouping(text, counted=is_aggregate_question(text))
    conditions = read_conditions(text, values)
    groups = (grouping.group, having.group, superlative.group)
    projection = read_projection(text, next((group.table for group in groups if group), ""))
    query = _assemble(text, projection, conditions, grouping, having, sorting, superlative, absence)
    if digits is None:
        return query
    return replace(query, select=tuple(_rounded(expression, digits) for expression in query.select))


def _rounding(text: QuestionText) -> int | None:
    """Return to how many decimals the answer is to be rounded, None when it is not."""
    for found in text.find(_ROUND):
        number = next((t.text for t in text.tokens[found.start : found.end] if t.kind == "number"), "")
        text.use(found.start, found.end)
        return min(int(number), 9) if number.isdigit() else 1 if "one" in found.match[0] else 0
    return None


def _rounded(expression: Expression, digits: int) -> Expression:
    """Round an expression that computes something."""
    if not any(isinstance(part, str) and re.search(r"AVG|SUM|/|REAL", part) for part in expression.parts):
        return expression
    return Expression(("ROUND(", *expression.parts, f", {digits})" if digits else ")"))


def _assemble(
    text: QuestionText,
    projection: Projection,
    conditions: Sequence[Condition],
    grouping: Grouping,
    having: Grouping,
    sorting: Ordering,
    superlative: Ordering,
    absence: Absence | None,
) -> Query:
    """Put the clauses together."""
    ordering = superlative if superlative.order else sorting
    items = list(projection.items)
    group = grouping.group or having.group or ordering.group
    if not items:
        items = _default_items(text, ordering, group, having)
    counts = [item for item in items if item.counts]
    plains = [item for item in items if item.column is not None]
    tables: list[str] = []
    for item in counts:
        anchor = (
            group.table if group else plains[0].column.table if plains and plains[0].column else item.counts
        )
        tables.extend(counting_tables(text.schema, anchor, item.counts) or (item.counts,))
    if grouping.group and not any(
        item.column and item.column.table == grouping.group.table for item in plains
    ):
        items.extend(Item(grouping.position, plain(column), column) for column in grouping.shown)
        # Before a count the group comes first, beside an average it stays where the question has it.
        items.sort(key=lambda item: (item.column is None, item.start) if counts else (False, item.start))
    if group is None and projection.aggregates and plains and len(plains) < len(items):
        first = plains[0].column
        assert first is not None
        group = text.key(first.table) if first in text.name_columns(first.table) else first
        if group is not None and group.table != first.table:
            group = first
    if group is None and plains and plains[0].column and any(order.by == COUNT for order in ordering.order):
        group = text.key(plains[0].column.table)
    select = tuple(item.expression for item in items)
    where, negative = _split(conditions, absence)
    tests, intersect = _combine(text, where)
    tables.extend((*having.tables, *ordering.tables))
    if not tables and select and not any(e.columns for e in select):
        tables.append(text.subject)
    query = Query(
        select,
        tuple(dict.fromkeys(tables)),
        projection.distinct and not projection.aggregates and group is None,
        tests,
        (group,) if group else (),
        (having.having,) if having.having else (),
        ordering.order,
        ordering.limit,
    )
    if absence is not None:
        query = _without(text, query, absence, negative)
    if intersect:
        other = replace(
            query.with_where((*(t for t in tests if t != intersect[0]), intersect[1])), order=(), limit=None
        )
        query = replace(query, operator="INTERSECT", combined=other)
    return query


def _default_items(
    text: QuestionText, ordering: Ordering, group: ColumnName | None, having: Grouping
) -> list[Item]:
    """Return what to select where no column is asked for by name."""
    if ordering.target is not None:
        return [Item(0, plain(ordering.target), ordering.target)]
    subject = text.subject
    table = text.schema.table(subject)
    if _ALL_OF_IT.search(text.plain) and table is not None:
        return [Item(0, Expression(("*",)))]
    if group is not None and group.table != subject and (having.group or ordering.group):
        subject = group.table
    if group is not None and group.table == subject and group != text.key(subject):
        return [Item(0, plain(group), group)]
    return [Item(0, plain(column), column) for column in text.name_columns(subject)]


def _absence(text: QuestionText) -> Absence | None:
    """Read "do not have any pets": rows of another table must not exist."""
    for found in text.find(_NEGATION):
        stop = min(text.sentence_end(found.end), found.end + 7)
        mention = next(
            (m for m in text.tables if found.end <= m.start < stop and text.table_of(m) != text.subject), None
        )
        if mention is None:
            continue
        table = text.table_of(mention)
        if not path(text.schema, text.subject, table):
            continue
        if any(
            c.start < mention.start and c.score >= 0.9 and c.end <= mention.start
            for c in text.columns_in(found.end, stop)
        ):
            continue
        text.use(found.start, found.end)
        return Absence(table, found.start, text.sentence_end(found.end))
    return None


def _split(
    conditions: Sequence[Condition], absence: Absence | None
) -> tuple[list[Condition], list[Condition]]:
    """Divide conditions into those of the query and those of what must not exist."""
    if absence is None:
        return list(conditions), []
    inside = [c for c in conditions if absence.start <= c.start < absence.end]
    return [c for c in conditions if c not in inside], inside


def _combine(
    text: QuestionText, conditions: Sequence[Condition]
) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """Join conditions: several values of one column are alternatives, or with "both" a query each.

    Returns:
        The conditions of the query, and for "both" the first and second of the two that exclude each other.
    """
    groups: list[list[Condition]] = []
    for condition in sorted(conditions, key=lambda one: one.start):
        if groups and _is_alternative(text, groups[-1], condition):
            groups[-1].append(condition)
        else:
            groups.append([condition])
    tests: list[Expression] = []
    intersect: tuple[Expression, ...] = ()
    for group in groups:
        if len(group) == 2 and not intersect and _is_both(text, group):
            intersect = (group[0].test, group[1].test)
            tests.append(group[0].test)
        else:
            tests.append(any_of(condition.test for condition in group))
    return tuple(dict.fromkeys(tests)), intersect


def _is_alternative(text: QuestionText, group: Sequence[Condition], condition: Condition) -> bool:
    """Whether a condition goes with those before it: joined by "or", or another value of the same column."""
    last = group[-1]
    if "evidence" in (last.operator, condition.operator):
        return False
    if "or" in text.between(last.end, condition.start).split():
        return True
    equal = last.operator in ("=", "LIKE") and condition.operator in ("=", "LIKE")
    return equal and last.column == condition.column


def _is_both(text: QuestionText, equal: Sequence[Condition]) -> bool:
    """Whether two values must both hold."""
    between = text.between(equal[0].end, equal[1].start)
    if re.search(r"\bor\b", between) or equal[0].column != equal[1].column:
        return False
    return (
        bool(_BOTH.search(text.between(max(equal[0].start - 12, 0), equal[1].end)))
        or "and" in between.split()
    )


def _without(text: QuestionText, query: Query, absence: Absence, conditions: Sequence[Condition]) -> Query:
    """Add NOT IN over the shortest way from the subject to the table whose rows must not exist."""
    subject = text.subject
    way = path(text.schema, subject, absence.table)
    key = way[0].keys[0]
    own, other = (key.parent, key.child) if key.parent.table == subject else (key.child, key.parent)
    tables = () if other.table == absence.table or (not conditions and len(way) == 2) else (absence.table,)
    inner = Query((plain(other),), (other.table, *tables), where=tuple(c.test for c in conditions))
    test = Expression((own, " NOT IN (", inner, ")"))
    return replace(query, where=(*query.where, test), tables=query.tables or (subject,))
