"""Exact set match as the official Spider evaluator of 2018 decides it, including its inconsistencies.

It reads a SQL by a grammar of its own. What it does not read matches nothing, whatever it means: INNER JOIN, an alias
without AS, `<>`, quoted names, functions, CASE, a column that does not exist. An alias means the table that it names
last, in the whole SQL. Words are split by nltk's rules for English: at brackets and most signs but not at `=`, nor at a
comma before a digit: `age=3` and `1,2` are one word. Deviations: contractions (`cannot`) and sentences stay whole.

Values and DISTINCT are ignored, and columns joined by a foreign key are one, but not everywhere: in a query within a
condition, DISTINCT, columns, and every order count as written; in a derived table, values too. Join conditions are not
compared. GROUP BY is compared by column names alone, and with HAVING by whole columns.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, Literal, cast

from tasks.database.schema import Schema


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
class SpiderCondition:
    """One condition; the values are None where they are ignored or, for the second, absent."""

    negated: bool
    operator: str
    unit: Unit
    value: "Value" = None
    second_value: "Value" = None


Conditions = tuple[SpiderCondition | Literal["and", "or"], ...]
"""Conditions, at the even places, and what joins them."""


@dataclass(frozen=True, slots=True)
class SpiderSelected:
    """One selected unit, and the aggregate around it."""

    aggregate: str
    unit: Unit


@dataclass(frozen=True, slots=True)
class SpiderOrdering:
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
    select: tuple[SpiderSelected, ...]
    tables: tuple["str | SpiderQuery", ...]
    on: Conditions
    where: Conditions
    group: tuple[ColumnUse, ...]
    having: Conditions
    order: SpiderOrdering | None
    limited: bool
    operation: Operation | None


Value = SpiderQuery | ColumnUse | float | str | None


CLAUSE_WORDS = frozenset(
    ("select", "from", "where", "group", "order", "limit", "intersect", "union", "except")
)
JOIN_WORDS = frozenset(("join", "on", "as"))
OPERATORS = frozenset(("not", "between", "=", ">", "<", ">=", "<=", "!=", "in", "like", "is", "exists"))
AGGREGATES = frozenset(("none", "max", "min", "count", "sum", "avg"))
ARITHMETIC = frozenset(("none", "-", "+", "*", "/"))
AS_WRITTEN = frozenset(("tables", "value", "second_value"))
"""Fields whose queries are compared as they are written."""


def read_query(sql: str, schema: Schema) -> SpiderQuery | None:
    """Read a SQL as the official evaluator does; return None where it cannot. What follows the query is ignored.

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("Pet", (Column("age"), Column("name"))),), dialect="sqlite")
    >>> [read_query(sql, schema) is not None for sql in (
    ...     "SELECT T1.name FROM Pet AS T1 WHERE T1.age >= 3", "SELECT name FROM Pet AS T1 WHERE age <> 3",
    ...     "SELECT T1.name FROM pet T1", "SELECT size FROM pet", "SELECT name FROM pet WHERE age=3")]
    [True, False, False, False, False]
    """
    try:
        words = split(sql)
        columns = schema.columns_by_table
        aliases = {words[at + 1]: words[at - 1] for at, word in enumerate(words) if word == "as"}
        if aliases.keys() & columns.keys():  # an alias is the name of a table
            return None
        tables_by_name = aliases | {name: name for name in columns}
        return _Parser(words, columns, tables_by_name).query()
    except (UnreadableError, IndexError, KeyError, ValueError, RecursionError):
        return None


class _Parser:
    """Recursive descent over words; `position` is that of the next one, `names` the tables that may own a column."""

    def __init__(
        self, words: list[str], columns: Mapping[str, frozenset[str]], tables: Mapping[str, str]
    ) -> None:
        self.words = words
        self.columns = columns
        self.tables = tables
        self.position = 0
        self.in_derived = False  # whether it reads a derived table, where values count

    @property
    def more(self) -> bool:
        return self.position < len(self.words)

    def at(self, *words: str) -> bool:
        return self.more and self.words[self.position] in words

    def take(self) -> str:
        self.position += 1
        return self.words[self.position - 1]

    def skip(self, *words: str) -> bool:
        is_there = self.at(*words)
        self.position += is_there
        return is_there

    def demand(self, word: str) -> None:
        if self.take() != word:
            raise UnreadableError

    def ends_clause(self) -> bool:
        return self.at(*CLAUSE_WORDS, ")", ";")

    def query(self) -> SpiderQuery:
        # FROM is read before SELECT, whose columns are looked up in its tables
        sources_at = self.words.index("from", self.position) + 1
        in_brackets = self.skip("(")
        select_at = self.position
        self.position = sources_at
        tables, on, names = self.sources()
        sources_end = self.position
        self.position = select_at
        distinct, select = self.selected(names)
        self.position = sources_end
        where = self.conditions(names) if self.skip("where") else ()
        group = self.group(names)
        having = self.conditions(names) if self.skip("having") else ()
        order = self.order(names)
        limited = self.skip("limit") and bool(self.take())
        self.semicolons()
        if in_brackets:
            self.demand(")")
        self.semicolons()
        operation = None
        if self.at("intersect", "union", "except"):
            operation = Operation(self.take(), self.query())
        return SpiderQuery(distinct, select, tables, on, where, group, having, order, limited, operation)

    def semicolons(self) -> None:
        while self.skip(";"):
            pass

    def sources(self) -> tuple[tuple[str | SpiderQuery, ...], Conditions, list[str]]:
        """Read tables and join conditions; return the tables' names as well, in which columns are looked up."""
        tables: list[str | SpiderQuery] = []
        on: Conditions = ()
        names: list[str] = []
        while self.more:
            in_brackets = self.skip("(")
            if self.at("select"):
                outer = self.in_derived
                self.in_derived = True
                tables.append(self.query())
                self.in_derived = outer
            else:
                self.skip("join")
                name = self.tables[self.take()]
                if name not in self.columns:
                    raise UnreadableError
                tables.append(name)
                names.append(name)
                if self.skip("as"):
                    self.take()
            if self.skip("on"):
                conditions = self.conditions(names)
                on = (*on, "and", *conditions) if on else conditions
            if in_brackets:
                self.demand(")")
            if self.ends_clause():
                break
        return tuple(tables), on, names

    def selected(self, names: list[str]) -> tuple[bool, tuple[SpiderSelected, ...]]:
        self.demand("select")
        distinct = self.skip("distinct")
        units = []
        while self.more and not self.at(*CLAUSE_WORDS):
            aggregate = self.take() if self.at(*AGGREGATES) else "none"
            units.append(SpiderSelected(aggregate, self.unit(names)))
            self.skip(",")
        return distinct, tuple(units)

    def group(self, names: list[str]) -> tuple[ColumnUse, ...]:
        units: list[ColumnUse] = []
        if self.skip("group"):
            self.demand("by")
            while self.more and not self.ends_clause():
                units.append(self.column_use(names))
                if not self.skip(","):
                    break
        return tuple(units)

    def order(self, names: list[str]) -> SpiderOrdering | None:
        if not self.skip("order"):
            return None
        self.demand("by")
        direction = "asc"
        units = []
        while self.more and not self.ends_clause():
            units.append(self.unit(names))
            if self.at("asc", "desc"):
                direction = self.take()  # as published, the last one counts for all units
            if not self.skip(","):
                break
        return SpiderOrdering(direction, tuple(units))

    def conditions(self, names: list[str]) -> Conditions:
        conditions: list[SpiderCondition | Literal["and", "or"]] = []
        while self.more:
            unit = self.unit(names)
            negated = self.skip("not")
            operator = self.take()
            if operator not in OPERATORS:
                raise UnreadableError
            value = self.compared_value(names)
            second = None
            if operator == "between":
                self.demand("and")
                second = self.compared_value(names)
            conditions.append(SpiderCondition(negated, operator, unit, value, second))
            if self.ends_clause() or self.at(*JOIN_WORDS):
                break
            if self.more:
                if not self.at("and", "or"):
                    raise UnreadableError
                conditions.append(cast(Literal["and", "or"], self.take()))
        return tuple(conditions)

    def compared_value(self, names: list[str]) -> Value:
        """Read a value; None for one that is ignored."""
        value = self.value(names)
        return value if self.in_derived or isinstance(value, SpiderQuery) else None

    def value(self, names: list[str]) -> Value:
        """Read a value: a query, a text, a number, or the first column among the words up to the value's end."""
        start = self.position
        in_brackets = self.skip("(")
        value: Value
        if self.words[self.position] == "select":
            value = self.query()
        elif '"' in self.words[self.position]:
            value = self.take()
        else:
            try:
                value = float(self.words[self.position])
                self.position += 1
            except ValueError:
                while self.more and not self.at(",", ")", "and", *CLAUSE_WORDS, *JOIN_WORDS):
                    self.position += 1
                words = self.words[start : self.position]
                value = _Parser(words, self.columns, self.tables).column_use(names)
        if in_brackets:
            self.demand(")")
        return value

    def unit(self, names: list[str]) -> Unit:
        in_brackets = self.skip("(")
        unit = Unit(self.column_use(names))
        if self.at(*ARITHMETIC):
            unit = Unit(unit.first, self.take(), self.column_use(names))
        if in_brackets:
            self.demand(")")
        return unit

    def column_use(self, names: list[str]) -> ColumnUse:
        in_brackets = self.skip("(")
        if self.at(*AGGREGATES):
            aggregate = self.take()
            self.demand("(")
            distinct = self.skip("distinct")
            use = ColumnUse(self.column(names), aggregate, distinct)
            self.demand(")")
            return use  # a bracket before the aggregate is not closed, as published
        distinct = self.skip("distinct")
        use = ColumnUse(self.column(names), distinct=distinct)
        if in_brackets:
            self.demand(")")
        return use

    def column(self, names: list[str]) -> str:
        word = self.take()
        if word == "*":
            return word
        if "." in word:
            alias, name = word.split(".")
            owners = [self.tables[alias]]
        else:
            name, owners = word, names
        for table in owners:
            if name in self.columns[table]:
                return f"{table}.{name}"
        raise UnreadableError


