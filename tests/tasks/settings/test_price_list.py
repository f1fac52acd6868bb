"""Prices of the installed list beside the list's own computation of a cost."""

import datetime
from typing import Any

import genai_prices
import pytest

from tasks.backbone.pricing import cost
from tasks.core.outcome import Usage
from tasks.settings.backbone import BackboneSettings, Prices
from tasks.settings.load import with_listed_prices

DAY = datetime.date(2026, 11, 1)
CONTEXTS: dict[str, dict[str, str] | None] = {
    "standard": None,
    "flex": {"service_tier": "flex"},
    "batch": {"processing": "batch"},
}


def listed(model: str, **more: Any) -> Prices | None:
    return with_listed_prices(BackboneSettings(name="m", model=model, **more)).prices


@pytest.mark.parametrize("tier", CONTEXTS)
@pytest.mark.parametrize("model", ["gpt-5.4-mini", "gpt-5.4", "gpt-5.6-sol"])
def test_a_cost_is_the_one_that_the_list_itself_computes(model: str, tier: str) -> None:
    prices = listed(model)
    assert prices is not None and prices.source.startswith("genai-prices ")
    usage = genai_prices.Usage(input_tokens=9000, cache_read_tokens=4000, output_tokens=700)
    theirs = genai_prices.calc_price(
        usage, model, provider_id="openai", price_context=CONTEXTS[tier]
    ).total_price
    assert cost(Usage(input=9000, cached_input=4000, output=700), prices, tier) == pytest.approx(
        float(theirs)
    )


def test_a_longer_prompt_than_the_prices_are_for_has_no_known_cost() -> None:
    prices = listed("gpt-5.4")
    assert prices is not None and prices.most_input is not None
    assert cost(Usage(input=prices.most_input, output=0), prices) is not None
    assert cost(Usage(input=prices.most_input + 1, output=0), prices) is None


@pytest.mark.parametrize(("model", "address"), [
    ("gpt-5.4", "http://127.0.0.1:8000/v1"),
    ("gpt-5.4", "http://localhost:4000/v1"),
    ("gpt-5.4", "https://gateway.example.com/v1"),  # may charge another price
    ("deepseek-chat", "https://api.deepseek.com/v1"),  # the price depends on the hour
    ("no-such-model", None),
])  # fmt: skip
def test_there_is_no_price_that_may_be_wrong(model: str, address: str | None) -> None:
    assert listed(model, base_url=address) is None


def test_prices_of_the_file_are_kept_and_get_the_tiers_of_the_same_price_only() -> None:
    own = Prices(input=0.75, output=4.5, as_of=DAY)
    found = listed("gpt-5.4-mini", prices=own)
    assert found is not None and found.flex is not None
    assert (found.input, found.as_of, found.flex.input) == (0.75, DAY, 0.375)
    assert found.source.startswith("flex, batch: genai-prices ")
    other = own.model_copy(update={"output": 9.0})
    assert listed("gpt-5.4-mini", prices=other) == other


def test_prices_of_another_model_are_replaced() -> None:
    own = Prices(input=1.0, output=1.0, as_of=DAY, model="gpt-4.1")
    found = listed("gpt-5.4-mini", prices=own)
    assert found is not None and found.model == "gpt-5.4-mini"
