"""How a value is compared with its column: the operator, LIKE patterns, years and dates kept as text."""

import re

from sqlglot import exp

from tasks.backbone.offline.question.query import Expression, compare, plain, text_literal
from tasks.backbone.offline.question.text import QuestionText
from tasks.backbone.offline.question.value_columns import Choice, Condition
from tasks.backbone.offline.question.values import Value
from tasks.core.records import ColumnName

_TAIL = r"(?: (?:the|a|an|year|years|age|of|in|that|to|\$|value|amount|date|day|month|score))*$"
_NEAR = 500
"""Characters before a value in which its operator is looked for."""
_MORE = "more|greater|larger|higher|older|later|longer|bigger|heavier|taller|better|faster|farther|further"
_LESS = "less|fewer|lower|smaller|younger|shorter|lighter|cheaper|earlier|slower|worse"
_OPERATORS = {
    "<=": rf"(?:no|not) (?:{_MORE}) than|at most|up to|(?:{_LESS}) than or equal to|maximum of",
    ">=": rf"(?:no|not) (?:{_LESS}) than|at least|(?:{_MORE}) than or equal to|minimum of|on or after|since",
    ">": rf"(?:{_MORE}) (?:\w+ )?than|above|over|after|exceeds?|exceeding|exceeded|beyond|surpass\w*",
    "<": rf"(?:{_LESS}) (?:\w+ )?than|below|under|before|prior to|until",
    "!=": r"(?:(?:do|does|did) not \w+|not|other than|different from|except|except for|excluding|besides|outside"
    r"|outside of)(?: (?:in|from|of|the|equal|to|be|is|at|located|any|have|has|named|called|with|by|on))*",
}
_CONTAINS = re.compile(
    r"\b(?:contain\w*|includ\w*|substring|words?|letters?|(?:has|with) the phrase|phrase|like|the string)\b"
)
_STARTS = re.compile(r"\b(?:start\w*|begin\w*|prefix|prefixed)\b")
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")


def condition_of(text: QuestionText, value: Value, choice: Choice) -> Condition:
    """Compare a column with a value as the words around it say."""
    column = choice.column
    left: Expression = plain(column)
    operator = _operator(text, value, choice)
    year = needs_year(text, column, value)
    if pattern := _pattern(text, value):
        operator, right = ("NOT LIKE" if operator == "!=" else "LIKE"), pattern
    elif year and operator == "=":
        operator, right = "LIKE", f"%{value.text}%"
    else:
        left = year_of(column) if year else left
        test = compare(left, operator, as_literal(text, column, value))
        return Condition(column, test, operator, value.start, value.end)
    return Condition(column, compare(left, operator, text_literal(right)), operator, value.start, value.end)


def _operator(text: QuestionText, value: Value, choice: Choice) -> str:
    before = text.between(value.start - 7, value.start)
    if choice.mention is not None and choice.mention.end <= value.start:
        lead = text.between(choice.mention.start - 3, choice.mention.start)
        negated = re.search(r"not(?: have| has)?(?: the| a| an)?$", lead)
        before = ("not " if negated else "") + (text.between(choice.mention.end, value.start) or "is")
    before = before[-_NEAR:]
    said = [op for op, words in _OPERATORS.items() if re.search(rf"(?:{words}){_TAIL}", before)]
    return said[0] if said else "="


def _pattern(text: QuestionText, value: Value) -> str:
    """Return the LIKE pattern that the words before a value ask for, "" for none."""
    near = text.between(value.start - 6, value.start)
    if _STARTS.search(near) and "with" in near and not value.is_number:
        return value.text + "%"
    return f"%{value.text}%" if _CONTAINS.search(near) else ""


def as_literal(text: QuestionText, column: ColumnName, value: Value) -> Expression:
    """Return a value as the column keeps it: as a number unless it was said as text, and years of dates as text."""
    number = re.fullmatch(r"-?\d+(?:\.\d+)?", value.text) and not re.match(r"0\d", value.text)
    as_number = value.is_number or text.schema.column(column).kind == "number"
    if number and as_number and not needs_year(text, column, value):
        return exp.Literal.number(value.text)
    return text_literal(value.text)


def needs_year(text: QuestionText, column: ColumnName, value: Value) -> bool:
    """Whether a year is compared with a column of whole dates."""
    samples = text.schema.column(column).samples
    is_year = value.is_number and bool(_YEAR.fullmatch(value.text))
    return is_year and bool(samples) and all(re.search(r"\d{4}-\d\d", sample) for sample in samples)


def year_of(column: ColumnName) -> Expression:
    """Return the year of a date kept as text."""
    return exp.Anonymous(this="STRFTIME", expressions=[text_literal("%Y"), plain(column)])
