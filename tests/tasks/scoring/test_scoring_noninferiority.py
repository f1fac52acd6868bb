"""The non-inferiority test against the sum over all outcomes, with scipy's multinomial distribution."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import multinomial, norm

from tasks.scoring.significance import exact_p, noninferiority, tango_score


def log_likelihood(fixed: int, broken: int, questions: int, rate: float, margin: float) -> float:
    shares = [rate, rate + margin, 1 - 2 * rate - margin]
    return float(multinomial.logpmf([fixed, broken, questions - fixed - broken], questions, shares))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 60), st.data(), st.sampled_from([0.01, 0.05, 0.1, 0.3]))
def test_the_statistic_has_the_rate_of_the_highest_likelihood(
    questions: int, data: st.DataObject, margin: float
) -> None:
    fixed = data.draw(st.integers(0, questions))
    broken = data.draw(st.integers(0, questions - fixed))
    best = minimize_scalar(
        lambda rate: -log_likelihood(fixed, broken, questions, rate, margin),
        bounds=(1e-12, (1 - margin) / 2 - 1e-12),
        method="bounded",
        options={"xatol": 1e-12},
    ).x
    variance = questions * (2 * best + margin - margin**2)
    expected = (fixed - broken + questions * margin) / np.sqrt(variance)
    assert float(tango_score(fixed, broken, questions, margin)) == pytest.approx(expected, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_the_p_value_is_the_largest_sum_over_all_outcomes_as_good(seed: int) -> None:
    random = np.random.default_rng(seed)
    questions = int(random.integers(4, 24))
    fixed = int(random.integers(0, questions // 2 + 1))
    broken = int(random.integers(0, questions - fixed + 1))
    margin = float(random.choice([0.02, 0.05, 0.1, 0.2]))
    observed = tango_score(fixed, broken, questions, margin)
    as_good = [
        (more, less, questions - more - less)
        for more, less in product(range(questions + 1), repeat=2)
        if more + less <= questions and tango_score(more, less, questions, margin) >= observed - 1e-9
    ]
    rates = np.linspace(0, (1 - margin) / 2, 800)
    sums = [
        multinomial.pmf(as_good, questions, [rate, rate + margin, max(0.0, 1 - 2 * rate - margin)]).sum()
        for rate in rates
    ]
    assert exact_p(fixed, broken, questions, margin) == pytest.approx(min(1.0, max(sums)), rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("questions", "margin"), [(20, 0.1), (50, 0.02), (113, 0.05)])
def test_runs_that_are_worse_by_the_margin_pass_at_the_level_at_most(questions: int, margin: float) -> None:
    passing, fixed, most = [], 0, min(30, questions)
    for broken in range(most + 1):  # the more are broken, the more have to be fixed
        while fixed + broken <= most and exact_p(fixed, broken, questions, margin) >= 0.05:
            fixed += 1
        passing += [(more, broken) for more in range(fixed, most + 1 - broken)]
    assert passing
    for rate in (0.0, 0.01, 0.03, 0.06):
        shares = [rate, rate + margin, 1 - 2 * rate - margin]
        outcomes = [(fixed, broken, questions - fixed - broken) for fixed, broken in passing]
        assert multinomial.pmf(outcomes, questions, shares).sum() <= 0.05


def test_in_large_samples_it_is_the_score_test() -> None:
    found = noninferiority(40, 52, 1534, 0.02)
    assert found.p_value == pytest.approx(norm.sf(tango_score(40, 52, 1534, 0.02)), abs=0.002)
    assert found.proven and "B losing 2 points or more is excluded, p = 0.03" in found.verdict


def test_the_largest_loss_is_where_the_proof_begins() -> None:
    found = noninferiority(5, 9, 113, 0.05)
    assert not found.proven and found.largest_loss is not None
    assert exact_p(5, 9, 113, found.largest_loss) < 0.05 <= exact_p(5, 9, 113, found.largest_loss - 0.001)


def test_equal_runs_prove_nothing_with_few_questions() -> None:
    assert not noninferiority(0, 0, 20, 0.05).proven
    assert noninferiority(0, 0, 200, 0.05).proven


def test_a_run_that_is_wrong_everywhere_has_no_margin() -> None:
    assert noninferiority(0, 20, 20, 0.1).largest_loss is None
