"""Which column a value of the question belongs to."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.backbone.offline.prompt.english import stems, words_of
from tasks.backbone.offline.question.mentions import ColumnMention
from tasks.backbone.offline.question.naming import CODE_STEMS
from tasks.backbone.offline.question.query import Expression
from tasks.backbone.offline.question.text import QuestionText
from tasks.backbone.offline.question.values import Value
from tasks.core.records import ColumnName

_DIRECT = words_of("is are was were = equals named called being as")
_TIGHT = _DIRECT | words_of(
    """
    be equal than contain contains containing include includes including word letter substring starting starts start
    begin begins beginning ending ends end between exceeding exceeds above below over under least most value id code : (
    """
)
_LINK = _TIGHT | words_of(
    """
    of to values the a an in by on at more less fewer greater higher lower larger smaller from with either not no
    exactly has have had words letters string phrase title for all after before since both or that which i.e like older
    younger longer shorter later earlier does do other into type number date year 's , $
    """
)
"""Words that may stand between a column and its value; after one of `_TIGHT` nothing else is meant."""
_CONTINUED = re.compile(
    r"(?:(?:and|or|,|but) ?)+(?:(?:in|from|the|either|with|for|higher|lower|more|less|greater|larger|smaller|older"
    r"|younger|than|above|below|over|under|at|least|most|is|are|not|after|before|to) )*"
)
_CALLED = words_of("named called titled entitled")
_INTRODUCING = words_of("with whose where having has have a an and or")
_PLACES = stems(
    "city country location state nationality place county region headquarter hometown address origin venue"
)
_DATED = stems("year date time month day season")


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition, how its column is compared, and where its value was said."""

    column: ColumnName
    test: Expression
    operator: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Choice:
    """A column for a value, with the mention that says so."""

    column: ColumnName
    mention: ColumnMention | None = None


def choose_column(text: QuestionText, value: Value, earlier: Sequence[Condition]) -> Choice | None:
    """Choose the column of a value: what is said next to it first, samples next, then what fits its form."""
    before = next((m for m in reversed(text.columns) if m.end <= value.start), None)
    gap = [token.lower for token in text.tokens[before.end : value.start]] if before else []
    if before and (linked := _linked(text, value, before, gap)):
        return linked
    if earlier and _CONTINUED.fullmatch(text.between(earlier[-1].end, value.start) + " "):
        last = earlier[-1].column
        alike = earlier[-1].operator in ("=", "!=", "LIKE") or value.is_number
        if alike and (not value.columns or last in value.columns) and _fits(text, last, value):
            return Choice(last)
    if value.columns:
        return Choice(text.resolve(ColumnMention(value.start, value.end, value.columns, 1.0)))
    tables = list(dict.fromkeys((text.subject, *map(text.table_of, text.tables))))
    return _number_column(text, value, tables) if value.is_number else _name_column(text, value, tables)


def _linked(text: QuestionText, value: Value, before: ColumnMention, gap: Sequence[str]) -> Choice | None:
    """Return the column said before a value, where only words that link the two stand between them.

    A value may also name the owner, as in "the location of the club <v>", "the age of the one named <v>".
    """
    column = next((column for column in before.columns if column in value.columns), text.resolve(before))
    lead = {token.lower for token in text.tokens[max(before.start - 3, 0) : before.start]}
    owned = gap in (["of"], ["of", "the"]) and lead.isdisjoint(_INTRODUCING)
    named = not _CALLED.isdisjoint(gap) and not text.is_name(column)
    in_table = not gap and any(before.start < m.start and m.end == before.end for m in text.tables)
    if len(gap) > 7 or not _LINK.issuperset(gap) or (not value.is_number and (owned or named or in_table)):
        return None
    direct = not gap or gap[0] in _DIRECT
    tight = not gap or not _TIGHT.isdisjoint(gap) or value.is_number or not text.is_name(column)
    said = column in value.columns or (direct if value.columns else tight)
    return Choice(column, before) if said and _fits(text, column, value) else None


def _fits(text: QuestionText, column: ColumnName, value: Value) -> bool:
    """Whether a column may hold the value: a word is no number."""
    about = text.schema.column(column)
    if value.is_number:
        return about.kind != "text" or any(re.search(r"\d", sample) for sample in about.samples)
    return about.kind != "number" or not value.text[:1].isalpha()


def _column_with(text: QuestionText, tables: Sequence[str], wanted: Sequence[str]) -> Choice | None:
    columns = (
        column
        for table in tables
        for one in wanted
        for column in text.schema.columns_of(table)
        if one in column.stems
    )
    return next((Choice(column.name) for column in columns if column.stems[-1] not in CODE_STEMS), None)


def _number_column(text: QuestionText, value: Value, tables: Sequence[str]) -> Choice | None:
    """Choose the column of a bare number: one said near it that holds numbers, of a year one of dates."""
    near = [m for m in text.columns if 0 <= m.start - value.end <= 1 and m.score >= 0.6]
    year = re.fullmatch(r"(?:1[5-9]|20)\d\d", value.text)
    if (
        not near
        and year
        and (dated := _column_with(text, tables, _DATED[:1]) or _column_with(text, tables, _DATED))
    ):
        return dated
    near += [m for m in reversed(text.columns) if 0 <= value.start - m.end <= 4]
    numbers = ((text.resolve(m), m) for m in near)
    return next((Choice(*one) for one in numbers if text.schema.column(one[0]).kind == "number"), None)


def _name_column(text: QuestionText, value: Value, tables: Sequence[str]) -> Choice | None:
    placed = re.search(
        r"\b(?:in|from|at|of|located|outside)(?: the)?$", text.between(value.start - 3, value.start)
    )
    wanted = _DATED if re.match(r"\d{1,4}[-/]\d", value.text) else _PLACES if placed else ()
    if choice := _column_with(text, tables, wanted):
        return choice
    names = text.name_columns(tables[0])
    return Choice(names[0 if " " in value.text else -1]) if names else None
