"""SELECT as a question asks for it: columns, aggregates, counts, in the order of mention."""

import re
from dataclasses import dataclass

from tasks.backbone.offline.prompt.english import AGGREGATES, words_of
from tasks.backbone.offline.question.mentions import ColumnMention
from tasks.backbone.offline.question.query import COUNT, Expression, call, plain
from tasks.backbone.offline.question.text import QuestionText, TokenMatch
from tasks.core.records import ColumnName

_IMPERATIVE = words_of(
    """
    show list give find return tell display what which who report select provide please state get name
    compute count calculate how output present sort identify describe
    """
)
_BOUNDARY = words_of("who whose that which where with when having if while whom without")
_BEFORE_WHICH = words_of("in of and from show find tell me , on at for")
COUNTING = (
    r"(?:how many(?: of)?|count (?:the )?(?:total )?number of|(?:the )?(?:total )?(?:number|numbers|count|amount) of"
    r"|count(?: of)?|the number(?= [.,?;]| and |$))"
    r"(?: the| all| all the| their| its)?(?P<distinct>(?: different| distinct| unique)?)(?: kinds of| types of)?"
)
_RESTART = (
    r"(?:along with|together with|as well as|with (?:the|its|their) (?:total )?(?:number|count) of|and(?: also)?(?:,)? "
    r"(?:what|how many|how much|list|show|give|return|find|tell|which|their|its|his|her|the number|the total number"
    r"|the average|the maximum|the minimum))"
)
_DISTINCT = re.compile(r"\b(?:different|distinct|unique|without (?:duplicates|repetition)|no duplicates)\b")
_BEFORE_COLUMN = words_of("and , the of number value for amount all or values a")
_AVERAGED = ("average", "mean", "total", "sum", "maximum", "minimum")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that the question wants."""

    start: int
    expression: Expression
    column: ColumnName | None = None  # the bare column of a plain item, None for an aggregate
    counts: str = ""  # table whose rows it counts, "" when it is no plain count


@dataclass(frozen=True, slots=True)
class Projection:
    """What a question asks for."""

    items: tuple[Item, ...]
    distinct: bool = False

    @property
    def aggregates(self) -> bool:
        """Whether any item is an aggregate."""
        return any(item.column is None for item in self.items)


def is_aggregate_question(text: QuestionText) -> bool:
    """Whether the question asks for a count or another aggregate at all."""
    return any(True for _ in text.find(COUNTING)) or any(token.lower in _AVERAGED for token in text.tokens)


def read_projection(text: QuestionText, near: str = "") -> Projection:
    """Read what is asked for from the words that no other clause has used; columns of the table `near` win ties."""
    ranges = _asked(text)
    items: list[Item] = []
    counted: set[int] = set()
    for found in text.find(COUNTING):
        within = any(found.start in span for span in ranges) and text.free(found.start, found.end)
        if within and not any(m.start < found.start < m.end and m.score >= 0.6 for m in text.columns):
            items.extend(_count(text, found, counted))
    for span in ranges:
        for mention in text.columns_in(span.start, span.stop):
            if mention.start in counted or mention.score < 0.5 or (items and _is_owner(text, mention)):
                continue
            previous = next((item.column.table for item in reversed(items) if item.column), "")
            items.extend(_column_items(text, mention, span.start, near or previous))
    items.sort(key=lambda item: item.start)
    words = text.between(ranges[0].start, ranges[0].stop)
    distinct = bool(_DISTINCT.search(words)) or "without duplicates" in text.plain
    unrepeated = {item.expression: item for item in reversed(items)}
    return Projection(tuple(reversed(unrepeated.values())), distinct)


def _is_owner(text: QuestionText, mention: ColumnMention) -> bool:
    """Whether words name the table that columns before them belong to: "the hours of all projects"."""
    whole = any((m.start, m.end) == (mention.start, mention.end) and m.score >= 0.9 for m in text.tables)
    return whole and text.between(mention.start - 1, mention.start) not in ("and", ",")


def _count(text: QuestionText, found: TokenMatch, counted: set[int]) -> list[Item]:
    """Read what "how many" and "number of" count; the mentions that are counted are noted in `counted`."""
    start, end = found.start, found.end
    distinct = bool(found.match["distinct"].strip())
    table = text.table_at(end, reach=2)
    within = next((m for m in text.columns if start <= m.start <= start + 1 and m.end >= end), None)
    column = within or next((m for m in text.columns if end - 2 <= m.start <= end + 1 and m.end >= end), None)
    if column is not None and text.free(column.start, column.end):
        name = text.resolve(column)
        about = text.schema.column(name)
        is_number = (
            about.kind == "number" and about.stems[-1:] != ("id",) and column.score >= 0.6 and not distinct
        )
        if is_number and (table is None or column.end > table.start or within):
            return []  # a column that holds a number; its aggregates are read with it
        if (table is None or table.start >= column.end or table.score < 0.9) and column.score >= 0.75:
            counted.add(column.start)
            if name in text.name_columns(name.table) and not distinct:
                return [Item(start, COUNT, None, name.table)]
            return [Item(start, call("COUNT", name, distinct=True))]
    if table is None:
        return [Item(start, COUNT, None, text.subject)]
    counted.update(m.start for m in text.columns if m.start < table.end and table.start < m.end)
    target = text.table_of(table)
    key = text.key(target) if distinct else None
    return [Item(start, call("COUNT", key, distinct=True) if key else COUNT, None, target)]


def _column_items(text: QuestionText, mention: ColumnMention, zone_start: int, near: str) -> list[Item]:
    name = text.resolve(mention, near)
    functions: list[str] = []
    for index in range(mention.start - 1, zone_start - 1, -1):
        word = text.tokens[index].lower
        if word in AGGREGATES and index not in text.used:
            functions.insert(0, AGGREGATES[word])
        elif word not in _BEFORE_COLUMN or (word in ("and", ",") and not functions):
            break
    if not functions:
        return [Item(mention.start, plain(name), name)]
    return [Item(mention.start, call(function, name)) for function in dict.fromkeys(functions)]


def _asked(text: QuestionText) -> list[range]:
    """Return the ranges that say what is asked for: from the last asking sentence's start to its first clause."""
    ends = [n for n, token in enumerate(text.tokens[:-1]) if token.text in (".", "?", "!", ";", ":")]
    starts = [start for start in (0, *(n + 1 for n in ends)) if text.between(start, start + 1) in _IMPERATIVE]
    start = starts[-1] if starts else 0
    stop = text.sentence_end(start)
    if not text.columns_in(start, stop, free=False) and not any(
        f.start >= start for f in text.find(COUNTING)
    ):
        start, stop = 0, text.sentence_end(0)
    ranges = [range(start, _boundary(text, start, stop))]
    for found in text.find(_RESTART):
        if ranges[-1].stop < found.start < stop:
            ranges.append(range(found.start, _boundary(text, found.start + 1, stop)))
    return ranges


def _boundary(text: QuestionText, start: int, stop: int) -> int:
    for index in range(start + 1, stop):
        word, previous = text.tokens[index].lower, text.tokens[index - 1].lower
        along = word == "with" and previous in ("along", "together")
        asking = word == "which" and previous in _BEFORE_WHICH and index <= start + 3
        if word in _BOUNDARY and not along and not asking:
            return index
    return stop
