"""Two runs: the paired test, its interval, its verdict and a margin, against scipy and counting; letters of several."""

import random
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binomtest, multinomial, norm

from tasks.core.errors import ConfigurationError
from tasks.scoring.letters import compact_letters
from tasks.scoring.repeated import compare_repeated
from tasks.scoring.scores import wilson
from tasks.scoring.significance import (
    bootstrap_interval,
    compare_runs,
    exact_p,
    holm,
    mcnemar,
    needed_net,
    noninferiority,
    tango_score,
)


def runs(fixed: int, broken: int, questions: int) -> tuple[dict[str, bool], dict[str, bool]]:
    """Two runs of which `fixed` and `broken` questions differ."""
    a = {str(i): i >= fixed for i in range(questions)}
    b = {str(i): not fixed <= i < fixed + broken for i in range(questions)}
    return a, b


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_the_exact_binomial_test(fixed: int, broken: int) -> None:
    expected = binomtest(fixed, fixed + broken).pvalue if fixed + broken else 1.0
    assert mcnemar(fixed, broken) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(("fixed", "broken", "points", "significant"), [
    (27, 13, 0.91, True),
    (26, 14, 0.78, False),
    (88, 62, 1.69, True),
    (87, 63, 1.56, False),
])  # fmt: skip
def test_on_bird_dev_gains_below_about_a_point_are_noise(
    fixed: int, broken: int, points: float, significant: bool
) -> None:
    found = compare_runs(*runs(fixed, broken, 1534))
    assert round(100 * found.difference, 2) == points
    assert found.significant is significant
    assert found.verdict.startswith("B beats A by" if significant else "Inside the noise")


def test_flipped_questions_are_listed_in_order_and_runs_without_a_common_one_refused() -> None:
    found = compare_runs({"0": True, "1": False, "2": True}, {"2": True, "1": True, "0": False})
    assert (found.fixed, found.broken) == (("1",), ("0",))
    assert (found.right_a, found.right_b, found.questions) == (2, 2, 3)
    with pytest.raises(ConfigurationError, match="no scored question in common"):
        compare_runs({"0": True}, {"1": True})


def test_the_interval_is_as_wide_as_theory_says() -> None:
    low, high = bootstrap_interval((1, -1, 0), (60, 40, 900), 0.95)
    deviation = ((0.06 + 0.04 - 0.02**2) / 1000) ** 0.5
    assert low == pytest.approx(0.02 - 1.96 * deviation, abs=0.002)
    assert high == pytest.approx(0.02 + 1.96 * deviation, abs=0.002)


@pytest.mark.parametrize(("fixed", "broken"), [(10, 0), (0, 10), (1, 0), (0, 1)])
def test_a_difference_of_every_question_is_not_certain(fixed: int, broken: int) -> None:
    """Tango's score interval (1998): the differences at which his statistic is the quantile."""
    found = compare_runs(*runs(fixed, broken, fixed + broken))
    questions = fixed + broken
    bound = (questions - 1.96**2) / (questions + 1.96**2)
    expected = (bound, 1.0) if fixed else (-1.0, -bound)
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-4)
    repeated = compare_repeated(
        {str(name): 3 * broken // questions for name in range(questions)}, 3,
        {str(name): 2 * fixed // questions for name in range(questions)}, 2,
    )  # fmt: skip
    assert (repeated.low, repeated.high) == pytest.approx(expected, abs=1e-4)


@settings(deadline=None)
@given(st.integers(0, 120))
def test_the_needed_net_is_the_smallest_that_is_significant(differing: int) -> None:
    nets = [
        differing - 2 * fewer
        for fewer in range(differing // 2 + 1)
        if mcnemar(differing - fewer, fewer) < 0.05
    ]
    assert needed_net(differing) == (min(nets) if nets else None)


def test_the_needed_net_of_thousands_takes_no_time() -> None:
    assert needed_net(10_000) == 198


@pytest.mark.parametrize(("given_", "expected"), [
    ([], []),
    ([0.2], [0.2]),
    ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # worked out by hand
    ([0.9, 0.8], [1.0, 1.0]),
])  # fmt: skip
def test_p_values_are_adjusted_as_holm_does(given_: list[float], expected: list[float]) -> None:
    assert holm(given_) == pytest.approx(tuple(expected))


@settings(deadline=None)
@given(st.integers(1, 2000), st.data())
def test_the_interval_of_one_share_is_wilsons(total: int, data: st.DataObject) -> None:
    right = data.draw(st.integers(0, total))
    expected = binomtest(right, total).proportion_ci(method="wilson")
    assert wilson(right, total) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_nothing_to_share_may_be_any_share() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


def test_equal_runs_are_not_ranked_and_noise_says_what_it_would_take() -> None:
    found = compare_runs(*runs(0, 0, 50))
    bound = 1.96**2 / (50 + 1.96**2)  # Tango's score interval (1998) where no question differs
    assert (found.p_value, found.low, found.high) == (
        1.0,
        pytest.approx(-bound, abs=1e-4),
        pytest.approx(bound, abs=1e-4),
    )
    assert (
        found.verdict
        == "No difference: both runs are right on the same 50 and wrong on the same 0 of 50 questions."
    )
    assert found.better is None
    assert compare_runs(*runs(26, 14, 1534)).reason.endswith(
        "40 answers differ, so p < 0.05 needs a net of 14 (0.91 points); this is 12."
    )
    assert compare_runs(*runs(4, 1, 1534)).reason.endswith(
        "Only 5 answers differ: too few for p < 0.05, however they fall."
    )
    assert "Only 1 answer differs: too few for p < 0.05" in compare_runs(*runs(1, 0, 200)).verdict


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
    assert found.proven and "B losing 2 points or more is excluded, p = 0.02996 " in found.verdict


def test_a_margin_is_proven_from_the_largest_loss_on_and_by_enough_questions() -> None:
    found = noninferiority(5, 9, 113, 0.05)
    assert not found.proven and found.largest_loss is not None
    assert exact_p(5, 9, 113, found.largest_loss) < 0.05 <= exact_p(5, 9, 113, found.largest_loss - 0.001)
    assert not noninferiority(0, 0, 20, 0.05).proven
    assert noninferiority(0, 0, 200, 0.05).proven
    assert noninferiority(0, 20, 20, 0.1).largest_loss is None


@pytest.mark.parametrize("seed", range(60))
def test_letters_say_exactly_which_pairs_differ(seed: int) -> None:
    dice = random.Random(seed)
    names = [f"system {number}" for number in range(dice.randint(1, 8))]
    pairs = [frozenset(pair) for pair in combinations(names, 2)]
    different = {pair for pair in pairs if dice.random() < dice.choice((0.2, 0.5, 0.8))}
    letters = compact_letters(names, different)
    for pair in pairs:
        one, other = pair
        assert bool(set(letters[one]) & set(letters[other])) == (pair not in different)
    assert letters[names[0]].startswith("a") and all(letters.values())
    # No letter can be left out: each is the only one that some pair of equals shares, or that a system has.
    for letter in {each for found in letters.values() for each in found}:
        there = [name for name in names if letter in letters[name]]
        assert any(set(letters[a]) & set(letters[b]) == {letter} for a in there for b in there)
