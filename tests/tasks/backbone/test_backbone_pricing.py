"""Money is tokens times a dated price, or unknown."""

import datetime

import pytest

from tasks.backbone.pricing import cost, prices_for
from tasks.core.outcome import Usage
from tasks.settings.backbone import BackboneSettings, Prices

DAY = datetime.date(2026, 1, 1)
PRICES = Prices(input=1.0, cached_input=0.25, output=4.0, as_of=DAY)


@pytest.mark.parametrize(
    ("usage", "prices", "expected"),
    [
        (Usage(1_000_000, 0, 1_000_000), PRICES, 5.0),
        (Usage(1_000_000, 400_000, 0), PRICES, 0.7),
        (Usage(1_000_000, None, 0), PRICES, 1.0),
        (Usage(1_000_000, 400_000, 0), Prices(input=1.0, output=4.0, as_of=DAY), 1.0),
        (Usage(100, 400, 0), PRICES, 100 * 0.25 / 1e6),
        (Usage(0, 0, 0), PRICES, 0.0),
        (Usage(10, 0, 1_000_000, reasoning=900_000), Prices(input=0, output=4.0, as_of=DAY), 4.0),
        (Usage(None, 0, 5), PRICES, None),
        (Usage(5, 0, None), PRICES, None),
        (Usage(5, 0, 5), None, None),
    ],
)
def test_a_call_costs_what_its_tokens_cost(
    usage: Usage, prices: Prices | None, expected: float | None
) -> None:
    assert cost(usage, prices) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(("of", "asked", "known"), [(None, "b", True), ("a", "a", True), ("a", "b", False)])
def test_prices_of_one_model_are_not_those_of_another(of: str | None, asked: str, known: bool) -> None:
    prices = Prices(input=1.0, output=1.0, as_of=DAY, model=of)
    assert (prices_for(BackboneSettings(name="x", model=asked, prices=prices)) is not None) is known
