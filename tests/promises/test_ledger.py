"""The bill of random runs over all service tiers and protocols is the ledger of the provider, to the token."""

import asyncio
import datetime
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tasks.backbone import tiers
from tasks.backbone.cache.store import SqliteReplyCache
from tasks.backbone.opening import RunResources, open_backbone
from tasks.backbone.protocol import Message, Reply, Request
from tasks.core.outcome import StageRecord
from tasks.scoring.cost import Cost, total_cost
from tasks.settings.backbone import BackboneSettings, MessagesSettings, Prices, Rates, ResponsesSettings
from tests.support.fake_batches import FakeAnthropicBatches, FakeOpenAIBatches
from tests.support.fake_openai import Behaviour, Body, FakeOpenAI, no_capacity
from tests.support.fake_responses import FakeResponses

RUNS = int(os.environ.get("CROSSCHECK_BILL_RUNS", "30"))
FLEX, BATCH = (1.0, 0.25, 1.25, 4.0), (0.8, 0.2, 1.0, 3.2)
STANDARD = (2.0, 0.5, 2.5, 8.0)
RATES = {"standard": STANDARD, "flex": FLEX, "batch": BATCH}
NAMES = ("input", "cached_input", "cache_write", "output")
PRICES = Prices(
    **dict(zip(NAMES, STANDARD, strict=True)),
    flex=Rates(**dict(zip(NAMES, FLEX, strict=True))),
    batch=Rates(**dict(zip(NAMES, BATCH, strict=True))),
    as_of=datetime.date(2026, 11, 1),
)
KINDS = {
    "openai": (BackboneSettings, FakeOpenAIBatches, ("standard", "flex", "batch")),
    "openai-responses": (ResponsesSettings, FakeResponses, ("standard", "flex")),
    "anthropic": (MessagesSettings, FakeAnthropicBatches, ("standard", "batch")),
}


def usage_of(kind: str, plain: int, read: int, written: int, out: int) -> Body:
    """Return a usage as the protocol writes it: Anthropic's input is without what its cache has to do with."""
    if kind == "anthropic":
        return {
            "input_tokens": plain, "cache_read_input_tokens": read, "cache_creation_input_tokens": written,
            "output_tokens": out, "service_tier": "standard",
        }  # fmt: skip
    details = {"cached_tokens": read, "cache_write_tokens": written}
    total = plain + read + written
    if kind == "openai":
        return {"prompt_tokens": total, "completion_tokens": out, "prompt_tokens_details": details}
    thoughts = {"reasoning_tokens": 0}
    return {
        "input_tokens": total, "input_tokens_details": details, "output_tokens": out,
        "output_tokens_details": thoughts, "total_tokens": total + out,
    }  # fmt: skip


class Ledger:
    """What a server charges for."""

    def __init__(self, server: FakeOpenAI, kind: str, tier: str, dice: random.Random) -> None:
        self.tokens: Counter[str] = Counter()
        self.usd = 0.0
        self._kind, self._tier, self._dice = kind, tier, dice
        server.respond = self._respond

    def _respond(self, body: Body) -> Behaviour:
        if body.get("service_tier") == "flex" and self._dice.random() < 0.4:
            return no_capacity()
        tier = "batch" if self._tier == "batch" else body.get("service_tier", "standard")
        counts = [self._dice.randrange(5000) for _ in NAMES]
        self.tokens.update(dict(zip(NAMES, counts, strict=True)))
        self.usd += sum(rate * count for rate, count in zip(RATES[tier], counts, strict=True)) / 1e6
        plain, read, written, out = counts
        return Behaviour(usage=usage_of(self._kind, plain, read, written, out))


async def run(folder: Path, settings: BackboneSettings, count: int) -> Cost:
    with SqliteReplyCache(folder / "replies.sqlite") as cache:
        async with open_backbone(settings, RunResources(cache)) as backbone:
            requests = [Request((Message("user", f"question {n}"),)) for n in range(count)]
            replies: list[Reply] = await asyncio.gather(*map(backbone.complete, requests))
    return total_cost(
        [StageRecord("s", "s", "k", restored=False, calls=tuple(each.call for each in replies))]
    )


@pytest.mark.slow
async def test_the_bill_is_the_ledger_in_random_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "FIRST_PAUSE_S", 0.001)
    dice, seen = random.Random(28), Counter[tuple[str, str]]()
    for number in range(RUNS):
        kind = dice.choice(list(KINDS))
        of_kind, server_of, offered = KINDS[kind]
        tier = dice.choice(offered)
        seen[kind, tier] += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        with server_of() as server:
            ledger = Ledger(server, kind, tier, dice)
            given: dict[str, Any] = {
                "name": "fake", "model": "fake-1", "base_url": server.base_url, "tier": tier, "prices": PRICES,
                "response_mode": "text", "flex_wait_s": 0.02, "batch_quiet_s": 0.01, "batch_poll_s": 0.01,
            }  # fmt: skip
            count = dice.randrange(1, 8)
            cost = await run(folder, of_kind(**given), count)
            charged, tokens = ledger.usd, ledger.tokens
            again = await run(folder, of_kind(**given), count)
        everything = sum(tokens[name] for name in NAMES[:3])
        assert (cost.calls, cost.input_tokens, cost.output_tokens) == (count, everything, tokens["output"])
        assert cost.cached_input_tokens == tokens["cached_input"]
        assert cost.cost_usd == pytest.approx(charged, rel=1e-12)
        assert cost.list_usd == pytest.approx((2 * everything + 8 * tokens["output"]) / 1e6, rel=1e-12)
        assert (again.calls, again.cost_usd) == (0, 0)
        assert again.reply_cache_usd == pytest.approx(charged, rel=1e-12)
        assert ledger.usd == charged
    assert len(seen) == 7, "not every tier of every protocol was tried"
