"""Exact set match as the official Spider evaluator decides it, including its inconsistencies.

Values and DISTINCT are ignored, and columns joined by a foreign key are one, but not everywhere: in a query within a
condition, DISTINCT, columns, and every order count as written; in a derived table, values too. Join conditions are not
compared. GROUP BY is compared by column names alone, and with HAVING by whole columns.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tasks.database.schema import Schema
from tasks.sql.spider_grammar import (
    ColumnUse,
    Condition,
    Conditions,
    Operation,
    SpiderQuery,
    Unit,
    read_query,
)


def official_match(predicted: str, gold: str, schema: Schema) -> bool | None:
    """Return whether the official evaluator matches a predicted SQL with the gold; None if it cannot read either."""
    # as published, "value" in a prediction is a placeholder for a number
    predicted_query = read_query(predicted.replace("value", "1"), schema)
    gold_query = read_query(gold, schema)
    if predicted_query is None or gold_query is None:
        return None
    return _same(_compared(predicted_query, schema), _compared(gold_query, schema))


def _compared(query: SpiderQuery, schema: Schema) -> SpiderQuery:
    tables = frozenset(table for table in query.tables if isinstance(table, str))
    return _Merged(tables, joined_columns(schema)).query(_without_values(query))


def _same(one: SpiderQuery, other: SpiderQuery) -> bool:
    return (
        Counter(one.select) == Counter(other.select)
        and Counter(one.tables) == Counter(other.tables)
        and Counter(one.where[::2]) == Counter(other.where[::2])
        and set(one.where[1::2]) == set(other.where[1::2])
        and _groups(one) == _groups(other)
        and one.order == other.order
        and _keywords(one) == _keywords(other)
        and (
            one.operation is None
            or (other.operation is not None and _same(one.operation.query, other.operation.query))
        )
    )


def _groups(query: SpiderQuery) -> tuple[object, ...]:
    columns = tuple(use.column for use in query.group)
    return columns, query.having if columns else ()


def _keywords(query: SpiderQuery) -> frozenset[str]:
    parts = (query.on, query.where, query.having)
    conditions = [c for part in parts for c in part if isinstance(c, Condition)]
    used = {
        "where": bool(query.where),
        "group": bool(query.group),
        "having": bool(query.having),
        "order": query.order is not None,
        "limit": query.limited,
        "or": any("or" in part for part in parts),
        "not": any(condition.negated for condition in conditions),
        "in": any(condition.operator == "in" for condition in conditions),
        "like": any(condition.operator == "like" for condition in conditions),
        query.operation.kind if query.operation else "": query.operation is not None,
    }
    return frozenset(word for word, there in used.items() if there)


def _without_values(query: SpiderQuery) -> SpiderQuery:
    def kept(value: object) -> SpiderQuery | None:
        return _without_values(value) if isinstance(value, SpiderQuery) else None

    def without(conditions: Conditions) -> Conditions:
        return tuple(
            replace(c, value=kept(c.value), second_value=kept(c.second_value))
            if isinstance(c, Condition)
            else c
            for c in conditions
        )

    after = query.operation
    return replace(
        query,
        on=without(query.on),
        where=without(query.where),
        having=without(query.having),
        operation=Operation(after.kind, _without_values(after.query)) if after else None,
    )


@dataclass(frozen=True, slots=True)
class _Merged:
    """Names joined columns alike, those of `tables` alone: behind a set operation, too, the tables before it."""

    tables: frozenset[str]
    joined: Mapping[str, str]

    def query(self, query: SpiderQuery) -> SpiderQuery:
        after, order = query.operation, query.order
        return replace(
            query,
            distinct=False,
            select=tuple(replace(selected, unit=self.unit(selected.unit)) for selected in query.select),
            on=self.conditions(query.on),
            where=self.conditions(query.where),
            group=tuple(map(self.use, query.group)),
            having=self.conditions(query.having),
            order=replace(order, units=tuple(map(self.unit, order.units))) if order else None,
            operation=Operation(after.kind, self.query(after.query)) if after else None,
        )

    def conditions(self, conditions: Conditions) -> Conditions:
        return tuple(
            replace(c, unit=self.unit(c.unit)) if isinstance(c, Condition) else c for c in conditions
        )

    def unit(self, unit: Unit) -> Unit:
        return replace(
            unit, first=self.use(unit.first), second=self.use(unit.second) if unit.second else None
        )

    def use(self, use: ColumnUse) -> ColumnUse:
        is_own = use.column.partition(".")[0] in self.tables
        return replace(
            use, column=self.joined.get(use.column, use.column) if is_own else use.column, distinct=None
        )


@lru_cache(maxsize=256)
def joined_columns(schema: Schema) -> Mapping[str, str]:
    """Map each column with a foreign key to or from it to the schema's first in its group.

    As published, a key joins the first group that has one of its columns; groups that a later key connects stay two,
    and a column of both is in the later one.
    """
    index = {f"{name.table}.{name.column}".lower(): i for i, name in enumerate(schema.column_names)}
    groups: list[set[str]] = []
    for key in schema.foreign_keys:
        for child, parent in zip(key.columns, key.parent_columns, strict=False):
            pair = {f"{key.table}.{child}".lower(), f"{key.parent}.{parent}".lower()}
            group = next((group for group in groups if group & pair), None)
            if group is None:
                groups.append(pair)
            else:
                group |= pair
    return {
        column: min(group, key=lambda c: index.get(c, len(index))) for group in groups for column in group
    }
