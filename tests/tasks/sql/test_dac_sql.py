"""Skeletons and used elements by text pairs, as DAC compares them, and what holds for all of them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.database.schema import Column, Schema, Table
from tasks.sql.elements import used_elements
from tasks.sql.skeleton import read_skeleton, skeleton, skeleton_length
from tests.support.pairs import Pair, read_pairs

FIXTURES = Path(__file__).parent / "fixtures"
SKELETONS = read_pairs(FIXTURES / "dac_skeleton.txt")
ELEMENTS = read_pairs(FIXTURES / "dac_elements.txt")


def table(name: str, *columns: str) -> Table:
    return Table(name, tuple(Column(column) for column in columns))


SCHEMA = Schema(
    "concerts",
    (
        table("singer", "id", "Name", "Country", "age"),
        table("concert", "id", "singer_id", "year", "kind"),
        table("song list", "song name", "order", "singer id"),
        table("person", "id", "parent_id", "name"),
    ),
    dialect="sqlite",
)


@pytest.mark.parametrize("pair", SKELETONS, ids=[case.title for case in SKELETONS])
def test_a_skeleton_keeps_structure_and_drops_names_and_values(pair: Pair) -> None:
    assert str(skeleton(pair.given, "sqlite")) == pair.expected


@pytest.mark.parametrize("pair", ELEMENTS, ids=[case.title for case in ELEMENTS])
def test_used_elements_leave_out_what_only_joins(pair: Pair) -> None:
    found = used_elements(pair.given, SCHEMA)
    assert f"{' '.join(found.tables)} | {' '.join(map(str, found.columns))}".rstrip() == pair.expected


def test_the_specs_example() -> None:
    sql = (
        "SELECT T1.name, count(*) FROM singer AS T1 JOIN concert AS T2 ON T1.id = T2.singer_id WHERE T2.year > 2013 "
        "GROUP BY T1.id HAVING count(*) > 2 ORDER BY count(*) DESC LIMIT 3"
    )
    assert skeleton(sql, "sqlite") == (
        "select _ , count ( * ) from _ join _ where _ > _ group by _ having count ( * ) > _ "
        "order by count ( * ) desc limit _"
    )


@pytest.mark.parametrize(
    ("sql", "other", "same"),
    [
        ("SELECT a FROM t WHERE b IS NULL", "SELECT a FROM t WHERE b IS NOT NULL", False),
        ("SELECT a FROM t WHERE NOT b IN (1)", "SELECT x FROM z WHERE w NOT IN (2, 3)", True),
        ("SELECT a FROM t", "SELECT a, b FROM t", False),
        ("SELECT a FROM t GROUP BY a, b", "SELECT a FROM t GROUP BY a", False),
        ("SELECT a FROM t ORDER BY b", "SELECT a FROM t ORDER BY b ASC", True),
        ("SELECT a FROM t ORDER BY b", "SELECT a FROM t ORDER BY b DESC", False),
        ("SELECT a FROM t JOIN u ON t.x = u.x", "SELECT a FROM t LEFT JOIN u USING (x)", True),
        ("SELECT a FROM t", "SELECT a FROM t JOIN u", False),
        ("SELECT DISTINCT a FROM t", "SELECT a FROM t", False),
        ("SELECT a FROM t LIMIT 1", "SELECT a FROM t", False),
        ("SELECT a, b / c FROM t", "SELECT a / b FROM t", False),
        ("not SQL", "not SQL", False),
    ],
)
def test_same_skeleton(sql: str, other: str, same: bool) -> None:
    first, second = skeleton(sql, "sqlite"), skeleton(other, "sqlite")
    assert (first is not None and first == second) is same


def test_length_counts_tokens() -> None:
    assert skeleton_length("select _ , count ( * ) from _") == 9


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "no statement"),
        ("DROP TABLE t", "not a query: drop"),
        ("SELECT", "it selects nothing"),
        ("SELECT a FROM t WHERE (b", "Expecting )"),
        ("SELECT a FROM t WHERE " + "(" * 3000 + "b" + ")" * 3000, "longer than 2,500 tokens"),
    ],
)
def test_what_has_no_skeleton_says_why(sql: str, reason: str) -> None:
    reading = read_skeleton(sql, "sqlite")
    assert reading.text is None
    assert reason in reading.reason


def test_the_elements_of_a_query_that_cannot_be_read_are_the_names_in_its_text() -> None:
    used = used_elements("SELECT Name FROM singer WHERE WHERE age", SCHEMA)
    assert used == used_elements("SELECT Name, age FROM singer", SCHEMA)


def test_skeletons_of_real_gold_are_skeletons_of_themselves(shared_data: Path) -> None:
    import json

    questions = json.loads((shared_data / "spider" / "dev.json").read_text())
    for question in questions[::7]:
        first = skeleton(question["query"], "sqlite")
        assert first is not None
        assert skeleton(first.replace("join _ ", "join _ on _ = _ "), "sqlite") == first


@given(st.text(max_size=80))
def test_no_text_makes_either_raise(text: str) -> None:
    for sql in (text, f"SELECT a FROM t WHERE {text}", f"WITH {text} SELECT * FROM x"):
        assert (read_skeleton(sql, "sqlite").text is None) == bool(read_skeleton(sql, "sqlite").reason)
        used_elements(sql, SCHEMA)


WORDS = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "JOIN", "ON", "GROUP BY", "ORDER BY", "DESC", "LIMIT", "NOT", "IN", "IS",
    "NULL", "LIKE", "BETWEEN", "AND", "OR", "EXISTS", "CASE", "WHEN", "THEN", "END", "UNION", "OVER", "PARTITION BY",
    "(", ")", ",", ".", "*", "=", "-", "||", "id", "Name", "singer", "AS", "x", "'a'", "1", "count", "WITH",
)  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=25))
def test_no_jumble_of_words_makes_either_raise(words: list[str]) -> None:
    found = read_skeleton(f"SELECT {' '.join(words)}", "sqlite")
    assert (found.text is None) == bool(found.reason)
    assert set(used_elements(f"SELECT {' '.join(words)}", SCHEMA).columns) <= set(SCHEMA.column_names)
