"""WHERE as a question asks for it."""

import re
from collections.abc import Sequence

from sqlglot import exp

from tasks.backbone.offline.clauses.comparing import as_literal, condition_of, needs_year, year_of
from tasks.backbone.offline.english.lexicon import COMPARATIVES
from tasks.backbone.offline.query import Query, call, columns_of, compare, plain
from tasks.backbone.offline.question.naming import hinted_column
from tasks.backbone.offline.question.text import QuestionText
from tasks.backbone.offline.question.value_columns import Choice, Condition, choose_column
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
_RANGE = re.compile(r"(?:between|range|range of|within|from)(?: the)?(?: years?| age| range of)?$")


def read_conditions(text: QuestionText, values: Sequence[Value]) -> tuple[Condition, ...]:
    """Return the conditions on values that no other clause has used; their tokens are used up."""
    found = [*_hinted(text), *_averages(text), *_missing(text)]
    for index, value in enumerate(values):
        choice = choose_column(text, value, found) if text.free(value.start, value.end) else None
        if choice is None:
            continue
        following = values[index + 1] if index + 1 < len(values) else value
        gap = text.between(value.end, following.start)
        if gap in ("and", "to", "-") and _RANGE.search(text.between(value.start - 3, value.start)):
            found.append(_between(text, choice, value, following))
        else:
            found.append(condition_of(text, value, choice))
        text.use(value.start, value.end)
        if choice.mention is not None:
            text.use(choice.mention.start, choice.mention.end)
    return tuple(found)


def _hinted(text: QuestionText) -> list[Condition]:
    """Return the conditions that the evidence spells out, but for those that a formula counts."""
    found = []
    formulas = [hint.formula.sql() for hint in text.hints if hint.formula]
    for hint in text.hints:
        if hint.condition is not None:
            text.use(hint.start, hint.end)
            if not any(hint.condition.sql() in formula for formula in formulas):
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


def _between(text: QuestionText, choice: Choice, low: Value, high: Value) -> Condition:
    text.use(low.start, high.end)
    column = choice.column
    left = year_of(column) if needs_year(text, column, low) else plain(column)
    ends = [as_literal(text, column, value) for value in (low, high)]
    return Condition(
        column, exp.Between(this=left, low=ends[0], high=ends[1]), "BETWEEN", low.start, high.end
    )


def _averages(text: QuestionText) -> list[Condition]:
    """Read "above the average age" and its like."""
    found = []
    for place in text.find(_AVERAGE):
        mentions = [
            m for m in text.columns if place.end <= m.start <= place.end + 2 or 0 <= place.start - m.end < 3
        ]
        hinted = hinted_column(text.schema, COMPARATIVES.get(place.match["op"].split()[0], ()), text.subject)
        if not text.free(place.start, place.end) or not (mentions or hinted):
            continue
        column = text.resolve(mentions[-1]) if mentions else hinted[0] if hinted else None
        assert column is not None
        for start, end in ((place.start, place.end), *((m.start, m.end) for m in mentions[-1:])):
            text.use(start, end)
        operator = "<" if re.match(_LESS, place.match["op"]) else ">"
        inner = exp.Subquery(this=Query((call("AVG", column),)).build(text.schema))
        found.append(
            Condition(column, compare(plain(column), operator, inner), operator, place.start, place.end)
        )
    return found
