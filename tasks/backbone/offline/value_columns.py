"""Which column a value of the question belongs to."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.backbone.offline.lexicon import COMPARATIVES, words_of
from tasks.backbone.offline.linking import ColumnMention
from tasks.backbone.offline.naming import hinted_column
from tasks.backbone.offline.query import Expression
from tasks.backbone.offline.text import QuestionText
from tasks.backbone.offline.values import Value
from tasks.backbone.offline.words import Token
from tasks.records import ColumnName

_LINK = re.compile(
    r"^(?:is|are|was|were|be|=|of|as|equal|equals|to|than|named|called|value|values|the|a|an|in|by|on|at|least|most|more|"
    r"less|fewer|greater|higher|lower|larger|smaller|above|below|over|under|between|from|with|either|not|no|exactly|has|"
    r"have|had|contain|contains|containing|include|includes|including|word|words|letter|letters|substring|string|"
    r"starting|starts|start|begin|begins|beginning|ending|ends|end|phrase|title|for|all|after|before|since|both|or|"
    r"that|which|i\.e|like|older|younger|longer|shorter|later|earlier|exceeding|exceeds|does|do|other|being|into|type|"
    r"code|id|number|date|year|'s|:|\(|,|\$)$"
)
_TIGHT = words_of(
    """
    is are was were be = equal equals than named called contain contains containing include includes including word
    letter substring starting starts start begin begins beginning ending ends end between exceeding exceeds being as
    above below over under least most value id code : ( "
    """
)
_CONTINUED = re.compile(
    r"(?:(?:and|or|,|but) ?)+(?:(?:in|from|the|either|with|for|higher|lower|more|less|greater|larger|smaller|older"
    r"|younger|than|above|below|over|under|at|least|most|is|are|not|after|before|to) )*"
)
_PLACES = (
    "citi", "countri", "location", "stat", "nationaliti", "plac", "counti", "region", "headquarter", "hometown",
    "address", "origin", "venu",
)  # fmt: skip
_DATED = ("year", "dat", "tim", "month", "day", "season")


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition with where it was said.

    Attributes:
        column: the column it is about.
        test: the condition as SQL.
        operator: how the column is compared.
        start: index of the value's first token.
        end: index after its last.
        sure: how certain the column is, in 0..1.
    """

    column: ColumnName
    test: Expression
    operator: str
    start: int
    end: int
    sure: float


@dataclass(frozen=True, slots=True)
class Choice:
    """A column for a value, with the mention that says so."""

    column: ColumnName
    sure: float
    mention: ColumnMention | None = None


def choose_column(text: QuestionText, value: Value, earlier: Sequence[Condition]) -> Choice | None:
    """Choose the column of a value: what is said next to it first, samples next, then what fits its form."""
    sampled = set(value.columns)
    before = next((m for m in reversed(text.columns) if m.end <= value.start), None)
    gap = text.tokens[before.end : value.start] if before else ()
    if before and not value.is_number and _is_owned(text, before, [token.lower for token in gap]):
        before = None
    after = next((m for m in text.columns if value.end <= m.start <= value.end + 1), None)
    tight = _is_tight(gap)
    if not tight and (beside := _beside(text, value, after)) is not None:
        return beside
    if before and len(gap) <= 7 and all(_LINK.match(t.lower) for t in gap):
        fitting = [c for c in before.columns if c in sampled]
        column = fitting[0] if len(fitting) == 1 else text.resolve(before)
        direct = not gap or gap[0].lower in (
            "is",
            "are",
            "was",
            "were",
            "=",
            "equals",
            "named",
            "called",
            "being",
            "as",
        )
        told = fitting or (direct if sampled else tight or value.is_number or not text.is_name(column))
        if told and _fits(text, column, value):
            return Choice(column, 1.0, before)
    if earlier and _CONTINUED.fullmatch(text.between(earlier[-1].end, value.start) + " "):
        last = earlier[-1]
        alike = last.operator in ("=", "!=", "LIKE") or value.is_number
        if (not sampled or last.column in sampled) and _fits(text, last.column, value) and alike:
            return Choice(last.column, 0.9)
    if (beside := _beside(text, value, after)) is not None:
        return beside
    if sampled:
        return Choice(_nearest(text, value), 0.95)
    comparative = COMPARATIVES.get(text.between(value.start - 1, value.start)) or COMPARATIVES.get(
        text.between(value.start - 2, value.start - 1)
    )
    owner = _owner(text, value)
    if comparative and (hinted := hinted_column(text.schema, comparative[1], owner)):
        return Choice(hinted[0], 0.8)
    if comparative and value.is_number and (anywhere := _hinted_anywhere(text, comparative[1])):
        return Choice(anywhere, 0.6)
    if value.is_number:
        return _number_column(text, value, after, owner)
    return _name_column(text, value, owner)


def _is_tight(gap: Sequence[Token]) -> bool:
    """Whether nothing, or a verb or comparison, stands between a column and a value: not "the names from France"."""
    words = [token.lower for token in gap]
    return not words or any(word in _TIGHT for word in words)


def _beside(text: QuestionText, value: Value, mention: ColumnMention | None) -> Choice | None:
    """Return the column that is said right behind a value: "the <v> committee"."""
    if mention is None or mention.start != value.end or mention.score < 0.6 or value.is_number:
        return None
    column = text.resolve(mention)
    if not _fits(text, column, value) or (value.columns and column not in value.columns):
        return None
    return Choice(column, 0.9, mention)


def _is_owned(text: QuestionText, mention: ColumnMention, gap: list[str]) -> bool:
    """Whether a value names the owner, not the column: "the location of the club <v>", "the age of the one named"."""
    if gap in (["of"], ["of", "the"]) and not _is_condition(text, mention):
        return True
    by_name = any(word in ("named", "called", "titled", "entitled") for word in gap)
    ends_in_table = any(
        mention.start < m.start and m.end == mention.end and m.score >= 0.9 for m in text.tables
    )
    return (by_name and not text.is_name(text.resolve(mention))) or (ends_in_table and not gap)


def _is_condition(text: QuestionText, mention: ColumnMention) -> bool:
    """Whether a column is introduced as a condition, as in "with a capacity of"."""
    lead = [token.lower for token in text.tokens[max(mention.start - 3, 0) : mention.start]]
    return any(
        word in ("with", "whose", "where", "having", "has", "have", "a", "an", "and", "or") for word in lead
    )


def _fits(text: QuestionText, column: ColumnName, value: Value) -> bool:
    """Whether a column may hold the value: a word is no number."""
    kind = text.schema.column(column).kind
    if value.is_number:
        samples = text.schema.column(column).samples
        return kind != "text" or any(re.search(r"\d", sample) for sample in samples)
    return kind != "number" or not value.text[:1].isalpha()


def _nearest(text: QuestionText, value: Value) -> ColumnName:
    """Choose among the columns whose samples hold a value."""
    mention = ColumnMention(value.start, value.end, value.columns, 1.0)
    return text.resolve(mention)


def _owner(text: QuestionText, value: Value) -> str:
    """Return the table that a value most likely belongs to: the one said last before it, else the subject."""
    before = [m for m in text.tables if m.end <= value.start and value.start - m.end <= 6]
    return text.table_of(before[-1]) if before else text.subject


def _hinted_anywhere(text: QuestionText, hints: tuple[str, ...]) -> ColumnName | None:
    for mention in text.tables:
        if hinted := hinted_column(text.schema, hints, text.table_of(mention)):
            return hinted[0]
    return None


def _number_column(
    text: QuestionText, value: Value, after: ColumnMention | None, owner: str
) -> Choice | None:
    """Choose the column of a bare number."""
    if after is not None and text.schema.column(text.resolve(after)).kind == "number" and after.score >= 0.6:
        return Choice(text.resolve(after), 0.8, after)
    if re.fullmatch(r"(?:1[5-9]|20)\d\d", value.text):
        tables = dict.fromkeys([owner, text.subject, *(text.table_of(m) for m in text.tables)])
        for stems in (("year",), _DATED):
            for name in tables:
                table = text.schema.table(name)
                for column in table.columns if table else ():
                    if set(stems) & set(column.stems) and "id" not in column.stems:
                        return Choice(column.name, 0.7)
    before = next(
        (m for m in reversed(text.columns) if m.end <= value.start and value.start - m.end <= 4), None
    )
    if before is not None and text.schema.column(text.resolve(before)).kind == "number":
        return Choice(text.resolve(before), 0.5, before)
    beside = text.table_at(value.start - 1, reach=0) or next(
        (m for m in text.tables if m.end == value.start), None
    )
    if beside is not None and (key := text.key(text.table_of(beside))):
        return Choice(key, 0.5)
    return None


def _name_column(text: QuestionText, value: Value, owner: str) -> Choice | None:
    """Choose the column of a name that no sample holds."""
    previous = text.between(value.start - 3, value.start)
    dated = re.match(r"\d{1,4}[-/]\d", value.text)
    tables = dict.fromkeys([owner, text.subject, *(text.table_of(m) for m in text.tables)])
    if re.search(r"(?:named|called|titled|name|title)(?: is| of| as)?$", previous):
        names = text.name_columns(owner)
        return (
            Choice(names[-1] if len(names) > 1 and " " not in value.text else names[0], 0.9)
            if names
            else None
        )
    wanted = (
        _DATED
        if dated
        else _PLACES
        if re.search(r"\b(?:in|from|at|of|located|outside)(?: the)?$", previous)
        else ()
    )
    for name in tables:
        table = text.schema.table(name)
        for stems in wanted:
            for column in table.columns if table else ():
                if stems in column.stems and column.stems[-1] not in ("id", "cod"):
                    return Choice(column.name, 0.6)
    beside = next((m for m in text.tables if m.end == value.start or m.start == value.end), None)
    names = text.name_columns(text.table_of(beside) if beside else owner)
    if not names:
        return None
    return Choice(names[0], 0.6 if beside else 0.4)
