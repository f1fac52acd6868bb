"""The test of successive scores for a decline, beside a library's and on scores whose trend is known."""

import random

import pytest
from scipy.stats import kendalltau, theilslopes

from tasks.results.night import MIN_SCORES, trend_of

STEADY = [0.6] * 14


@pytest.mark.parametrize("seed", range(5))
def test_slope_and_sign_are_those_of_a_library(seed: int) -> None:
    drawn = random.Random(seed)
    scores = [round(0.6 - 0.002 * night + drawn.gauss(0, 0.01), 2) for night in range(20)]
    found = trend_of(scores)
    assert found is not None
    assert found.slope == pytest.approx(theilslopes(scores).slope)
    library = kendalltau(range(20), scores, alternative="less", method="asymptotic")
    assert found.p_value == pytest.approx(library.pvalue, abs=0.02), (
        "which corrects for ties, not for continuity"
    )


def test_what_stays_or_rises_does_not_decline() -> None:
    for scores in (STEADY, [0.5 + 0.01 * night for night in range(14)]):
        found = trend_of(scores)
        assert found is not None and found.p_value == 1.0 and found.change >= 0


def test_one_bad_night_is_no_trend_and_a_step_is_one_once_half_of_the_scores_are_below_it() -> None:
    for lower, slope in ((1, 0.0), (3, 0.0), (8, -0.005)):
        found = trend_of(STEADY[lower:] + [0.55] * lower)
        assert found is not None
        assert round(found.slope, 3) == pytest.approx(slope, abs=0.001)


def test_few_scores_have_no_trend() -> None:
    assert trend_of(STEADY[: MIN_SCORES - 1]) is None
