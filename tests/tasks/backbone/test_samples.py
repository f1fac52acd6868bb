"""Samples of one request in one HTTP request, with `n`."""

import asyncio
import datetime
from pathlib import Path

import pytest

from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.opening import RunResources, open_backbone
from tasks.core.errors import BackboneError
from tasks.core.outcome import Call
from tasks.settings.backbone import BackboneSettings, Prices
from tests.support.fake_openai import Behaviour, FakeOpenAI, error, rate_limit
from tests.tasks.backbone.conftest import asking, make_settings

PRICES = Prices(input=1.0, output=10.0, as_of=datetime.date(2026, 11, 1))
USAGE = {"prompt_tokens": 1000, "completion_tokens": 302}


@pytest.fixture
def settings(fake_openai: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> BackboneSettings:
    fake_openai.takes_n = True
    changes = {"response_mode": "text", "temperature": 0.8, "seed": 7, "prices": PRICES}
    return make_settings(fake_openai, api_key_env=None, samples_per_request=8, **changes)


async def ask(settings: BackboneSettings, folder: Path, samples: int, text: str = "q") -> list[Call]:
    """Request samples of one request at the same time; return their calls."""
    with open_reply_cache(folder / "replies.sqlite") as cache:
        async with open_backbone(settings, RunResources(cache=cache)) as backbone:
            requests = [asking(text, sample=sample) for sample in range(samples)]
            replies = await asyncio.gather(*(backbone.fresh().complete(each) for each in requests))
    return [reply.call for reply in replies]


def sent(server: FakeOpenAI) -> list[int | None]:
    return [each.body.get("n") for each in server.requests]


async def test_samples_are_one_request_whose_sum_is_the_bill(
    fake_openai: FakeOpenAI, settings: BackboneSettings, tmp_path: Path
) -> None:
    fake_openai.script(Behaviour(usage=USAGE))
    calls = await ask(settings, tmp_path, 4)
    assert sent(fake_openai) == [4] and fake_openai.requests[0].body["seed"] == 7
    assert [each.usage.input for each in calls] == [1000, 0, 0, 0]
    assert [each.usage.output for each in calls] == [76, 76, 75, 75]
    assert sum(each.cost_usd or 0 for each in calls) == pytest.approx((1000 * 1 + 302 * 10) / 1e6)
    assert len({each.request for each in calls}) == 4, "each has a key of its own"

    again = await ask(settings, tmp_path, 6)
    assert [each.cached for each in again] == [True] * 4 + [False] * 2
    assert sent(fake_openai) == [4, 2], "only those that are missing are bought"


async def test_more_samples_than_fit_are_several_requests_and_others_stay_apart(
    fake_openai: FakeOpenAI, settings: BackboneSettings, tmp_path: Path
) -> None:
    await ask(settings, tmp_path, 11)
    assert sorted(sent(fake_openai)) == [3, 8]  # at the same time, in any order
    await asyncio.gather(*(ask(settings, tmp_path, 1, name) for name in ("a", "b")))
    assert sent(fake_openai)[2:] == [None, None]


async def test_an_endpoint_that_ignores_n_is_asked_for_the_rest_one_by_one(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    fake_openai.takes_n = False
    async with open_backbone(settings) as backbone:
        for text in ("a", "b"):
            requests = [asking(text, sample=sample) for sample in range(3)]
            await asyncio.gather(*(backbone.fresh().complete(each) for each in requests))
    assert sent(fake_openai) == [3, None, None, None, None, None]


async def test_a_sample_that_was_interrupted_is_requested_again_alone(
    fake_openai: FakeOpenAI, settings: BackboneSettings, tmp_path: Path
) -> None:
    whole = {"message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
    broken = {"message": {"role": "assistant", "content": ""}, "finish_reason": "error"}
    fake_openai.script(Behaviour(body={"model": "m", "choices": [whole, whole, broken], "usage": USAGE}))
    calls = await ask(settings, tmp_path, 3)
    assert sent(fake_openai) == [3, None]
    assert [each.usage.output for each in calls[:2]] == [151, 151]


async def test_a_rate_limit_is_waited_for_once_and_a_refused_parameter_named(
    fake_openai: FakeOpenAI, settings: BackboneSettings, tmp_path: Path
) -> None:
    fake_openai.script(rate_limit(0.01))
    await ask(settings, tmp_path, 3)
    assert sent(fake_openai) == [3, 3]
    fake_openai.always(error(400, "Unsupported parameter: 'n'"))
    with pytest.raises(BackboneError, match=r"backbone\.samples_per_request=1"):
        await ask(settings, tmp_path, 3, "other")
    assert sent(fake_openai) == [3, 3, 3]
