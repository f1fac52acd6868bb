"""WHERE as a question asks for it."""

import re
from collections.abc import Sequence

from tasks.backbone.offline.comparing import as_literal, needs_year, test_of, year_of
from tasks.backbone.offline.lexicon import COMPARATIVES
from tasks.backbone.offline.linking import ColumnMention
from tasks.backbone.offline.naming import hinted_column
from tasks.backbone.offline.query import Expression, Query, call, compare, literal, plain
from tasks.backbone.offline.text import QuestionText
from tasks.backbone.offline.value_columns import Choice, Condition, choose_column
from tasks.backbone.offline.values import Value

_NOTHING = (
    r"(?:(?:have|has|had|with|carry|carries|there is) no(?: known)?|without(?: an?| any)?"
    r"|(?:do|does|did) not have(?: an?| any)?|not know(?: the)?|unknown|is no|(?:have|has|had) not(?: yet)?(?: been)?)"
)
_UNKNOWN = r"(?:is|are|was|were) (?:unknown|missing|not known|not recorded|null|empty)"
_AVERAGE = (
    r"(?P<op>above|below|over|under|(?:higher|greater|more|larger|older|longer|bigger|lower|less|smaller|younger|shorter|"
    r"fewer|taller|heavier|cheaper|expensive) than|exceeds?|at least)(?: the| their| its| that of the)?(?: overall)? "
    r"(?P<function>average|mean|maximum|minimum|highest|lowest)"
)


def read_conditions(text: QuestionText, values: Sequence[Value]) -> tuple[Condition, ...]:
    """Return the conditions on values that no other clause has used; their tokens are used up."""
    found = [*_hinted(text), *_averages(text), *_missing(text)]
    skip = -1
    for index, value in enumerate(values):
        if index <= skip or not text.free(value.start, value.end):
            continue
        following = values[index + 1] if index + 1 < len(values) else None
        if following and _is_between(text, value, following):
            skip = index + 1
            found.extend(_between(text, value, following))
            continue
        choice = choose_column(text, value, found)
        if choice is None:
            continue
        if full := _full_name(text, value, choice):
            text.use(value.start, value.end)
            found.extend(full)
            continue
        condition = test_of(text, value, choice)
        if value.is_number and choice.sure < 0.3:
            continue
        text.use(value.start, value.end)
        if choice.mention is not None:
            text.use(choice.mention.start, choice.mention.end)
        found.append(condition)
    return tuple(found)


def _hinted(text: QuestionText) -> list[Condition]:
    """Return the conditions that the evidence spells out."""
    found = []
    for hint in text.hints:
        if hint.condition is not None and _is_counted(text, hint.condition):
            text.use(hint.start, hint.end)
        elif hint.condition is not None:
            column = hint.condition.columns[0]
            found.append(Condition(column, _bracketed(hint.condition), "evidence", hint.start, hint.end, 1.0))
            text.use(hint.start, hint.end)
    return found


def _is_counted(text: QuestionText, condition: Expression) -> bool:
    """Whether a formula of the evidence counts the rows that meet a condition, so that no other may be left out."""
    wanted = "".join(map(str, condition.parts))
    return any(hint.formula and wanted in "".join(map(str, hint.formula.parts)) for hint in text.hints)


def _bracketed(condition: Expression) -> Expression:
    """Put a condition that holds OR into parentheses."""
    if any(isinstance(part, str) and " OR " in part for part in condition.parts):
        return Expression(("(", *condition.parts, ")"))
    return condition


def _missing(text: QuestionText) -> list[Condition]:
    """Read "have no e-mail address", "the cause is unknown": the column is NULL."""
    found = []
    for place in text.find(_NOTHING):
        column = next((m for m in text.columns if m.start == place.end and m.score >= 0.9), None)
        found.extend(_null(text, column, place.start, place.end))
    for place in text.find(_UNKNOWN):
        column = next((m for m in text.columns if m.end == place.start and m.score >= 0.9), None)
        found.extend(_null(text, column, place.start, place.end))
    return found


def _null(text: QuestionText, mention: ColumnMention | None, start: int, end: int) -> list[Condition]:
    """Return the condition that a column is NULL, unless a table goes by the same words."""
    if mention is None or not text.free(min(start, mention.start), max(end, mention.end)):
        return []
    if any(
        table.start < mention.end and mention.start < table.end for table in text.tables if table.score >= 0.9
    ):
        return []
    column = text.resolve(mention)
    text.use(min(start, mention.start), max(end, mention.end))
    return [Condition(column, Expression((column, " IS NULL")), "IS NULL", start, end, 1.0)]


def _full_name(text: QuestionText, value: Value, choice: Choice) -> list[Condition]:
    """Return the conditions on first and last name that "Linda Smith" stands for, where the two are columns."""
    names = text.name_columns(choice.column.table)
    words = value.text.split()
    if len(names) != 2 or choice.column not in names or len(words) != 2 or value.columns:
        return []
    return [
        Condition(name, compare(plain(name), "=", literal(word)), "=", value.start, value.end, choice.sure)
        for name, word in zip(names, words, strict=True)
    ]


def _is_between(text: QuestionText, low: Value, high: Value) -> bool:
    """Whether two values are the ends of a range."""
    gap = text.between(low.end, high.start)
    before = text.between(low.start - 3, low.start)
    return (
        gap in ("and", "to", "-")
        and bool(
            re.search(r"(?:between|range|range of|within|from)(?: the)?(?: years?| age| range of)?$", before)
        )
    ) or (gap in ("to", "-") and low.is_number and high.is_number)


def _between(text: QuestionText, low: Value, high: Value) -> list[Condition]:
    choice = choose_column(text, low, [])
    if choice is None:
        return []
    ends = [as_literal(text, choice.column, value) for value in (low, high)]
    text.use(low.start, high.end)
    if choice.mention is not None:
        text.use(choice.mention.start, choice.mention.end)
    left = plain(choice.column) if not needs_year(text, choice.column, low) else year_of(choice.column)
    test = Expression((*left.parts, f" BETWEEN {ends[0]} AND {ends[1]}"))
    return [Condition(choice.column, test, "BETWEEN", low.start, high.end, choice.sure)]


def _averages(text: QuestionText) -> list[Condition]:
    """Read "above the average age" and its like."""
    found = []
    for place in text.find(_AVERAGE):
        if not text.free(place.start, place.end):
            continue
        operator = (
            "<"
            if re.match("below|under|lower|less|smaller|younger|shorter|fewer|cheaper", place.match["op"])
            else ">"
        )
        word = place.match["function"]
        function = (
            "MAX" if word in ("maximum", "highest") else "MIN" if word in ("minimum", "lowest") else "AVG"
        )
        after = next((m for m in text.columns if place.end <= m.start <= place.end + 2), None)
        before = next(
            (m for m in reversed(text.columns) if m.end <= place.start and place.start - m.end < 3), None
        )
        hints = COMPARATIVES.get(place.match["op"].split()[0], ("", ()))[1]
        hinted = hinted_column(text.schema, hints, text.subject) if after is None and before is None else None
        mention = after or before
        if mention is None and hinted is None:
            continue
        column = text.resolve(mention) if mention else hinted[0] if hinted else None
        assert column is not None
        inner = Query((call(function, column),))
        text.use(place.start, place.end)
        for used in (after, before):
            if used is not None and (used is mention or set(used.columns) & {column}):
                text.use(used.start, used.end)
        found.append(
            Condition(column, compare(plain(column), operator, inner), operator, place.start, place.end, 1.0)
        )
    return found
