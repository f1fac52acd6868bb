"""Functions from SQL text to text, by pairs: a case is a few lines in fixtures/."""

from pathlib import Path

import pytest

from tasks.sql.rewriting import ordering, without_distinct
from tests.support.pairs import Pair, read_pairs

FIXTURES = Path(__file__).parent / "fixtures"


def pairs(name: str) -> pytest.MarkDecorator:
    cases = read_pairs(FIXTURES / name)
    return pytest.mark.parametrize("pair", cases, ids=[case.title for case in cases])


@pairs("distinct.txt")
def test_distinct_is_stripped(pair: Pair) -> None:
    assert without_distinct(pair.given, "sqlite") == pair.expected


@pairs("distinct.txt")
def test_stripping_twice_changes_nothing_more(pair: Pair) -> None:
    assert without_distinct(pair.expected, "sqlite") == pair.expected


@pairs("order.txt")
def test_order_by_is_found(pair: Pair) -> None:
    found = ordering(pair.given, "sqlite")
    assert " ".join(n for n in ("anywhere", "outermost") if getattr(found, n)) == pair.expected


def test_distinct_on_stays_in_dialects_that_have_it() -> None:
    sql = "SELECT DISTINCT ON (a) a, b FROM t"
    assert without_distinct(sql, "postgres") == sql
