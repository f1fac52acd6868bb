"""Ranks by an answer key, beside the official ones on the same questions."""

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from scipy.stats import kendalltau

from tasks.scoring.report import KeyVerdict, QuestionScore
from tasks.scoring.significance import mcnemar
from tasks.tracking.leaderboard.key_ranks import kendall_tau, rank_by_key
from tests.tasks.scoring.samples import score


@pytest.mark.parametrize("seed", range(40))
def test_kendalls_tau_is_that_of_scipy(seed: int) -> None:
    draw = random.Random(seed)
    size = draw.randint(2, 12)
    a, b = ([draw.randint(0, draw.choice([3, 50])) for _ in range(size)] for _ in range(2))
    expected = kendalltau(a, b, variant="b").statistic
    found = kendall_tau(a, b)
    assert found == pytest.approx(expected) if expected == expected else found is None


def rows(official: str, key: Mapping[int, KeyVerdict]) -> list[QuestionScore]:
    """Return a question for each letter, right where it is "r", with what the key "k" changes of some."""
    return [
        replace(
            score(str(place), "bird" if letter == "r" else ""), keys={"k": key[place]} if place in key else {}
        )
        for place, letter in enumerate(official)
    ]


def verdict(right: bool) -> KeyVerdict:
    return KeyVerdict("replaced", ("SELECT 2",), {"bird": right})


def test_the_order_of_two_runs_is_compared_on_the_questions_that_both_keys_count() -> None:
    text, gone = KeyVerdict("other_text", ("SELECT 2",)), KeyVerdict("absent")
    ranking = rank_by_key(
        "k",
        "bird",
        {
            "a": rows("rrrww", {0: verdict(False), 1: verdict(False), 3: gone, 4: text}),
            "b": rows("rrwwr", {0: verdict(True), 1: verdict(True), 3: gone, 4: text}),
        },
    )
    assert (ranking.questions, ranking.left_out.absent, ranking.left_out.other_text) == (3, ("3",), ("4",))
    assert [(each.run_id, each.rank, each.official_rank) for each in ranking.rows] == [
        ("b", 1, 2),
        ("a", 2, 1),
    ]
    assert [(each.ex.correct, each.official.correct, each.ex.total) for each in ranking.rows] == [
        (2, 2, 3),
        (1, 3, 3),
    ]
    (change,) = ranking.changes
    assert (change.a, change.b, ranking.tau) == ("a", "b", -1.0)
    assert (change.official.broken, change.key.fixed, change.key.broken) == (("2",), ("0", "1"), ("2",))
    assert change.key.p_value == mcnemar(2, 1)


def test_a_key_that_leaves_every_question_out_ranks_none() -> None:
    gone = {place: KeyVerdict("absent") for place in range(2)}
    ranking = rank_by_key("k", "bird", {"a": rows("rw", gone), "b": rows("ww", gone)})
    assert (ranking.questions, ranking.changes, ranking.tau) == (0, (), None)
    assert [(each.rank, each.ex.ex) for each in ranking.rows] == [(1, None), (1, None)]
