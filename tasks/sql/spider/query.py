"""Query structure that the official Spider evaluator compares."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column, `table.column` or "*" in lower case, with its aggregate and DISTINCT; None where that is ignored."""

    column: str
    aggregate: str = "none"
    distinct: bool | None = False


@dataclass(frozen=True, slots=True)
class Unit:
    """A column, or two joined by an arithmetic operator."""

    first: ColumnUse
    operator: str = "none"
    second: ColumnUse | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; the values are None where they are ignored or, for the second, absent."""

    negated: bool
    operator: str
    unit: Unit
    value: "Value" = None
    second_value: "Value" = None


Conditions = tuple[Condition | Literal["and", "or"], ...]
"""Conditions, at the even places, and what joins them."""


@dataclass(frozen=True, slots=True)
class Selected:
    """One selected unit, and the aggregate around it."""

    aggregate: str
    unit: Unit


@dataclass(frozen=True, slots=True)
class Ordering:
    """ORDER BY: one direction, the last that is written, for all of its units."""

    direction: str
    units: tuple[Unit, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """A set operation and the query behind it."""

    kind: str
    query: "SpiderQuery"


@dataclass(frozen=True, slots=True)
class SpiderQuery:
    """One query; a table is its name, a derived one its query."""

    distinct: bool
    select: tuple[Selected, ...]
    tables: tuple["str | SpiderQuery", ...]
    on: Conditions
    where: Conditions
    group: tuple[ColumnUse, ...]
    having: Conditions
    order: Ordering | None
    limited: bool
    operation: Operation | None


Value = SpiderQuery | ColumnUse | float | str | None
