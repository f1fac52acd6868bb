"""What a call costs: cache writes, the endpoint's own figure, and what does not make a request another one."""

import datetime
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tasks.backbone.budget import Budget
from tasks.backbone.cache.store import SqliteReplyCache
from tasks.backbone.endpoint.chat import answer_of
from tasks.backbone.endpoint.wire import identity_of
from tasks.backbone.opening import RunResources, backbone_of
from tasks.backbone.pricing import cost, prices_for
from tasks.backbone.protocol import Message, Reply, Request, request_key
from tasks.core.errors import BackboneError
from tasks.core.outcome import Call, StageRecord, Usage
from tasks.scoring.cost import in_words, total_cost
from tasks.settings.backbone import BackboneSettings, Prices
from tests.support.fake_openai import Behaviour
from tests.tasks.backbone.conftest import Endpoint

PRICES = Prices(input=2.0, cached_input=0.5, cache_write=2.5, output=8.0, as_of=datetime.date(2026, 11, 1))


def answered(usage: dict[str, Any]) -> Any:
    choice = {"message": {"content": "x"}, "finish_reason": "stop"}
    return answer_of(json.dumps({"model": "m", "choices": [choice], "usage": usage}))[0].call


def test_openai_bills_reads_and_writes_of_its_prompt_cache_apart() -> None:
    details = {"cached_tokens": 100_000, "cache_write_tokens": 300_000}
    total = {"prompt_tokens": 1_000_000, "completion_tokens": 10_000}
    usage = answered(total | {"prompt_tokens_details": details}).usage
    assert (usage.cached_input, usage.cache_write) == (100_000, 300_000)
    # 0.6 M ordinary at 2, 0.1 M read at 0.5, 0.3 M written at 2.5, 0.01 M out at 8
    assert cost(usage, PRICES) == pytest.approx(1.2 + 0.05 + 0.75 + 0.08)


def test_anthropics_name_for_cache_writes_is_read_too() -> None:
    usage = answered({"prompt_tokens": 10, "completion_tokens": 1, "cache_creation_input_tokens": 7}).usage
    assert usage.cache_write == 7


