"""What the offline model makes of questions, as text pairs; every query runs on the database it is asked of."""

from pathlib import Path

import pytest

from tasks.core.records import Demonstration
from tests.support.pairs import Pair, read_pairs
from tests.tasks.backbone.offline.prompts import rows, sql_for

FIXTURES = Path(__file__).parent / "fixtures"
QUESTIONS = read_pairs(FIXTURES / "questions.txt")
DEMONSTRATIONS = read_pairs(FIXTURES / "demonstrations.txt")


@pytest.mark.parametrize("case", QUESTIONS, ids=lambda case: case.title)
def test_a_question_is_read_into_the_sql_that_its_words_ask_for(case: Pair) -> None:
    text, _, evidence = case.given.partition("\nEvidence: ")
    sql = sql_for(text, evidence)
    assert sql == case.expected
    assert rows(sql), "the bakers' database has rows for every question of the fixture"


@pytest.mark.parametrize("case", DEMONSTRATIONS, ids=lambda case: case.title)
def test_a_demonstration_is_adapted_where_it_is_like_enough(case: Pair) -> None:
    text, demonstration, shown = case.given.split("\n")
    example = Demonstration(demonstration.removeprefix("Demonstration: "), shown.removeprefix("SQL: "), "any")
    sql = sql_for(text, demonstrations=[example])
    assert sql == case.expected
    assert rows(sql)


def test_without_a_demonstration_an_unnamed_condition_is_not_made_up() -> None:
    # The fixture's "NOT opened IS NULL" can only come from the demonstration.
    assert "opened IS NULL" not in sql_for("Which opened markets have more than 50 stalls?")
