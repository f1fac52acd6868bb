"""Functions of a SQL's text, by text pairs in fixtures/: skeletons, hardness, and rewritten SQL."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.benchmarks.schemas import read_schemas
from tasks.database.schema import Column, Schema, Table
from tasks.sql.clauses import hardness
from tasks.sql.rewriting import ordering, without_concatenation, without_distinct
from tasks.sql.skeleton import read_skeleton, skeleton, skeleton_length
from tests.support.pairs import Pair, read_pairs

FIXTURES = Path(__file__).parent / "fixtures"
SCHEMA = Schema(
    "concerts",
    (
        Table("singer", tuple(Column(name) for name in ("id", "name", "age", "country"))),
        Table("concert", tuple(Column(name) for name in ("id", "singer_id", "year"))),
    ),
    dialect="sqlite",
)


def order_asked_for(sql: str) -> str:
    found = ordering(sql, "sqlite")
    return " ".join(name for name in ("anywhere", "outermost") if getattr(found, name))


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "concatenation": lambda sql: without_concatenation(sql, "sqlite"),
    "dac_skeleton": lambda sql: skeleton(sql, "sqlite"),
    "distinct": lambda sql: without_distinct(sql, "sqlite"),
    "hardness": lambda sql: hardness(sql, SCHEMA),
    "order": order_asked_for,
    "skeleton": lambda sql: skeleton(sql, "sqlite"),
}
CASES = [
    pytest.param(name, pair, id=f"{name}: {pair.title}")
    for name in FUNCTIONS
    for pair in read_pairs(FIXTURES / f"{name}.txt")
]


@pytest.mark.parametrize(("name", "pair"), CASES)
def test_a_sql_becomes_what_its_pair_says(name: str, pair: Pair) -> None:
    assert str(FUNCTIONS[name](pair.given)) == pair.expected


@pytest.mark.parametrize("pair", read_pairs(FIXTURES / "distinct.txt"), ids=lambda pair: pair.title)
def test_taking_distinct_out_twice_changes_nothing_more(pair: Pair) -> None:
    assert without_distinct(pair.expected, "sqlite") == pair.expected


def test_distinct_on_stays_in_dialects_that_have_it() -> None:
    sql = "SELECT DISTINCT ON (a) a, b FROM t"
    assert without_distinct(sql, "postgres") == sql


def test_spider_dev_has_its_published_distribution(shared_data: Path) -> None:
    questions = json.loads((shared_data / "spider" / "dev.json").read_text())
    schemas = read_schemas(shared_data / "spider" / "tables.json")
    grades = Counter(hardness(q["query"], schemas[q["db_id"]]) for q in questions)
    assert grades == {"easy": 248, "medium": 446, "hard": 174, "extra": 166}


@pytest.mark.parametrize(("sql", "other", "same"), [
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
])  # fmt: skip
def test_same_skeleton(sql: str, other: str, same: bool) -> None:
    first, second = skeleton(sql, "sqlite"), skeleton(other, "sqlite")
    assert (first is not None and first == second) is same


def test_the_length_of_a_skeleton_counts_tokens() -> None:
    assert skeleton_length("select _ , count ( * ) from _") == 9


@pytest.mark.parametrize(("sql", "reason"), [
    ("", "no statement"),
    ("DROP TABLE t", "not a query: drop"),
    ("SELECT", "it selects nothing"),
    ("SELECT a FROM t WHERE (b", "Expecting )"),
    ("SELECT a FROM t WHERE " + "(" * 3000 + "b" + ")" * 3000, "longer than 2,500 tokens"),
])  # fmt: skip
def test_what_has_no_skeleton_says_why(sql: str, reason: str) -> None:
    reading = read_skeleton(sql, "sqlite")
    assert reading.text is None
    assert reason in reading.reason


def test_skeletons_of_real_gold_have_no_names_and_are_skeletons_of_themselves(shared_data: Path) -> None:
    for question in json.loads((shared_data / "bird" / "dev.json").read_text())[::5]:
        found = skeleton(question["SQL"], "sqlite")
        assert found is not None and not set("'`.") & set(found)
    for question in json.loads((shared_data / "spider" / "dev.json").read_text())[::7]:
        found = skeleton(question["query"], "sqlite")
        assert found is not None
        assert skeleton(found.replace("join _ ", "join _ on _ = _ "), "sqlite") == found


@given(st.text(max_size=80))
def test_a_text_has_a_skeleton_or_a_reason_why_not(text: str) -> None:
    for sql in (text, f"SELECT a FROM t WHERE {text}", f"WITH {text} SELECT * FROM x"):
        assert (read_skeleton(sql, "sqlite").text is None) == bool(read_skeleton(sql, "sqlite").reason)
