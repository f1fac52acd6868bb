"""Several runs, against scipy's permutation test, all subsets and simulated runs."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test, skellam, ttest_1samp

from tasks.scoring.repeated import (
    POWER,
    UNCERTAINTY,
    compare_repeated,
    flip_bound,
    flip_rate,
    least_difference,
    noise_p,
    noninferiority_of_repeated,
    pass_hat,
    provable_by_mcnemar,
    provable_by_noise,
    sign_flip_p,
)
from tasks.scoring.significance import compare_runs, mcnemar


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(-6, 6), min_size=2, max_size=9))
def test_the_p_value_is_that_of_all_choices_of_signs(differences: list[int]) -> None:
    expected = permutation_test(
        (np.array(differences, dtype=float),),
        np.sum,
        permutation_type="samples",
        n_resamples=np.inf,
    ).pvalue
    assert sign_flip_p(differences) == pytest.approx(min(1.0, expected))


@given(st.integers(0, 80), st.integers(0, 80))
def test_of_single_runs_it_is_the_exact_mcnemar_test(fixed: int, broken: int) -> None:
    assert sign_flip_p([1] * fixed + [-1] * broken) == pytest.approx(mcnemar(fixed, broken), abs=1e-12)


def test_single_runs_are_compared_as_before() -> None:
    a = {str(place): place >= 20 for place in range(200)}
    b = {str(place): not 20 <= place < 28 for place in range(200)}
    one, counted = compare_runs(a, b), {"a": {}, "b": {}}
    for name in a:
        counted["a"][name], counted["b"][name] = int(a[name]), int(b[name])
    other = compare_repeated(counted["a"], 1, counted["b"], 1)
    assert (other.p_value, other.difference) == (pytest.approx(one.p_value), pytest.approx(one.difference))
    assert (other.better_on, other.worse_on, other.better) == (20, 8, "B")
    assert (other.low, other.high) == (
        pytest.approx(one.low, abs=0.006),
        pytest.approx(one.high, abs=0.006),
    )


@pytest.mark.parametrize(("runs_a", "runs_b"), [(1, 1), (5, 5), (1, 5)])
def test_equal_systems_differ_at_the_level_at_most(runs_a: int, runs_b: int) -> None:
    random, names = np.random.default_rng(0), [str(place) for place in range(150)]
    found = 0
    for _ in range(300):
        rates = random.beta(0.3, 0.3, size=150)
        a, b = (
            dict(zip(names, map(int, random.binomial(runs, rates)), strict=True)) for runs in (runs_a, runs_b)
        )
        found += compare_repeated(a, runs_a, b, runs_b).significant
    assert found / 300 <= 0.075  # 0.05 and three standard errors of 300 trials


def test_questions_are_clusters_so_that_more_runs_of_few_questions_prove_no_more() -> None:
    a = {str(place): 100 if place < 4 else 0 for place in range(8)}
    b = {str(place): 100 for place in range(8)}
    found = compare_repeated(a, 100, b, 100)
    assert (found.p_value, found.better, found.headline) == (0.125, None, "Inside the noise")


def test_the_interval_is_as_wide_as_that_of_the_mean_over_questions() -> None:
    random, names = np.random.default_rng(1), [str(place) for place in range(400)]
    rates = random.beta(0.5, 0.5, size=400)
    a, b = (dict(zip(names, map(int, random.binomial(4, rates)), strict=True)) for _ in range(2))
    found = compare_repeated(a, 4, b, 4)
    expected = ttest_1samp([(b[name] - a[name]) / 4 for name in names], 0.0).confidence_interval(0.95)
    assert (found.low, found.high) == (
        pytest.approx(expected.low, abs=0.004),
        pytest.approx(expected.high, abs=0.004),
    )


def test_a_margin_is_tested_by_the_t_test_over_questions_and_few_prove_none() -> None:
    random, names = np.random.default_rng(2), [str(place) for place in range(300)]
    rates = random.beta(0.5, 0.5, size=300)
    a, b = (dict(zip(names, map(int, random.binomial(3, rates)), strict=True)) for _ in range(2))
    expected = ttest_1samp([(b[name] - a[name]) / 3 for name in names], -0.05, alternative="greater").pvalue
    assert noninferiority_of_repeated(a, 3, b, 3, 0.05).p_value == pytest.approx(expected)
    few = {str(place): place % 2 for place in range(20)}
    many = {str(place): place % 2 for place in range(200)}
    assert not noninferiority_of_repeated(few, 1, few, 1, 0.05).proven
    assert noninferiority_of_repeated(many, 1, many, 1, 0.05).proven


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
    changed[-round(loss * questions) :] = 0.0
    proven = 0
    for _ in range(300):
        one, other = random.random(questions) < rates, random.random(questions) < changed
        p_value = noise_p(int((~one & other).sum()), int((one & ~other).sum()), questions, bound)
        proven += p_value < 0.01
    assert 0.70 <= proven / 300 <= 0.92
