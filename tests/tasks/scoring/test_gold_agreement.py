"""Agreement of reviewers, against scikit-learn and against the definition of Fleiss' kappa computed in another way."""

import random
from itertools import combinations

import pytest
from sklearn.metrics import cohen_kappa_score

from tasks.scoring.golds.agreement import agreement, cohen_kappa, fleiss_kappa

NAMES = ["keep", "replace", "add", "withdraw"]


@pytest.mark.parametrize("seed", range(30))
def test_cohens_kappa_is_that_of_scikit_learn(seed: int) -> None:
    draw = random.Random(seed)
    a = [draw.choice(NAMES) for _ in range(draw.randint(5, 40))]
    b = [one if draw.random() < 0.6 else draw.choice(NAMES) for one in a]
    assert cohen_kappa(a, b) == pytest.approx(cohen_kappa_score(a, b))


@pytest.mark.parametrize("seed", range(30))
def test_fleiss_kappa_is_one_minus_observed_over_expected_disagreement(seed: int) -> None:
    """Disagreement counted pair by pair, and expected from two ratings drawn from all of them with replacement."""
    draw = random.Random(seed)
    ratings = [[draw.choice(NAMES[:3]) for _ in range(4)] for _ in range(draw.randint(3, 15))]
    pairs = [one != other for given in ratings for one, other in combinations(given, 2)]
    every = [name for given in ratings for name in given]
    expected = sum(one != other for one in every for other in every) / len(every) ** 2
    assert fleiss_kappa(ratings) == pytest.approx(1 - (sum(pairs) / len(pairs)) / expected)


def test_fleiss_published_example_has_its_published_kappa() -> None:
    """Fourteen raters on ten subjects, the example that textbooks and Wikipedia print: 0.210."""
    counts = [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]  # fmt: skip
    ratings = [[str(place) for place, number in enumerate(row) for _ in range(number)] for row in counts]
    assert fleiss_kappa(ratings) == pytest.approx(0.210, abs=0.0005)


def test_only_questions_that_all_judged_count_and_one_verdict_for_all_says_nothing() -> None:
    two = agreement(
        {"1": {"Ann": "keep", "Bob": "keep"}, "2": {"Ann": "add"}, "3": {"Ann": "add", "Bob": "keep"}}
    )
    assert (two.statistic, two.questions, two.unanimous, two.kappa) == ("Cohen's kappa", 2, 1, 0.0)
    same = agreement({name: dict.fromkeys(("Ann", "Bob", "Cid"), "keep") for name in "12"})
    assert (same.statistic, same.unanimous, same.kappa) == ("Fleiss' kappa", 2, None)
    assert agreement({"1": {"Ann": "keep"}}).kappa is None
