"""Several runs against several others, beside scipy's permutation test and simulated runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test, ttest_1samp

from tasks.scoring.repeated import (
    compare_repeated,
    noninferiority_of_repeated,
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


def test_a_margin_is_tested_by_the_t_test_over_questions() -> None:
    random, names = np.random.default_rng(2), [str(place) for place in range(300)]
    rates = random.beta(0.5, 0.5, size=300)
    a, b = (dict(zip(names, map(int, random.binomial(3, rates)), strict=True)) for _ in range(2))
    expected = ttest_1samp([(b[name] - a[name]) / 3 for name in names], -0.05, alternative="greater").pvalue
    assert noninferiority_of_repeated(a, 3, b, 3, 0.05).p_value == pytest.approx(expected)


def test_equal_answers_to_few_questions_prove_no_margin() -> None:
    few = {str(place): place % 2 for place in range(20)}
    many = {str(place): place % 2 for place in range(200)}
    assert not noninferiority_of_repeated(few, 1, few, 1, 0.05).proven
    assert noninferiority_of_repeated(many, 1, many, 1, 0.05).proven