_WORD = re.compile(
    r"""[][(){}<>;@#$%&?!*] | `+ | -- | \.{2,} | [,:](?!\d) | \.\Z
    | (?: [^][(){}<>;@#$%&?!*`.,:\s-] | [,:](?=\d) | -(?!-) | \.(?!\.|\Z) )+""",
    re.VERBOSE,
)
_TEXT = re.compile(r"__val_(\d+)__")


class UnreadableError(Exception):
    """The official evaluator's reading of a SQL stops here."""


def split(sql: str) -> list[str]:
    """Return the words in lower case, a quoted text in double quotes as one; raise if a quote is open.

    >>> split("SELECT T1.name, 'Ann  B' FROM Pet WHERE age > = 3 AND id=4")[1:]
    ['t1.name', ',', '"Ann  B"', 'from', 'pet', 'where', 'age', '>=', '3', 'and', 'id=4']
    """
    parts = sql.replace("'", '"').split('"')  # every second one is a text that was in quotes
    if len(parts) % 2 == 0:
        raise UnreadableError
    with_placeholders = (f"__val_{number}__" if number % 2 else part for number, part in enumerate(parts))
    text = "".join(with_placeholders).rstrip()
    words: list[str] = []
    for word in _WORD.findall(text):
        if word == "=" and words and words[-1] in ("!", ">", "<"):
            words[-1] += "="
        elif quoted := _TEXT.fullmatch(word):
            words.append(f'"{parts[int(quoted[1])]}"')
        else:
            words.append(word.lower())
    return words


