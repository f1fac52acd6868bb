"""Service tiers against a server that lacks capacity (OpenAI's guide "Flex processing"), and the bill."""

import asyncio
import datetime
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from tasks.backbone import tiers
from tasks.backbone.kind import check_backbone
from tasks.backbone.opening import RunResources, open_backbone
from tasks.backbone.protocol import Reply
from tasks.backbone.tiers import Pace
from tasks.core.errors import BackboneError, ConfigurationError
from tasks.core.outcome import StageRecord
from tasks.scoring.cost import total_cost
from tasks.settings.backbone import BackboneSettings, MessagesSettings, Prices, Rates
from tests.support.fake_openai import Behaviour, FakeOpenAI, error, no_capacity
from tests.tasks.backbone.conftest import asking, make_settings

PRICES = Prices(
    input=2.0,
    cached_input=0.5,
    cache_write=2.5,
    output=8.0,
    flex=Rates(input=1.0, cached_input=0.25, cache_write=1.25, output=4.0),
    as_of=datetime.date(2026, 11, 1),
)


MILLION = Behaviour(usage={"prompt_tokens": 10**6, "completion_tokens": 0})


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(tiers, "MAX_PAUSE_S", 0.02)


def flex(server: FakeOpenAI, **changes: Any) -> BackboneSettings:
    return make_settings(
        server, tier="flex", prices=PRICES, response_mode="text", api_key_env=None, **changes
    )


async def ask(settings: BackboneSettings, count: int = 1, pace: Pace | None = None) -> list[Reply]:
    async with open_backbone(settings, RunResources(pace=pace or Pace(None))) as backbone:
        return await asyncio.gather(*(backbone.complete(asking(f"question {n}")) for n in range(count)))


def sent(server: FakeOpenAI) -> list[str]:
    return [received.body.get("service_tier", "standard") for received in server.requests]


async def test_a_request_waits_for_capacity_and_is_charged_as_flex(fake_openai: FakeOpenAI) -> None:
    fake_openai.script(no_capacity(), no_capacity(), MILLION)
    call = (await ask(flex(fake_openai)))[0].call
    assert sent(fake_openai) == ["flex"] * 3
    assert (call.tier, call.retries, call.cost_usd, call.list_usd) == ("flex", 2, 1.0, 2.0)


async def test_after_the_limit_it_is_sent_and_charged_in_the_standard_tier(fake_openai: FakeOpenAI) -> None:
    fake_openai.respond = lambda body: no_capacity() if "service_tier" in body else MILLION
    call = (await ask(flex(fake_openai, flex_wait_s=0.05)))[0].call
    assert sent(fake_openai)[-1] == "standard" and sent(fake_openai).count("standard") == 1
    assert (call.tier, call.cost_usd) == ("standard", 2.0)


async def test_the_tier_that_the_answer_names_is_charged(fake_openai: FakeOpenAI) -> None:
    fake_openai.tier = lambda body: "default"
    assert (await ask(flex(fake_openai)))[0].call.tier == "standard"
    fake_openai.tier = lambda body: "priority"
    call = (await ask(flex(fake_openai)))[0].call
    assert (call.tier, call.cost_usd) == ("priority", None)


async def test_groqs_refusal_is_one_too_and_another_rate_limit_is_none(fake_openai: FakeOpenAI) -> None:
    full = error(498, "Flex tier capacity exceeded", code="capacity_exceeded")
    fake_openai.script(full, error(429, "Rate limit reached", retry_after_ms="1"))
    assert (await ask(flex(fake_openai, flex_wait_s=5)))[0].call.tier == "flex"
    assert sent(fake_openai) == ["flex"] * 3


async def test_a_model_without_the_tier_names_the_setting(fake_openai: FakeOpenAI) -> None:
    fake_openai.always(error(400, "service_tier flex is not supported", type_="invalid_request_error"))
    with pytest.raises(BackboneError, match=r"set backbone\.tier=standard"):
        await ask(flex(fake_openai))
    assert len(fake_openai.requests) == 1


