"""SELECT as a question asks for it: columns, aggregates, counts, in the order of mention."""

import re
from dataclasses import dataclass

from tasks.backbone.offline.lexicon import AGGREGATES
from tasks.backbone.offline.linking import ColumnMention
from tasks.backbone.offline.naming import hinted_column
from tasks.backbone.offline.query import Expression, call, plain
from tasks.backbone.offline.text import QuestionText
from tasks.backbone.offline.zones import COUNTING, enumeration_end, zone
from tasks.records import ColumnName

_WORDS_THAT_ASK = {
    "how old": ("age",), "how long": ("length", "duration", "time"), "how tall": ("height",),
    "how heavy": ("weight",), "how big": ("size", "area"), "how large": ("size", "area", "population"),
    "how far": ("distance",), "how fast": ("speed",), "how expensive": ("price", "cost"),
    "when": ("date", "year", "time", "day"), "where": ("location", "city", "place", "address", "country"),
    "how much": ("amount", "price", "cost", "balance", "salary", "total"),
}  # fmt: skip
_DISTINCT = re.compile(r"\b(?:different|distinct|unique|without (?:duplicates|repetition)|no duplicates)\b")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is asked for.

    Attributes:
        start: index of its first token, for the order of the items.
        expression: what is selected.
        column: the bare column of a plain item, None for an aggregate.
        counts: table whose rows it counts, "" when it is no plain count.
    """

    start: int
    expression: Expression
    column: ColumnName | None = None
    counts: str = ""


@dataclass(frozen=True, slots=True)
class Projection:
    """What a question asks for."""

    items: tuple[Item, ...]
    distinct: bool = False
    start: int = 0
    end: int = 0

    @property
    def aggregates(self) -> bool:
        """Whether any item is an aggregate."""
        return any(item.column is None for item in self.items)


def is_aggregate_question(text: QuestionText) -> bool:
    """Whether the question asks for a count or another aggregate at all."""
    return any(True for _ in text.find(COUNTING)) or any(
        token.lower in ("average", "mean", "total", "sum", "maximum", "minimum") for token in text.tokens
    )


def read_projection(text: QuestionText, near: str = "") -> Projection:
    """Read what is asked for from the words that no other clause has used.

    Args:
        text: the question.
        near: table that groups the rows, whose columns win ties.
    """
    ranges = zone(text)
    items: list[Item] = []
    counted: set[int] = set()
    for found in text.find(COUNTING):
        if not any(found.start in r for r in ranges) or not text.free(found.start, found.end):
            continue
        if any(m.start < found.start < m.end and m.score >= 0.6 for m in text.columns):
            continue  # "phone number of": the number belongs to a column's name
        item = _count(text, found.start, found.end, bool(found.match["distinct"].strip()), counted)
        if item is not None:
            items.append(item)
    items.extend(_formulas(text))
    for span in ranges:
        for mention in text.columns_in(span.start, enumeration_end(text, span)):
            if mention.start in counted or mention.score < 0.5 or (items and _is_owner(text, mention)):
                continue
            previous = next((item.column for item in reversed(items) if item.column), None)
            items.extend(
                _column_items(text, mention, span.start, near or (previous.table if previous else ""))
            )
    words = text.between(ranges[0].start, ranges[0].stop) + (
        " distinct" if "without duplicates" in text.plain else ""
    )
    items.sort(key=lambda item: item.start)
    distinct = bool(_DISTINCT.search(words))
    if not items and (asked := _asked_by_word(text, near or text.subject)):
        items.append(asked)
    return Projection(tuple(_unrepeated(_whole(text, items))), distinct, ranges[0].start, ranges[-1].stop)


def _is_owner(text: QuestionText, mention: ColumnMention) -> bool:
    """Whether words name the table that columns before them belong to: "the hours of all projects"."""
    whole = any((m.start, m.end) == (mention.start, mention.end) and m.score >= 0.9 for m in text.tables)
    return whole and text.between(mention.start - 1, mention.start) not in ("and", ",")


def _formulas(text: QuestionText) -> list[Item]:
    """Return the aggregates that the evidence spells out and no other clause has used."""
    found = []
    for hint in text.hints:
        if hint.formula is not None and text.free(hint.start, hint.end):
            found.append(Item(hint.start, hint.formula))
            text.use(hint.start, hint.end)
    return found


def _unrepeated(items: list[Item]) -> list[Item]:
    """Drop items that say the same thing again."""
    seen: set[Expression] = set()
    kept = []
    for item in items:
        if item.expression not in seen:
            seen.add(item.expression)
            kept.append(item)
    return kept


def _whole(text: QuestionText, items: list[Item]) -> list[Item]:
    """Drop columns of which only a part was said beside others, and a column beside its own aggregate."""
    parts = {m.start for m in text.columns if m.score < 0.6}
    whole = [item for item in items if item.column is None or item.start not in parts]
    kept = whole or items
    summed = {column for item in kept if item.column is None for column in item.expression.columns}
    near = {item.start for item in kept if item.column is None}
    return [
        item
        for item in kept
        if item.column not in summed or not any(abs(start - item.start) <= 2 for start in near)
    ]


def _asked_by_word(text: QuestionText, table: str) -> Item | None:
    """Read "how old", "when", "where" and their like, which name a column without its word."""
    for found in text.find("|".join(_WORDS_THAT_ASK)):
        hints = _WORDS_THAT_ASK[found.match[0]]
        for name in dict.fromkeys([table, *(text.table_of(m) for m in text.tables)]):
            hinted = hinted_column(text.schema, hints, name)
            if hinted is not None:
                function = "AVG" if re.search(r"\b(?:average|on average)\b", text.plain) else ""
                expression = call(function, hinted[0]) if function else plain(hinted[0])
                return Item(found.start, expression, None if function else hinted[0])
    return None


def _count(text: QuestionText, start: int, end: int, distinct: bool, counted: set[int]) -> Item | None:
    """Read what "how many" and "number of" count."""
    column = next((m for m in text.columns if end - 2 <= m.start <= end + 1 and m.end > end - 1), None)
    within = next(
        (m for m in text.columns if m.start <= start + 1 and m.start >= start and m.end >= end), None
    )
    table = text.table_at(end, reach=2)
    if column and table and column.start == table.start and text.is_participle(column.end - 1):
        column = None  # "institutions founded": a table with what was done to it
    column = within or column
    if column is not None and text.free(column.start, column.end):
        name = text.resolve(column)
        about = text.schema.column(name)
        is_key = about.stems[-1:] == ("id",)
        is_number = about.kind == "number" and not is_key and column.score >= 0.6 and not distinct
        if is_number and (table is None or column.end > table.start or within):
            return None  # a column that holds a number; its aggregates are read with it
        if (table is None or table.start >= column.end or table.score < 0.9) and (column.score >= 0.75):
            counted.add(column.start)
            if name in text.name_columns(name.table) and not distinct:
                return Item(start, call("COUNT", None), None, name.table)
            return Item(start, call("COUNT", name, distinct=True))
        if table is not None and column.start < table.end:
            counted.add(column.start)
    if table is not None:
        for mention in text.columns:
            if table.start <= mention.start < table.end and mention.end <= table.end:
                counted.add(mention.start)
        target = text.table_of(table)
        if distinct and (key := text.key(target)):
            return Item(start, call("COUNT", key, distinct=True), None, target)
        return Item(start, call("COUNT", None), None, target)
    asked = next((found.end for found in text.find("how many")), None)
    first = text.table_at(asked, reach=2) if asked is not None else None
    return Item(start, call("COUNT", None), None, text.table_of(first) if first else text.subject)


def _column_items(text: QuestionText, mention: ColumnMention, zone_start: int, near: str) -> list[Item]:
    """Return a column, or its aggregates where such words stand before it."""
    name = text.resolve(mention, near)
    functions: list[str] = []
    index = mention.start - 1
    while index >= zone_start:
        word = text.tokens[index].lower
        if word in AGGREGATES and index not in text.used:
            functions.insert(0, AGGREGATES[word])
        elif word not in (
            "and",
            ",",
            "the",
            "of",
            "number",
            "value",
            "for",
            "amount",
            "all",
            "or",
            "values",
            "a",
        ) or (word in ("and", ",") and not functions):
            break
        index -= 1
    if not functions and text.between(mention.end, mention.end + 2) in ("on average", "in average"):
        functions = ["AVG"]
    if not functions and text.between(mention.end, mention.end + 2) == "in total":
        functions = ["SUM"]
    if not functions:
        return [Item(mention.start, plain(name), name)]
    return [Item(mention.start, call(function, name)) for function in dict.fromkeys(functions)]