def official_match(predicted: str, gold: str, schema: Schema) -> bool | None:
    """Return whether the official evaluator matches a predicted SQL with the gold; None if it cannot read either."""
    # as published, "value" in a prediction is a placeholder for a number
    predicted_query = read_query(predicted.replace("value", "1"), schema)
    gold_query = read_query(gold, schema)
    if predicted_query is None or gold_query is None:
        return None
    return _same(_with_merged_columns(predicted_query, schema), _with_merged_columns(gold_query, schema))


def _with_merged_columns(query: SpiderQuery, schema: Schema) -> SpiderQuery:
    tables = frozenset(table for table in query.tables if isinstance(table, str))
    merged: SpiderQuery = _Merged(tables, joined_columns(schema)).of(query)
    return merged


def _same(predicted: SpiderQuery, gold: SpiderQuery) -> bool:
    # [::2] are the conditions of WHERE, [1::2] the words "and" and "or" between them
    return (
        Counter(predicted.select) == Counter(gold.select)
        and Counter(predicted.tables) == Counter(gold.tables)
        and Counter(predicted.where[::2]) == Counter(gold.where[::2])
        and set(predicted.where[1::2]) == set(gold.where[1::2])
        and _groups(predicted) == _groups(gold)
        and predicted.order == gold.order
        and _keywords(predicted) == _keywords(gold)
        and (
            predicted.operation is None
            or (gold.operation is not None and _same(predicted.operation.query, gold.operation.query))
        )
    )


def _groups(query: SpiderQuery) -> tuple[object, ...]:
    columns = tuple(use.column for use in query.group)
    return columns, query.having if columns else ()


def _keywords(query: SpiderQuery) -> frozenset[str]:
    parts = (query.on, query.where, query.having)
    conditions = [c for part in parts for c in part if isinstance(c, SpiderCondition)]
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
    }
    keywords = frozenset(word for word, is_used in used.items() if is_used)
    return keywords | {query.operation.kind} if query.operation else keywords


@dataclass(frozen=True, slots=True)
class _Merged:
    """Names joined columns alike, those of `tables` alone: behind a set operation, too, the tables before it."""

    tables: frozenset[str]
    joined: Mapping[str, str]

    def of(self, part: Any) -> Any:
        """Return a part of a query, in which each column of `tables` has its name in `joined`, if it has one there.

        Derived tables and queries within conditions stay as written.
        """
        if isinstance(part, ColumnUse):
            is_own = part.column.partition(".")[0] in self.tables
            column = self.joined.get(part.column, part.column) if is_own else part.column
            return replace(part, column=column, distinct=None)
        if isinstance(part, tuple):
            return tuple(map(self.of, part))
        if not is_dataclass(part):
            return part
        names = [field.name for field in fields(part) if field.name not in AS_WRITTEN]
        changes = {name: self.of(getattr(part, name)) for name in names}
        return replace(cast(Any, part), **changes)


@lru_cache(maxsize=256)
def joined_columns(schema: Schema) -> Mapping[str, str]:
    """Map each column with a foreign key to or from it to the schema's first in its group.

    As published, a key joins the first group that has one of its columns; groups that a later key connects stay two,
    and a column of both is in the later one.
    """
    names = (f"{name.table}.{name.column}".lower() for name in schema.column_names)
    positions = {name: position for position, name in enumerate(names)}  # in the schema
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
        column: min(group, key=lambda name: positions.get(name, len(positions)))
        for group in groups
        for column in group
    }