async def test_a_late_run_is_sent_in_the_standard_tier_until_it_is_on_time(fake_openai: FakeOpenAI) -> None:
    now = 1_000_000.0
    pace = Pace(datetime.datetime.fromtimestamp(now + 100, datetime.UTC), lambda: now)
    pace.begin(20)
    await ask(flex(fake_openai), pace=pace)
    now += 60
    for _ in range(5):
        pace.answered()
    assert pace.late  # 15 questions at 12 s each, and 40 s are left
    await ask(flex(fake_openai), pace=pace)
    for _ in range(12):
        pace.answered()
    assert not pace.late  # 3 questions at 3.5 s each
    await ask(flex(fake_openai), pace=pace)
    assert sent(fake_openai) == ["flex", "standard", "flex"]


async def test_the_bill_is_the_ledger_of_the_endpoint(fake_openai: FakeOpenAI) -> None:
    """The server keeps the ledger: what it charges for each answer, in exact decimals, by the prices of its tier."""
    dice, ledger, tokens, tiers_of = random.Random(7), Decimal(), Counter[str](), Counter[str]()
    rates = {"flex": ("1", "0.25", "1.25", "4"), "default": ("2", "0.5", "2.5", "8")}

    def respond(body: dict[str, Any]) -> Behaviour:
        nonlocal ledger
        if body.get("service_tier") == "flex" and dice.random() < 0.5:
            return no_capacity()
        tier = body.get("service_tier", "default")
        read, written, plain, out = (dice.randrange(9999) for _ in range(4))
        counts = dict(zip(("plain", "read", "written", "out"), (plain, read, written, out), strict=True))
        tokens.update(counts)
        tiers_of[tier] += 1
        charged = zip(rates[tier], counts.values(), strict=True)
        ledger += sum(Decimal(price) * count for price, count in charged)
        details = {"cached_tokens": read, "cache_write_tokens": written}
        total = {"prompt_tokens": plain + read + written, "completion_tokens": out}
        return Behaviour(usage=total | {"prompt_tokens_details": details})

    fake_openai.respond = respond
    replies = await ask(flex(fake_openai, flex_wait_s=0.03, concurrency=4), count=200)
    cost = total_cost([StageRecord("s", "s", "k", restored=False, calls=tuple(r.call for r in replies))])
    assert cost.calls == 200 and cost.flex_calls == tiers_of["flex"] and tiers_of["default"]
    assert cost.cost_usd == pytest.approx(float(ledger / 10**6), rel=1e-12)
    everything = tokens["plain"] + tokens["read"] + tokens["written"]
    assert (cost.input_tokens, cost.output_tokens) == (everything, tokens["out"])
    assert cost.list_usd == pytest.approx((2 * everything + 8 * tokens["out"]) / 10**6)
    cache = (2 - 0.5) * tokens["read"] + (2 - 2.5) * tokens["written"]
    assert cost.prompt_cache_usd == pytest.approx(cache / 10**6)
    assert cost.list_usd - cost.prompt_cache_usd - (cost.tier_usd or 0) == pytest.approx(cost.cost_usd)


@pytest.mark.parametrize(("changes", "message"), [
    ({"finish_by": "07:00"}, "set backbone.tier to flex or batch"),
    ({"finish_by": "soon", "tier": "flex"}, "neither a time of day"),
])  # fmt: skip
def test_a_time_to_finish_is_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BackboneSettings(name="m", model="m", **changes)


def test_a_kind_without_the_tier_is_refused_before_anything_is_sent() -> None:
    for kind, valid in (("anthropic", "standard or batch"), ("offline", "standard")):
        with pytest.raises(ConfigurationError, match=rf"has no such tier\. Set it to {valid}\."):
            refused = BackboneSettings(name="m", model="m", kind=kind, tier="flex")
            check_backbone(refused, sends_requests=False)
    batch = MessagesSettings(name="m", model="m", tier="batch")
    check_backbone(batch, sends_requests=False)
