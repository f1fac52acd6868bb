"""How the cells of a sweep stand: significant differences are said, all others are not ranked."""

import io
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from flows.cli.display.matrix import sweep_document
from flows.matrix.matrix import CellResult, Sweep, standings
from tasks.backbone.budget import Budget
from tasks.core.outcome import Failure, Outcome
from tasks.core.records import Question
from tasks.documents.terminal import print_document
from tasks.results.build_record import record_of
from tasks.scoring.cost import Estimate
from tasks.scoring.scores import QuestionScore, Verdict
from tests.tasks.results.samples import make_run

UNKNOWN = Estimate(100, None, None, None, None)


def scored_rows(right: int, *, executable: bool = True, first: int = 0, lost: int = 0) -> list[QuestionScore]:
    failure = Failure("backbone_error", "", "It did not answer.", retryable=True)
    scores = []
    for n in range(100):
        question = Question(str(first + n), "?", "db")
        outcome = Outcome(question.id, "SELECT 1", failure=failure if n >= 100 - lost else None)
        verdict = Verdict({"bird": n < right}, "ok")
        scores.append(QuestionScore(question, outcome, verdict, {}, "SELECT 1", executable=executable))
    return scores


def done(
    name: str, right: int, problem: str = "", *, unranked: str = "", free: bool = False, **scored: Any
) -> CellResult:
    cell = SimpleNamespace(name=name, varied=(), unranked=unranked, free=free)
    record = record_of(make_run(run_id=f"run-{name}"), scored_rows(right, **scored))
    return CellResult(cell, UNKNOWN, record, problem)  # type: ignore[arg-type]


def test_a_cell_that_is_clearly_worse_is_said_to_be_lower_and_one_close_by_is_tied() -> None:
    said = standings([done("a", 80), done("b", 78), done("c", 50)]).against_best
    assert said["a"] == "best; 1 of 2 others statistically tied"
    assert said["b"].startswith("statistically tied")
    assert said["c"].startswith("lower, p = ")
    assert (
        standings([done("a", 80), done("b", 79)]).against_best["a"] == "best; 1 of 1 other statistically tied"
    )
    assert standings([done("a", 80), done("b", 72)]).against_best["b"].startswith("lower")
    many = standings([done("a", 80), *(done(f"b{n}", 72) for n in range(9))]).against_best
    assert many["b0"].startswith("statistically tied")


@pytest.mark.parametrize(("second", "words"), [(78, "a is best"), (80, "a and 1 other are best")])
def test_the_headline_names_how_many_have_the_best_score(second: int, words: str) -> None:
    cells = (done("a", 80), done("b", second), done("c", 50))
    document = sweep_document(Sweep("s1", cells, standings=standings(cells)))
    assert f": {words} of 3 combinations with 80.00 %" in str(document.title)


def test_the_table_has_an_interval_in_percent_and_costs_as_in_the_estimate() -> None:
    stream = io.StringIO()
    print_document(sweep_document(Sweep("s1", (done("a", 80, free=True),))), stream)
    assert re.search(
        r"^a +80\.00 % +80 of 100 +71\.1 to 86\.7 % +\S+ +\$0\.0000 +\$0\.0000 +run-a$",
        stream.getvalue(),
        re.MULTILINE,
    )


@pytest.mark.parametrize(("refused", "spent", "said"), [
    (False, 0.2, "Spent $0.2000 of $0.1000. The last calls were in flight when it was spent: none was refused"),
    (True, 0.2, "Spent $0.2000 of $0.1000.\n"),
    (False, 0.05, "Spent $0.0500 of $0.1000.\n"),
    (False, 0.00002, "Spent <$0.0001 of $0.1000.\n"),
])  # fmt: skip
def test_a_budget_that_the_last_calls_exceeded_is_said(refused: bool, spent: float, said: str) -> None:
    stream, budget = io.StringIO(), Budget(0.1, spent_usd=spent, refused=refused)
    print_document(sweep_document(Sweep("s1", (done("a", 80),), budget)), stream)
    assert said in stream.getvalue()


