"""The paired test against scipy, the interval against counting, the verdict against the published thresholds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from tasks.core.errors import ConfigurationError
from tasks.scoring.repeated import compare_repeated
from tasks.scoring.report import wilson
from tasks.scoring.significance import (
    bootstrap_interval,
    compare_runs,
    holm,
    mcnemar,
    needed_net,
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


def test_who_is_better_depends_on_the_direction() -> None:
    a, b = runs(40, 5, 200)
    assert compare_runs(a, b).verdict.startswith("B beats A by 17.50 points")
    assert compare_runs(b, a).verdict.startswith("A beats B by 17.50 points")


def test_flipped_questions_are_listed_in_order() -> None:
    found = compare_runs({"0": True, "1": False, "2": True}, {"2": True, "1": True, "0": False})
    assert (found.fixed, found.broken) == (("1",), ("0",))
    assert (found.right_a, found.right_b, found.questions) == (2, 2, 3)


def test_questions_that_only_one_run_scored_are_left_out_and_named() -> None:
    found = compare_runs({"0": True, "1": True}, {"1": False, "2": True})
    assert (found.questions, found.only_a, found.only_b) == (1, ("0",), ("2",))


def test_runs_without_a_common_question_are_refused() -> None:
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


def test_equal_runs_differ_by_nothing() -> None:
    found = compare_runs(*runs(0, 0, 50))
    assert (found.p_value, found.low, found.high) == (1.0, 0.0, 0.0)


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


def test_equal_runs_are_not_ranked_and_said_to_be_equal() -> None:
    found = compare_runs(*runs(0, 0, 50))
    assert (
        found.verdict
        == "No difference: both runs are right on the same 50 and wrong on the same 0 of 50 questions."
    )
    assert found.better is None


def test_inside_the_noise_says_what_it_would_take() -> None:
    assert compare_runs(*runs(26, 14, 1534)).reason.endswith(
        "40 answers differ, so p < 0.05 needs a net of 14 (0.91 points); this is 12."
    )
    assert compare_runs(*runs(4, 1, 1534)).reason.endswith(
        "Only 5 answers differ: too few for p < 0.05, however they fall."
    )
