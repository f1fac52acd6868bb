"""Tables and columns of a SQL by both definitions and as DAC reads them, and the columns that it mentions."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.benchmarks.schemas import read_schemas
from tasks.database.schema import Column, Schema, Table
from tasks.sql.elements import (
    Elements,
    columns_mentioned,
    cross_elements,
    mentions_substring,
    mentions_word,
    resolved_elements,
    used_elements,
)
from tasks.sql.skeleton import read_skeleton
from tests.support.pairs import Pair, read_pairs

FIXTURES = Path(__file__).parent / "fixtures"


def table(name: str, *columns: str) -> Table:
    return Table(name, tuple(Column(column) for column in columns))


SCHEMA = Schema(
    "concerts",
    (
        table("singer", "id", "Name", "Country"),
        table("concert", "id", "singer_id", "year"),
        table("song list", "song name", "order"),
    ),
    dialect="sqlite",
)
DAC_SCHEMA = Schema(
    "concerts",
    (
        table("singer", "id", "Name", "Country", "age"),
        table("concert", "id", "singer_id", "year", "kind"),
        table("song list", "song name", "order", "singer id"),
        table("person", "id", "parent_id", "name"),
    ),
    dialect="sqlite",
)


def pairs(name: str) -> pytest.MarkDecorator:
    cases = read_pairs(FIXTURES / name)
    return pytest.mark.parametrize("pair", cases, ids=[case.title for case in cases])


def shown(found: Elements) -> str:
    return f"{' '.join(found.tables)} | {' '.join(map(str, found.columns))}".rstrip()


@pairs("elements.txt")
def test_elements_by_both_definitions(pair: Pair) -> None:
    cross, resolved = cross_elements(pair.given, SCHEMA), resolved_elements(pair.given, SCHEMA)
    assert f"cross: {shown(cross)}\nresolved: {shown(resolved)}" == pair.expected


@pairs("dac_elements.txt")
def test_used_elements_leave_out_what_only_joins(pair: Pair) -> None:
    assert shown(used_elements(pair.given, DAC_SCHEMA)) == pair.expected


def test_the_elements_of_a_query_that_cannot_be_read_are_the_names_in_its_text() -> None:
    used = used_elements("SELECT Name FROM singer WHERE WHERE age", DAC_SCHEMA)
    assert used == used_elements("SELECT Name, age FROM singer", DAC_SCHEMA)


def test_parentheses_beyond_the_parsers_depth_degrade_to_a_guess() -> None:
    deep = "SELECT name FROM singer WHERE " + "(" * 5000 + "id" + ")" * 5000 + " = 1"
    assert [str(c) for c in resolved_elements(deep, SCHEMA).columns] == ["singer.id", "singer.Name"]


def test_many_stars_behind_each_other_take_no_time() -> None:
    stars = "".join(f", a{i} AS (SELECT * FROM a{i - 1}, a{i - 1} AS b)" for i in range(1, 60))
    sql = f"WITH a0 AS (SELECT * FROM singer){stars} SELECT nothing, name FROM a59"
    started = time.process_time()
    assert [str(c) for c in resolved_elements(sql, SCHEMA).columns] == ["singer.Name"]
    assert time.process_time() - started < 5


@given(st.text(max_size=60))
def test_no_text_makes_any_definition_raise(text: str) -> None:
    for sql in (text, f"SELECT name FROM singer WHERE {text}", f"WITH {text} SELECT * FROM x"):
        cross_elements(sql, SCHEMA)
        resolved_elements(sql, SCHEMA)
        used_elements(sql, SCHEMA)
        columns_mentioned(sql, SCHEMA, "word")


WORDS = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "JOIN", "ON", "GROUP BY", "ORDER BY", "DESC", "LIMIT", "NOT", "IN", "IS",
    "NULL", "LIKE", "BETWEEN", "AND", "OR", "EXISTS", "CASE", "WHEN", "THEN", "END", "UNION", "OVER", "PARTITION BY",
    "(", ")", ",", ".", "*", "=", "-", "||", "id", "Name", "singer", "AS", "x", "'a'", "1", "count", "WITH",
)  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=25), st.sampled_from(("", "SELECT ")))
def test_no_jumble_of_words_makes_any_definition_raise(words: list[str], start: str) -> None:
    sql = start + " ".join(words)
    for elements in (cross_elements, resolved_elements, used_elements):
        assert set(elements(sql, SCHEMA).columns) <= set(SCHEMA.column_names)
    found = read_skeleton(sql, "sqlite")
    assert (found.text is None) == bool(found.reason)


@pytest.mark.parametrize(("match", "expected"), [
    ("substring", "singer.id singer.Name concert.id concert.singer_id concert.year"),
    ("word", "singer.Name concert.singer_id concert.year"),
    ("parsed", "singer.Name concert.singer_id"),
])  # fmt: skip
def test_backward_matches_differ_in_what_they_take_for_a_mention(match: str, expected: str) -> None:
    sql = "SELECT Name FROM singer JOIN concert ON singer_id = 5 WHERE 'a year' <> 'provided'"
    assert " ".join(map(str, columns_mentioned(sql, SCHEMA, match))) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "name", "word", "substring"), [
    ("SELECT id FROM t", "ID", True, True),
    ("provide", "id", False, True),
    ("t.id=1", "id", True, True),
    ("user_id", "id", False, True),
    ("`Free Meal Count (K-12)` / 2", "free meal count (k-12)", True, True),
    ("größe", "größ", False, True),
    ("anything", "", False, False),
])  # fmt: skip
def test_names_are_found_between_boundaries(text: str, name: str, word: bool, substring: bool) -> None:
    assert mentions_word(text, name) is word
    assert mentions_substring(text, name) is substring


def test_bird_dev_has_its_published_number_of_gold_columns(shared_data: Path) -> None:
    questions = json.loads((shared_data / "bird" / "dev.json").read_text())
    schemas = read_schemas(shared_data / "bird" / "dev_tables.json")
    cross = [cross_elements(q["SQL"], schemas[q["db_id"]]) for q in questions]
    resolved = [resolved_elements(q["SQL"], schemas[q["db_id"]]) for q in questions]
    assert sum(len(found.columns) for found in cross) == 7274  # 4.742 a question
    assert sum(len(found.columns) for found in resolved) == 6897
    assert all(set(one.columns) <= set(other.columns) for one, other in zip(resolved, cross, strict=True))
