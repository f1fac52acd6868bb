from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.retrieval.bridging import (
    LIKENESS,
    BridgedQuestion,
    column_requires,
    comparable,
    required_run,
    required_score,
)
from tests.support.pairs import Pair, read_pairs

CASES = read_pairs(Path(__file__).parent / "fixtures" / "bridge.txt")
WORDS = st.text("ab é'’-. X1", max_size=12)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_question_mentions_a_value(case: Pair) -> None:
    question, value = case.given.split("\n")
    found = BridgedQuestion(question).bridge(value)
    assert (f"{found.score:.2f} over {found.length}" if found else "none") == case.expected


@given(WORDS, WORDS)
@example("", "")
@example("a'", "A")
def test_whatever_is_found_is_as_like_as_it_has_to_be(question: str, value: str) -> None:
    found = BridgedQuestion(question).bridge(value)
    if found:
        assert required_score(value) <= found.score <= 1
        assert required_run(len(comparable(value))) <= found.length <= len(value)


@given(st.text("abcdefgh", min_size=2, max_size=30), st.text("abcdefgh ", max_size=20))
def test_a_value_said_as_words_of_its_own_is_always_found(value: str, around: str) -> None:
    question = BridgedQuestion(f"{around} {value} {around}")
    found = question.bridge(value)
    if value not in ("a", "be", "he", "had", "each"):
        assert found is not None and found.score >= LIKENESS


def test_columns_of_names_want_the_very_name() -> None:
    assert (column_requires("full Name"), column_requires("city")) == (1.0, LIKENESS)


def test_a_question_of_a_book_and_a_value_of_a_page_are_no_harder() -> None:
    found = BridgedQuestion("the same words again " * 2000).bridge("the same words again " * 4)
    assert found is not None and found.score == 1
