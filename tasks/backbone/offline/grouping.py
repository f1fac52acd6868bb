"""GROUP BY and HAVING as a question asks for them."""

import re
from dataclasses import dataclass

from tasks.backbone.offline.joins import counting_tables
from tasks.backbone.offline.linking import ColumnMention, TableMention
from tasks.backbone.offline.ordering import COUNT
from tasks.backbone.offline.query import Expression, call, compare
from tasks.backbone.offline.text import Found, QuestionText
from tasks.records import ColumnName

_EACH = (
    r"(?:, )?(?:(?:(?:for|of|in|by|from|at|to|on|with|per|within|does|do|did|under|across|and) )?(?:each|every|per)"
    r"|(?:for|in|by|across|(?<!number )(?<!kinds )(?<!types )of) (?:the |all |all the )?(?:different|various))"
    r"(?: of)?(?: the)?(?: different| distinct| unique| possible)?"
)
_BY = r"(?:grouped by|group by|by)(?: the| their| its| each)?(?: different)?"
_AMOUNT = (
    r"(?:(?P<op>more than|over|greater than|above|at least|no less than|no fewer than|less than|fewer than|under|below"
    r"|at most|no more than|exactly|only|larger than|not less than|minimum of|a minimum of) )?(?P<n><n>|one|a|zero)"
    r"(?P<after> or more| or less| or fewer| or above)?(?P<unit> times?| different| distinct| unique)?"
)
_MEASURED = (
    r"(?:with|whose|have|has|having|where|which|of)(?: an| a| the| their)? (?:average|mean|total|combined|sum of)"
    r"(?: the)?"
)
_OPERATORS = {
    "more than": ">", "over": ">", "greater than": ">", "above": ">", "larger than": ">", "at least": ">=",
    "no less than": ">=", "no fewer than": ">=", "not less than": ">=", "less than": "<", "fewer than": "<",
    "under": "<", "below": "<", "at most": "<=", "no more than": "<=", "exactly": "=", "only": "=",
    "minimum of": ">=", "a minimum of": ">=",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Grouping:
    """What a question says about groups.

    Attributes:
        group: what to group by, None when nothing is said.
        shown: columns that stand for the group in the result, () where the question does not name the group.
        having: a condition on the groups.
        tables: tables that must be joined for the counts to make sense.
        position: index of the token that names the group.
    """

    group: ColumnName | None = None
    shown: tuple[ColumnName, ...] = ()
    having: Expression | None = None
    tables: tuple[str, ...] = ()
    position: int = 0


def read_grouping(text: QuestionText, *, counted: bool) -> Grouping:
    """Read "for each x", "per x" and "by x" in a question for an aggregate; their tokens are used up.

    Args:
        text: the question.
        counted: whether the question asks for an aggregate.
    """
    for pattern in (_EACH, _BY) if counted else ():
        for found in text.find(pattern):
            if not text.free(found.start, found.end):
                continue
            if pattern is _BY and not _follows_noun(text, found.start):
                continue
            column = next((m for m in text.columns if found.end <= m.start <= found.end + 1), None)
            table = text.table_at(found.end, reach=1)
            if column and (table is None or table.end <= column.end) and column.score >= 0.6:
                if not text.free(column.start, column.end):
                    continue
                name = text.resolve(column)
                text.use(found.start, column.end)
                key = text.key(name.table) if text.is_name(name) else name
                return Grouping(key or name, (name,), position=column.start)
            if table:
                name_of = text.table_of(table)
                key = text.key(name_of)
                if key is None:
                    continue
                text.use(found.start, table.end)
                return Grouping(key, text.name_columns(name_of), position=table.start)
    return Grouping()


def _follows_noun(text: QuestionText, index: int) -> bool:
    """Whether "by" follows what is grouped, not what was done: "the number of films by studio"."""
    previous = text.between(index - 1, index)
    nouns = [(m.start, m.end) for m in text.tables] + [(m.start, m.end) for m in text.columns]
    return previous in ("grouped", "group", ",") or any(s < index <= e for s, e in nouns)


def read_having(text: QuestionText) -> Grouping:
    """Read a condition on groups: "more than two concerts", "an average age above 30"; its tokens are used up."""
    for found in text.find(_MEASURED):
        grouping = _measured(text, found)
        if grouping is not None:
            return grouping
    for found in text.find(_AMOUNT):
        operator = _OPERATORS.get(found.match["op"] or "", "")
        after = (found.match["after"] or "").strip()
        operator = ">=" if after in ("or more", "or above") else "<=" if after else operator
        unit = (found.match["unit"] or "").strip()
        if not operator and not unit.startswith("time") and found.match["n"] != "<n>":
            continue
        if not text.free(found.start, found.end):
            continue
        number = next((t.text for t in text.tokens[found.start : found.end] if t.kind == "number"), "1")
        if found.match["n"] == "zero":
            number = "0"
        if not number.isdigit() or (int(number) > 200 and not unit):
            continue
        if not operator and not unit and not _at_once(text, found):
            continue
        grouping = _having_at(text, found.start, found.end, operator or "=", number, unit)
        if grouping is not None:
            return grouping
    return Grouping()


def _measured(text: QuestionText, found: Found) -> Grouping | None:
    """Build the condition for "an average age above 30"."""
    starts = (
        (found.end, found.end + 2) if text.between(found.end, found.end + 2) == "number of" else (found.end,)
    )
    mention = next((m for m in text.columns if m.start in starts), None)
    if mention is None or not text.free(found.start, mention.end):
        return None
    head = _head(text, found.start)
    number = next(
        (
            i
            for i in range(mention.end, min(mention.end + 6, len(text.tokens)))
            if text.tokens[i].kind == "number"
        ),
        0,
    )
    words = text.between(mention.end, number)
    operator = next(
        (op for words_of_it, op in _OPERATORS.items() if re.search(rf"\b{words_of_it}$", words)), ""
    )
    operator = operator or (">" if re.search(r"(?:higher|larger|bigger|greater) than$", words) else "")
    operator = operator or ("<" if re.search(r"(?:lower|smaller) than$", words) else "")
    if not number or not operator or head is None:
        return None
    column = text.resolve(mention)
    group = text.key(text.table_of(head)) if isinstance(head, TableMention) else text.resolve(head)
    if group is None or group == column:
        return None
    text.use(found.start, number + 1)
    function = "AVG" if re.search("average|mean", found.match[0]) else "SUM"
    return Grouping(group, (), compare(call(function, column), operator, text.tokens[number].text))


def _at_once(text: QuestionText, found: Found) -> bool:
    """Whether a bare number stands right before what it counts, and behind no comparison."""
    if any(m.start < found.start == m.end for m in text.columns):
        return False
    if text.between(found.start - 1, found.start) in (
        "than",
        "between",
        "and",
        "to",
        "in",
        "of",
        "age",
        "is",
        "equals",
    ):
        return False
    return any(m.start == found.end for m in text.tables) or any(m.start == found.end for m in text.columns)


def _having_at(
    text: QuestionText, start: int, end: int, operator: str, number: str, unit: str
) -> Grouping | None:
    """Build the condition for an amount, None when what follows is no countable thing."""
    counted = text.table_at(end, reach=2)
    column = next((m for m in text.columns if end <= m.start <= end + 1), None)
    if column and counted and column.start == counted.start and text.is_participle(column.end - 1):
        column = None  # "institutions founded": a table with what was done to it
    if unit.startswith("time"):
        counted = None
    elif (
        column is not None and text.schema.column(column.columns[0]).kind == "number" and column.score >= 0.9
    ):
        if text.schema.column(column.columns[0]).stems[-1] != "id":
            return None
    elif (counted is None and column is None) or not operator:
        return None
    thing = counted or column
    if thing is not None and any(token.kind == "mark" for token in text.tokens[end : thing.start]):
        return None
    head = _head(text, start)
    if head is None:
        return None
    if isinstance(head, TableMention):
        group = text.key(text.table_of(head))
    else:
        group = text.resolve(head)
        if text.is_name(group):
            group = text.key(group.table)
    if group is None:
        return None
    tables: tuple[str, ...] = ()
    if counted is not None:
        target = text.table_of(counted)
        if target == group.table and isinstance(head, TableMention):
            return None
        tables = counting_tables(text.schema, group.table, target)
        text.use(start, counted.end)
    elif column is not None and not unit.startswith("time"):
        name = text.resolve(column)
        if name == group:
            return None
        tables = (name.table,)
        text.use(start, column.end)
    else:
        others = [text.table_of(m) for m in text.tables if text.table_of(m) != group.table]
        tables = tuple(others[-1:]) if isinstance(head, TableMention) else ()
        text.use(start, end)
    return Grouping(group, (), compare(COUNT, operator, number), tables)


def _head(text: QuestionText, before: int) -> ColumnMention | TableMention | None:
    """Return what is grouped: the nearest mention before the amount."""
    tables = [m for m in text.tables if m.end <= before]
    columns = [m for m in text.columns if m.end <= before and text.free(m.start, m.end)]
    if columns and (not tables or columns[-1].end > tables[-1].end):
        return columns[-1]
    return tables[-1] if tables else None
