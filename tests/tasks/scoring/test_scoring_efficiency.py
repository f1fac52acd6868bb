"""Efficiency: the published formulas on given times, and real measurements in a worker."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.metrics.efficiency import (
    RightAnswer,
    Spread,
    Timings,
    measure_efficiency,
    reward_of,
    score_efficiency,
    ves_of,
)


@pytest.mark.parametrize(
    ("ratio", "reward"),
    [(5.0, 1.25), (2.0, 1.25), (1.99, 1.0), (1.0, 1.0), (0.99, 0.75), (0.5, 0.75), (0.25, 0.5), (0.2, 0.25)],
)
def test_rewards_step_with_the_ratio(ratio: float, reward: float) -> None:
    assert reward_of([ratio]) == reward


def test_ratios_without_any_spread_are_not_dropped() -> None:
    assert ves_of([1.0] * 10) == 1.0
    assert ves_of([2.25]) == 1.5


def test_a_ratio_far_from_the_others_is_dropped() -> None:
    assert ves_of([1.0] * 30 + [100.0]) == 1.0


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_ves_lies_between_the_roots_of_the_extremes(ratios: list[float]) -> None:
    assert sqrt(min(ratios)) * 0.999 <= ves_of(ratios) <= sqrt(max(ratios)) * 1.001


def test_wrong_answers_count_zero_and_trials_give_the_spread() -> None:
    found = score_efficiency([Timings(((1.0,), (4.0,)), 4.0), Timings(((1.0,), (1.0,)), 1.0)], questions=4)
    assert (found.questions, found.measured) == (4, 2)
    assert found.ves == Spread(mean=62.5, low=50.0, high=75.0)
    assert found.r_ves is not None
    assert found.r_ves.low == 50.0
    assert found.r_ves.high == pytest.approx(25 * (sqrt(1.25) + 1))
    assert found.ves_steps == 75.0


def test_nothing_right_scores_zero_and_nothing_asked_is_unknown() -> None:
    assert score_efficiency([], questions=3).ves == Spread(0.0, 0.0, 0.0)
    assert score_efficiency([], questions=0).ves is None
    assert score_efficiency([], questions=0).ves_steps is None


def test_steps_that_were_not_counted_leave_their_score_unknown() -> None:
    assert (
        score_efficiency([Timings(((1.0,),), 1.0), Timings(((1.0,),), None)], questions=2).ves_steps is None
    )


async def test_the_steps_score_repeats_exactly(workers: SqlWorkers, shop: Database) -> None:
    answers = [
        RightAnswer(shop, "SELECT name FROM item", "SELECT name FROM item"),
        RightAnswer(shop, "SELECT count(*) FROM item, item AS b, item AS c", "SELECT 64"),
        RightAnswer(shop, "SELECT 1", "SELECT nope"),
    ]
    runs = [await measure_efficiency(workers, answers, 4, trials=2, repeats=3, timeout_s=5) for _ in range(2)]
    assert runs[0].ves_steps == runs[1].ves_steps
    assert runs[0].ves_steps is not None
    assert runs[0].ves_steps > 50
    assert runs[0].measured == 2
    assert runs[0].ves is not None
    assert 0 < runs[0].ves.low <= runs[0].ves.mean <= runs[0].ves.high
