"""The figures of identical runs, beside all subsets and simulated runs."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import skellam

from tasks.scoring.repeated import (
    POWER,
    UNCERTAINTY,
    flip_bound,
    flip_rate,
    least_difference,
    noise_p,
    pass_hat,
    provable_by_mcnemar,
    provable_by_noise,
)
from tasks.scoring.significance import mcnemar

VERDICTS = st.integers(2, 6).flatmap(
    lambda runs: st.lists(st.lists(st.booleans(), min_size=runs, max_size=runs), min_size=2, max_size=30)
)


@given(VERDICTS)
def test_the_flip_rate_is_the_share_over_all_pairs_of_runs(verdicts: list[list[bool]]) -> None:
    runs = len(verdicts[0])
    flips = [one != other for each in verdicts for one, other in combinations(each, 2)]
    assert flip_rate(list(map(sum, verdicts)), runs) == pytest.approx(sum(flips) / len(flips))


@given(VERDICTS, st.data())
def test_pass_k_is_the_share_of_subsets_that_are_all_right(
    verdicts: list[list[bool]], data: st.DataObject
) -> None:
    runs = len(verdicts[0])
    k = data.draw(st.integers(1, runs))
    subsets = [all(chosen) for each in verdicts for chosen in combinations(each, k)]
    assert pass_hat(list(map(sum, verdicts)), runs, k) == pytest.approx(sum(subsets) / len(subsets))


def simulated(random: np.random.Generator, rates: np.ndarray, runs: int, times: int) -> np.ndarray:
    """Right answers of each question in so many runs, as often as wanted."""
    return random.binomial(runs, rates, size=(times, len(rates)))


@pytest.mark.parametrize("runs", [2, 3, 5])
@pytest.mark.parametrize("shares", [(0.0, 0.5), (0.02, 0.5), (0.2, 0.5), (0.3, 0.05), (1.0, 0.5)])
def test_the_bound_of_the_flip_rate_holds_but_for_the_uncertainty(
    runs: int, shares: tuple[float, float]
) -> None:
    unstable, rate = shares
    rates = np.where(np.arange(113) < unstable * 113, rate, 1.0)
    true = float(np.mean(2 * rates * (1 - rates)))
    found = [
        flip_bound(list(counts), runs, 0.05)
        for counts in simulated(np.random.default_rng(0), rates, runs, 400)
    ]
    assert np.mean(np.array(found) < true) <= 0.05


def test_the_bound_comes_closer_with_more_runs() -> None:
    random, rates = np.random.default_rng(1), np.where(np.arange(500) < 50, 0.5, 1.0)
    bounds = [
        np.mean([flip_bound(list(counts), runs) for counts in simulated(random, rates, runs, 20)])
        for runs in (2, 5, 20)
    ]
    assert bounds[0] > bounds[1] > bounds[2] > 0.05


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.floats(0.001, 0.4))
def test_the_p_value_is_that_of_two_poisson_variables(fixed: int, broken: int, bound: float) -> None:
    expected = max(500 * bound / 2, min(fixed, broken))
    tail = skellam.sf(abs(broken - fixed) - 1, expected, expected)
    assert noise_p(fixed, broken, 500, bound) == pytest.approx(
        min(1.0, 2 * tail + UNCERTAINTY), rel=1e-6, abs=1e-9
    )


@pytest.mark.parametrize(("unstable", "rate"), [(0.0, 0.5), (0.05, 0.5), (0.2, 0.5), (0.3, 0.1)])
def test_without_a_change_runs_differ_at_the_level_at_most(unstable: float, rate: float) -> None:
    random = np.random.default_rng(2)
    rates = np.where(np.arange(500) < unstable * 500, rate, 1.0)
    alarms = 0
    for _ in range(300):
        bound = flip_bound(list(random.binomial(5, rates)), 5)
        one, other = random.random(500) < rates, random.random(500) < rates
        alarms += noise_p(int((~one & other).sum()), int((one & ~other).sum()), 500, bound) < 0.05
    assert alarms / 300 <= 0.05


def test_where_answers_never_flip_a_small_loss_is_proven_that_mcnemar_does_not_prove() -> None:
    bound = flip_bound([5] * 60 + [0] * 53, 5)
    lost = least_difference(113, bound, 0.01)
    assert lost == 6 and noise_p(0, 6, 113, bound) < 0.01 < mcnemar(0, 6)


@pytest.mark.parametrize(("questions", "rate"), [(129, 0.0744), (113, 0.04), (500, 0.05), (40, 0.0)])
@pytest.mark.parametrize("level", [0.05, 0.01])
def test_a_loss_between_single_runs_is_the_smallest_that_mcnemars_test_proves_in_80_of_100_cases(
    questions: int, rate: float, level: float
) -> None:
    loss = provable_by_mcnemar(questions, rate, level)
    assert loss is not None
    lost = round(loss * questions)

    def power(lost: int) -> float:
        random = np.random.default_rng(5)
        flips = random.binomial(questions - lost, rate, 20_000)
        tables = Counter(zip(flips, random.binomial(flips, 0.5), strict=True))
        return sum(
            count * (mcnemar(int(fixed), int(flips - fixed + lost)) < level)
            for (flips, fixed), count in tables.items()
        ) / sum(tables.values())

    assert power(lost) > POWER - 0.01
    assert power(lost - 1) < POWER + 0.01


@pytest.mark.parametrize(("questions", "provable"), [(7, False), (8, True)])
def test_no_loss_is_provable_where_that_of_all_questions_is_not(questions: int, provable: bool) -> None:
    assert (mcnemar(0, questions) < 0.01) is provable
    assert (provable_by_mcnemar(questions, 0.0, 0.01) is not None) is provable
    assert provable_by_noise(3, 0.5, 0.5, 0.01) is None


def test_the_loss_that_a_night_proves_is_proven_in_most_simulated_nights() -> None:
    random, questions = np.random.default_rng(4), 1000
    rates = np.where(np.arange(questions) < 120, 0.5, 1.0)
    counts = list(random.binomial(5, rates))
    bound = flip_bound(counts, 5)
    changed = rates.copy()
    loss = provable_by_noise(questions, 0.06, bound, 0.01)
    assert loss is not None
    changed[-round(loss * questions) :] = 0.0
    proven = 0
    for _ in range(300):
        one, other = random.random(questions) < rates, random.random(questions) < changed
        p_value = noise_p(int((~one & other).sum()), int((one & ~other).sum()), questions, bound)
        proven += p_value < 0.01
    assert 0.70 <= proven / 300 <= 0.92
