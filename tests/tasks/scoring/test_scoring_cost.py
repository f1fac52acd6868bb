"""The bill: what was paid, what was spared, and what nobody knows."""

import pytest

from tasks.scoring.cost import percentile, total_cost
from tests.tasks.scoring.samples import call, record


def test_paid_calls_are_added_up() -> None:
    cost = total_cost([record("a", call(1.0, retries=2), call(3.0)), record("b", call(2.0))])
    assert (cost.calls, cost.cached_calls, cost.retries) == (3, 0, 2)
    assert (cost.input_tokens, cost.output_tokens, cost.cost_usd) == (30, 30, 1.5)
    assert (cost.p50_s, cost.p95_s) == (2.0, pytest.approx(2.9))


def test_cached_and_restored_calls_cost_nothing_and_are_counted_apart() -> None:
    cost = total_cost(
        [record("a", call(9.0), call(9.0, retries=3), restored=True), record("b", call(0.0, cached=True))]
    )
    assert (cost.calls, cost.cached_calls, cost.retries) == (0, 3, 0)
    assert (cost.input_tokens, cost.cost_usd, cost.p50_s) == (0, 0, None)


def test_one_call_without_a_price_makes_the_sum_unknown() -> None:
    cost = total_cost([record("a", call(), call(cost=None, tokens=None))])
    assert cost.calls == 2
    assert cost.cost_usd is None
    assert cost.input_tokens is None


def test_a_cached_call_without_a_price_does_not() -> None:
    assert total_cost([record("a", call(), call(cost=None, cached=True))]).cost_usd == 0.5


def test_tokens_that_the_api_never_reports_are_unknown_and_not_zero() -> None:
    cost = total_cost([record("a", call())])
    assert cost.reasoning_tokens is None
    assert cost.cached_input_tokens is None


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([], 50, None),
        ([4.0], 95, 4.0),
        ([1.0, 2.0, 3.0, 4.0], 50, 2.5),
        ([1.0, 2.0], 100, 2.0),
        ([1.0, 2.0], 0, 1.0),
    ],
)
def test_percentiles(values: list[float], percent: float, expected: float | None) -> None:
    assert percentile(values, percent) == expected
