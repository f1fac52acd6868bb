"""How a value is compared with its column: the operator, LIKE patterns, years and dates kept as text."""

import re

from tasks.backbone.offline.query import Expression, compare, literal, plain
from tasks.backbone.offline.text import QuestionText
from tasks.backbone.offline.value_columns import Choice, Condition
from tasks.backbone.offline.values import Value
from tasks.records import ColumnName

_TAIL = r"(?: (?:the|a|an|year|years|age|of|in|that|to|\$|value|amount|date|day|month|score))*$"
_OPERATORS = tuple(
    (re.compile(rf"(?:{pattern}){_TAIL}"), operator)
    for pattern, operator in (
        (
            r"(?:no|not) (?:more|greater|larger|higher|older|later|longer) than|at most|up to"
            r"|(?:less|lower|fewer|smaller) than or equal to|maximum of",
            "<=",
        ),
        (
            r"(?:no|not) (?:less|fewer|lower|smaller|younger|earlier) than|at least"
            r"|(?:more|greater|larger|higher) than or equal to|minimum of|on or after|since|starting from",
            ">=",
        ),
        (
            r"(?:more|greater|higher|larger|bigger|older|longer|heavier|taller|later|better|faster|farther|further)"
            r" (?:\w+ )?than|above|over|after|exceeds?|exceeding|exceeded|beyond|surpass\w*",
            ">",
        ),
        (
            r"(?:less|fewer|lower|smaller|younger|shorter|lighter|cheaper|earlier|slower|worse) (?:\w+ )?than"
            r"|below|under|before|prior to|until",
            "<",
        ),
        (
            r"(?:(?:do|does|did) not \w+|not|other than|different from|except|except for|excluding|besides|outside"
            r"|outside of)"
            r"(?: (?:in|from|of|the|equal|to|be|is|at|located|any|have|has|named|called|with|by|on))*",
            "!=",
        ),
    )
)
_AFTER = (
    (
        re.compile(
            r"^(?:\w+ )?or (?:more|above|higher|later|older|greater|over|after|newer|larger)\b(?! than| <n>)"
        ),
        ">=",
    ),
    (
        re.compile(
            r"^(?:\w+ )?or (?:less|fewer|lower|below|earlier|younger|smaller|under|before)\b(?! than| <n>)"
        ),
        "<=",
    ),
)
_CONTAINS = re.compile(
    r"\b(?:contain\w*|includ\w*|substring|words?|letters?|(?:has|with) the phrase|phrase|like|the string)\b"
)
_STARTS = re.compile(r"\b(?:start\w*|begin\w*|prefix|prefixed)\b")
_ENDS = re.compile(r"\b(?:end|ends|ending|ended|suffix)\b")
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_DATE = re.compile(r"\d{4}-\d\d(?:-\d\d)?")


def test_of(text: QuestionText, value: Value, choice: Choice) -> Condition:
    """Compare a column with a value as the words around it say."""
    column = choice.column
    before = text.between(value.start - 7, value.start)
    if choice.mention is not None and choice.mention.end <= value.start:
        before = text.between(choice.mention.end, value.start) or "is"
        lead = text.between(choice.mention.start - 3, choice.mention.start)
        if re.search(r"(?:not|n't)(?: have| has)?(?: the| a| an)?$", lead):
            before = "not " + before
    operator = next((op for pattern, op in _OPERATORS if pattern.search(before)), "=")
    if operator == "=" and choice.mention is not None and choice.mention.end <= value.start:
        lead = text.between(choice.mention.start - 3, choice.mention.start)
        operator = next((op for pattern, op in _OPERATORS if pattern.search(lead)), "=")
    rest = text.between(value.end, value.end + 4)
    operator = next((op for pattern, op in _AFTER if pattern.search(rest)), operator)
    near = text.between(value.start - 6, value.start)
    pattern = ""
    if not value.is_number or _CONTAINS.search(near):
        if _STARTS.search(near) and "with" in near:
            pattern = value.text + "%"
        elif _ENDS.search(near) and "with" in near:
            pattern = "%" + value.text
        elif _CONTAINS.search(near):
            pattern = "%" + value.text + "%"
    if pattern:
        like = "NOT LIKE" if operator == "!=" else "LIKE"
        return Condition(
            column, compare(plain(column), like, literal(pattern)), like, value.start, value.end, choice.sure
        )
    left = plain(column)
    if needs_year(text, column, value):
        if operator == "=":
            test = compare(left, "LIKE", literal(f"%{value.text}%"))
            return Condition(column, test, "LIKE", value.start, value.end, choice.sure)
        left = year_of(column)
        return Condition(
            column,
            compare(left, operator, literal(value.text)),
            operator,
            value.start,
            value.end,
            choice.sure,
        )
    samples = text.schema.column(column).samples
    if (
        operator == "="
        and _DATE.fullmatch(value.text)
        and samples
        and all(len(one) > len(value.text) for one in samples)
    ):
        test = compare(left, "LIKE", literal(value.text + "%"))
        return Condition(column, test, "LIKE", value.start, value.end, choice.sure)
    test = compare(left, operator, as_literal(text, column, value))
    return Condition(column, test, operator, value.start, value.end, choice.sure)


def as_literal(text: QuestionText, column: ColumnName, value: Value) -> str:
    """Return a value as the column keeps it: as a number unless it was said as text."""
    if value.is_number and re.match(r"0\d", value.text):
        return literal(value.text)
    if (
        not value.is_number
        and re.fullmatch(r"-?\d+(?:\.\d+)?", value.text)
        and text.schema.column(column).kind == "number"
    ):
        return value.text
    return literal(value.text, number=value.is_number)


def needs_year(text: QuestionText, column: ColumnName, value: Value) -> bool:
    """Whether a year is compared with a column of whole dates."""
    if not (value.is_number and re.fullmatch(r"(?:1[5-9]|20)\d\d", value.text)):
        return False
    samples = text.schema.column(column).samples
    return bool(samples) and all(re.search(r"\d{4}-\d\d", sample) for sample in samples)


def year_of(column: ColumnName) -> Expression:
    """Return the year of a date kept as text."""
    return Expression(("STRFTIME('%Y', ", column, ")"))
