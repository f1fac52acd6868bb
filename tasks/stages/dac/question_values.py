"""Values of the database that a question mentions, for the schema of DAC's prompts (section 3.1). No model call.

One query per table and no index: for each text column its values are compared, without regard to case, with the
runs of words of the question. Deviation: the paper fills up with random values; ours are those of the first rows,
so that prompts repeat.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from tasks.core.records import ColumnName, ColumnValues, Question
from tasks.database.identifiers import quoted
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema import Column, Schema, Table
from tasks.retrieval.masking import FUNCTION_WORDS
from tasks.stage_runs.stage import stage

LONGEST_RUN = 6
"""Words in a row that may be one value."""
MOST_WORDS = 200
"""Words of question and evidence that are looked at."""
COLUMNS_AT_ONCE = 100
"""Columns per query: SQLite allows 500 parts of a compound query."""

_WORD = re.compile(r"\w+(?:['’.]\w+)*")
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
"""SQLite's `lower` changes ASCII letters only."""


@dataclass(frozen=True, slots=True)
class QuestionValues:
    """Values that a question mentions."""

    columns: tuple[ColumnValues, ...] = ()  # the columns with a mentioned value, in schema order
    # tables that could not be searched (e.g. a timeout); they keep their sample rows.
    left_out: tuple[str, ...] = ()


@stage()
async def question_values(
    question: Question, schema: Schema, most: int, runner: DatabaseRunner
) -> QuestionValues:
    """Find the values of text columns that occur in the question or its evidence, as whole words.

    Up to `most` values per column; each search runs within the benchmark's time limit.
    """
    phrases = phrases_of(f"{question.text}\n{question.evidence}")
    places = {phrase: place for place, phrase in enumerate(phrases)}
    found: list[ColumnValues] = []
    left_out: dict[str, None] = {}
    for table in schema.tables if phrases and most else ():
        columns = [column.name for column in table.columns if _holds_text(column)]
        for start in range(0, len(columns), COLUMNS_AT_ONCE):
            part = columns[start : start + COLUMNS_AT_ONCE]
            sql = _search(table, part, phrases, most, schema.dialect)
            result = await runner.run(sql, rows=most * len(part))
            if not result.ok:
                left_out[table.name] = None
            for place, name in enumerate(part):
                values = [str(value) for position, value in result.rows if position == place]
                if values:
                    values.sort(key=lambda value: (places.get(value.translate(_LOWER), len(places)), value))
                    found.append(ColumnValues(ColumnName(table.name, name), tuple(values)))
    return QuestionValues(tuple(found), tuple(left_out))


def with_mentioned_values(schema: Schema, found: QuestionValues, most: int) -> Schema:
    """Return the schema with the mentioned values before its samples: up to `most` different ones per column."""
    mentioned = {one.column: one.values for one in found.columns}

    def samples(name: ColumnName, column: Column) -> tuple[Any, ...]:
        values = dict.fromkeys((*mentioned.get(name, ()), *(v for v in column.samples if v is not None)))
        return tuple(values)[:most]

    return schema.with_samples(samples)


def phrases_of(text: str) -> tuple[str, ...]:
    """Return the runs of words in a text that may be values, in order of place, longer ones first, in lower case.

    >>> phrases_of("Is it in New York?")
    ('is it in new york', 'is it in new', 'it in new york', 'it in new', 'in new york', 'in new', 'new york', 'new', \
'york')
    """
    words = list(_WORD.finditer(text))[:MOST_WORDS]
    phrases: dict[str, None] = {}
    for start, first in enumerate(words):
        for last in reversed(words[start : start + LONGEST_RUN]):
            phrase = text[first.start() : last.end()].translate(_LOWER)
            if "\n" not in phrase and not all(w in FUNCTION_WORDS for w in _WORD.findall(phrase)):
                phrases[phrase] = None
    return tuple(phrases)


def _holds_text(column: Column) -> bool:
    declared = column.type.upper()
    if any(isinstance(value, str) for value in column.samples):
        return True
    return not declared or any(kind in declared for kind in ("CHAR", "TEXT", "CLOB", "STRING"))


def _search(table: Table, columns: list[str], phrases: Iterable[str], most: int, dialect: str) -> str:
    listed = ", ".join(f"({_literal(phrase)})" for phrase in phrases)
    return f"WITH said(v) AS (VALUES {listed}) " + " UNION ALL ".join(
        _parts(quoted(table.name, dialect), columns, most, dialect)
    )


def _parts(table: str, columns: list[str], most: int, dialect: str) -> Iterator[str]:
    for place, name in enumerate(columns):
        column = quoted(name, dialect)
        mentioned = (
            f"SELECT DISTINCT {column} AS v FROM {table} WHERE lower({column}) IN (SELECT v FROM said)"
        )
        yield f"SELECT {place}, v FROM ({mentioned} ORDER BY 1 LIMIT {most})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
