"""WHERE as a question asks for it."""

import re
from collections.abc import Sequence

from sqlglot import exp

from tasks.backbone.offline.clauses.comparing import condition_of
from tasks.backbone.offline.question.query import Query, call, columns_of, compare, plain
from tasks.backbone.offline.question.text import QuestionText
from tasks.backbone.offline.question.value_columns import Condition, choose_column
from tasks.backbone.offline.question.values import Value

_NOTHING = (
    r"(?:(?:have|has|had|with|carry|carries|there is) no(?: known)?|without(?: an?| any)?"
    r"|(?:do|does|did) not have(?: an?| any)?|not know(?: the)?|unknown|is no|(?:have|has|had) not(?: yet)?(?: been)?)"
)
_LESS = r"below|under|lower|less|smaller|younger|shorter|fewer|cheaper"
_AVERAGE = (
    rf"(?P<op>above|over|exceeds?|(?:{_LESS}|higher|greater|more|larger|older|longer|bigger|taller|heavier)(?: than)?)"
    r"(?: the| their| its| that of the)?(?: overall)? (?:average|mean)"
)


def read_conditions(text: QuestionText, values: Sequence[Value]) -> tuple[Condition, ...]:
    """Return the conditions on values that no other clause has used; their tokens are used up."""
    found = [*_hinted(text), *_averages(text), *_missing(text)]
    for value in values:
        choice = choose_column(text, value, found) if text.free(value.start, value.end) else None
        if choice is None:
            continue
        found.append(condition_of(text, value, choice))
        text.use(value.start, value.end)
        if choice.mention is not None:
            text.use(choice.mention.start, choice.mention.end)
    return tuple(found)


def _hinted(text: QuestionText) -> list[Condition]:
    """Return the conditions that the evidence spells out."""
    found = []
    for hint in text.hints:
        if hint.condition is not None:
            text.use(hint.start, hint.end)
            column = columns_of(hint.condition)[0]
            found.append(Condition(column, hint.condition, "evidence", hint.start, hint.end))
    return found


def _missing(text: QuestionText) -> list[Condition]:
    """Read "have no e-mail address": the column is NULL, unless a table goes by the same words."""
    found = []
    for place in text.find(_NOTHING):
        mention = next((m for m in text.columns if m.start == place.end and m.score >= 0.9), None)
        table = text.table_at(place.end, reach=1)
        if mention and text.free(place.start, mention.end) and (table is None or table.score < 0.9):
            column = text.resolve(mention)
            text.use(place.start, mention.end)
            test = exp.Is(this=plain(column), expression=exp.null())
            found.append(Condition(column, test, "IS NULL", place.start, place.end))
    return found


def _averages(text: QuestionText) -> list[Condition]:
    """Read "above the average age" and its like."""
    found = []
    for place in text.find(_AVERAGE):
        mention = next((m for m in text.columns if -3 <= m.start - place.end <= 2), None)
        if mention and text.free(place.start, place.end):
            column = text.resolve(mention)
            text.use(place.start, mention.end)
            operator = "<" if re.match(_LESS, place.match["op"]) else ">"
            inner = exp.Subquery(this=Query((call("AVG", column),)).build(text.schema))
            test = compare(plain(column), operator, inner)
            found.append(Condition(column, test, operator, place.start, place.end))
    return found