@pytest.mark.parametrize(("spent", "said"), [
    ({"estimated_calls": 2}, "Spent about $0.0500 of $0.1000: the cost of 2 calls is estimated from their length."),
    ({"unknown": "the cost of a call to m is unknown"}, "Spent an unknown amount of $0.1000: the cost of a call to m"),
])  # fmt: skip
def test_a_cost_that_is_not_known_is_not_said_to_be(spent: dict[str, Any], said: str) -> None:
    stream, budget = io.StringIO(), Budget(0.1, spent_usd=0.05, **spent)
    sweep = Sweep("s1", (done("a", 80),), budget)
    print_document(sweep_document(sweep), stream)
    assert said in " ".join(stream.getvalue().split())
    assert sweep.spent_usd is None


def test_a_sweep_of_one_combination_has_nothing_to_compare_it_with() -> None:
    cells = (done("a", 80),)
    assert str(Sweep("s1", cells, standings=standings(cells))) == "1 combination, nothing to compare it with"


def test_a_cell_that_was_stopped_or_lacks_answers_does_not_stand_for_its_settings() -> None:
    said = standings([done("a", 80), done("b", 10, "the budget is spent"), done("c", 80)])
    assert set(said.against_best) == set(said.letters) == {"a", "c"}
    lost = standings([done("a", 80), done("lost", 50, lost=40), done("few", 50, lost=5)]).against_best
    assert lost["lost"] == "not ranked: 40 questions without an answer"
    assert lost["few"].startswith("lower, p = ")


def test_a_cell_that_saw_the_gold_is_not_ranked_and_nothing_is_ranked_against_it() -> None:
    gold = done("gold", 99, unranked="saw the gold")
    said = standings([done("a", 80), gold, done("b", 50)]).against_best
    assert said["a"] == "best; 0 of 1 other statistically tied"
    assert said["gold"] == "not ranked: saw the gold"
    assert standings([done("a", 80), gold]).against_best == {"gold": "not ranked: saw the gold"}
    found = standings([done("a", 80), done("b", 50), done("c", 80, unranked="it has read the gold SQL")])
    assert found.best == ("a",)


def test_a_cell_without_a_scored_question_or_one_in_common_with_the_best_is_not_ranked() -> None:
    said = standings([done("a", 80), done("lost", 0, executable=False), done("c", 50)]).against_best
    assert said["a"] == "best; 0 of 1 other statistically tied" and said["c"].startswith("lower")
    assert said["lost"] == "not ranked: no question is scored"
    none = standings([done("a", 0, executable=False), done("b", 0, executable=False)]).against_best
    assert set(none.values()) == {"not ranked: no question is scored"}
    said = standings([done("a", 80), done("b", 50), done("other", 10, first=1000)]).against_best
    assert said["a"] == "best; 0 of 1 other statistically tied" and said["b"].startswith("lower")
    assert said["other"] == "not ranked: it shares no scored question with the best"


@pytest.mark.parametrize("worst", [70, 73, 74, 76])
def test_letters_and_words_come_from_the_same_tests(worst: int) -> None:
    cells = (done("a", 80), done("b", 78), done("c", 77), done("d", worst))
    found = standings(cells)
    for name in "bcd":
        apart = set(found.letters[name]).isdisjoint(found.letters["a"])
        assert found.against_best[name].startswith("lower") == apart
    document = sweep_document(Sweep("s1", cells[:1], standings=found))
    assert "6 exact McNemar tests on the same questions, one of each pair" in str(document)


def test_failed_questions_that_are_not_scored_keep_no_cell_from_being_ranked() -> None:
    rows = [*scored_rows(50), *scored_rows(0, executable=False, first=100, lost=60)]
    worse = replace(done("b", 50), evaluated=record_of(make_run(run_id="run-b"), rows))
    assert standings([done("a", 80), worse]).against_best["b"].startswith("lower, p = ")