@pytest.mark.parametrize(("reported", "read", "written"), [
    # Kimi, page "Chat Completions"
    ({"prompt_tokens": 19, "completion_tokens": 21, "total_tokens": 40, "cached_tokens": 10}, 10, None),
    # Alibaba Cloud Model Studio, page "Context cache"
    ({"prompt_tokens_details": {"cached_tokens": 0, "cache_creation_input_tokens": 12}}, 0, 12),
    # DeepSeek, page "Context Caching"
    ({"prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 11}, 8, None),
], ids=["Kimi", "DashScope", "DeepSeek"])  # fmt: skip
def test_other_names_for_the_prompt_cache_are_read(
    reported: dict[str, Any], read: int, written: int | None
) -> None:
    usage = answered({"prompt_tokens": 19, "completion_tokens": 21} | reported).usage
    assert (usage.input, usage.cached_input, usage.cache_write, usage.output) == (19, read, written, 21)


@pytest.mark.parametrize(
    ("ticks", "usd"), [(37_756_000, 0.0037756), (0, None), (-1, None), (10**400, None), ("1", None)]
)
def test_the_cost_of_xai_is_read_in_its_unit(ticks: object, usd: float | None) -> None:
    """Page "Cost Tracking": 1 USD is 10,000,000,000 ticks."""
    assert answered({"prompt_tokens": 1, "completion_tokens": 1, "cost_in_usd_ticks": ticks}).cost_usd == usd


def test_a_write_without_a_price_makes_the_cost_unknown_and_not_too_low() -> None:
    prices = PRICES.model_copy(update={"cache_write": None})
    assert cost(Usage(input=10, output=1, cache_write=5), prices) is None
    assert cost(Usage(input=10, output=1, cache_write=0), prices) is not None


@pytest.mark.parametrize("given", [-1, True, "0.1", float("inf"), 1e9, None])
def test_a_gateways_cost_is_read_and_an_implausible_one_not_believed(given: Any) -> None:
    assert answered({"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.00014}).cost_usd == 0.00014
    assert answered({"prompt_tokens": 1, "completion_tokens": 1, "cost": given}).cost_usd is None


@pytest.mark.parametrize("field", [
    {"service_tier": "flex"},
    {"prompt_cache_key": "bird"},
    {"user": "me"},
    {"provider": {"order": ["a"]}},
    {"metadata": {"team": "x"}},
])  # fmt: skip
def test_a_tier_a_cache_key_a_tag_and_a_route_make_no_other_request(field: dict[str, Any]) -> None:
    plain = BackboneSettings(name="m", model="m")
    assert identity_of(plain.model_copy(update={"extra_body": field})) == identity_of(plain)
    assert identity_of(plain.model_copy(update={"extra_body": {"top_p": 0.1}})) != identity_of(plain)


def call(request: str, **facts: Any) -> Call:
    return Call(request, "m", Usage(), **{"cached": False, "seconds": 1.0, **facts})


def record(*calls: Call, restored: bool = False, stage: str = "sql") -> StageRecord:
    return StageRecord(stage, stage, None, restored, calls)


def test_a_run_from_the_cache_costs_from_scratch_what_it_cost_when_it_was_paid() -> None:
    paid = total_cost([record(call("a", cost_usd=0.25), call("b", cost_usd=0.5))])
    assert (paid.cost_usd, paid.from_scratch_usd) == (0.75, 0.75)
    cached = call("a", cached=True, cost_usd=0.0, from_scratch_usd=0.25)
    again = total_cost([record(cached), record(call("b", cost_usd=0.5), restored=True)])
    assert (again.cost_usd, again.from_scratch_usd) == (0, 0.75)
    assert in_words(again) == "paid $0.0000; $0.7500 from scratch"


def test_a_request_that_came_twice_is_paid_once_from_scratch_and_a_failed_attempt_is_not_made() -> None:
    repeated = call("a", cached=True, cost_usd=0.0, from_scratch_usd=0.25)
    failed = record(call("c", cost_usd=1.0), stage="failed_attempt")
    found = total_cost([record(call("a", cost_usd=0.25), repeated), failed])
    assert (found.cost_usd, found.from_scratch_usd) == (1.25, 0.25)


def test_unknown_costs_stay_unknown() -> None:
    assert total_cost([record(call("a", cached=True, cost_usd=0.0))]).from_scratch_usd is None


def test_the_endpoints_figures_are_said_to_be_its_own() -> None:
    found = total_cost([record(call("a", cost_usd=0.25, cost_source="endpoint"), call("b", cost_usd=0.5))])
    assert in_words(found) == "paid $0.7500; cost of 1 of 2 calls as the endpoint reported it"
    single = total_cost([record(call("a", cost_usd=0.25, cost_source="endpoint"))])
    assert in_words(single) == "paid $0.2500; cost of 1 of 1 call as the endpoint reported it"


class Priced:
    """A backbone whose replies cost what a test says; None is unknown."""

    identity: ClassVar[dict[str, str]] = {}

    def __init__(self, *costs: float | None) -> None:
        self.costs = list(costs)

    async def complete(self, request: Request) -> Reply:
        return Reply("SELECT 1", call(request_key(self.identity, request), cost_usd=self.costs.pop(0)))


async def test_a_budget_stops_on_an_unknown_cost_and_not_on_replies_from_the_cache(tmp_path: Path) -> None:
    unpriced = BackboneSettings(name="m", model="m")
    with SqliteReplyCache(tmp_path / "replies.sqlite") as cache:
        budget = Budget(1.0)
        backbone = backbone_of(Priced(0.2, None), unpriced, RunResources(cache, budget))
        first, second, third = (Request((Message("user", text),)) for text in ("a", "b", "c"))
        await backbone.complete(first)
        await backbone.complete(second)
        with pytest.raises(BackboneError, match=r"unknown, so the budget of \$1\.0000 cannot be kept"):
            await backbone.complete(third)
        assert (await backbone.complete(first)).call.cached, "a stored reply costs nothing"
        assert budget.refused and budget.spent_usd == 0.2 and budget.known_usd is None


@pytest.mark.parametrize(("usage", "prices", "cost"), [
    ({"cost": 0.0}, None, 0.0),
    ({"cost": 0.0}, 2.0, 0.000026),
    ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.036}}, 2.0, 0.036),
    ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0}}, 2.0, 0.000026),
    ({"cost": 0, "cost_details": {"upstream_inference_cost": 0.036}}, None, 0.036),
    ({"cost": 0, "is_byok": True}, None, None),
    ({"cost": 0.002, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.036}}, 2.0, 0.038),
    ({"cost": 0.002, "is_byok": True}, 2.0, 0.000026),
    ({"cost": 0.95, "cost_details": {"upstream_inference_cost": 19}}, 2.0, 19.95),
    ({"cost": 0.002, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.002}}, 2.0, 0.002),
    ({"cost": 0.002, "is_byok": True, "cost_details": {"upstream_inference_cost": "x"}}, 2.0, 0.000026),
])  # fmt: skip
async def test_the_cost_is_that_of_gateway_and_provider_and_a_zero_that_stands_for_not_counted_is_priced(
    endpoint: Endpoint, usage: Any, prices: float | None, cost: float | None
) -> None:
    """The fields are those of OpenRouter's guide "Usage accounting" and of its page on keys of one's own (BYOK)."""
    endpoint.server.always(Behaviour(usage={"prompt_tokens": 10, "completion_tokens": 3} | usage))
    dated = prices and Prices(input=prices, output=prices, as_of=datetime.date(2026, 11, 1))
    async with endpoint.open(prices=dated) as backbone:
        reply = await backbone.complete(Request((Message("user", "q"),)))
    assert reply.call.cost_usd == (None if cost is None else pytest.approx(cost))


DAY = datetime.date(2026, 1, 1)
LISTED = Prices(input=1.0, cached_input=0.25, output=4.0, as_of=DAY)


@pytest.mark.parametrize(("usage", "prices", "expected"), [
    (Usage(1_000_000, 0, 1_000_000), LISTED, 5.0),
    (Usage(1_000_000, 400_000, 0), LISTED, 0.7),
    (Usage(1_000_000, None, 0), LISTED, 1.0),
    (Usage(1_000_000, 400_000, 0), Prices(input=1.0, output=4.0, as_of=DAY), 1.0),
    (Usage(100, 400, 0), LISTED, 100 * 0.25 / 1e6),
    (Usage(0, 0, 0), LISTED, 0.0),
    (Usage(10, 0, 1_000_000, reasoning=900_000), Prices(input=0, output=4.0, as_of=DAY), 4.0),
    (Usage(None, 0, 5), LISTED, None),
    (Usage(5, 0, None), LISTED, None),
    (Usage(5, 0, 5), None, None),
])  # fmt: skip
def test_a_call_costs_its_tokens(usage: Usage, prices: Prices | None, expected: float | None) -> None:
    assert cost(usage, prices) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(("of", "asked", "known"), [(None, "b", True), ("a", "a", True), ("a", "b", False)])
def test_prices_of_one_model_are_not_those_of_another(of: str | None, asked: str, known: bool) -> None:
    prices = Prices(input=1.0, output=1.0, as_of=DAY, model=of)
    assert (prices_for(BackboneSettings(name="x", model=asked, prices=prices)) is not None) is known
