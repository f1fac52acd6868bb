"""How long an endpoint is waited for, and what it may refuse: counted in requests that reach a real server."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tasks.backbone.endpoint import limiter, retry_policy
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.endpoint.connection import import_client
from tasks.backbone.endpoint.failures import Refusal
from tasks.backbone.endpoint.retry_policy import UNREACHABLE_S, RetryPolicy, longest_call, longest_call_s
from tasks.backbone.protocol import Message, Request
from tasks.core.errors import BackboneError
from tasks.settings.backbone import BackboneSettings
from tests.support.fake_openai import Behaviour, FakeOpenAI, dropped, error, hang
from tests.tasks.backbone.conftest import ASK, failure

MOST = 7
"""Requests of one call, by default."""


@pytest.fixture
def closed_port() -> Iterator[str]:
    """A base_url that nobody listens at."""
    with contextlib.closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/v1"


def moved(location: str, status: int = 307) -> Behaviour:
    return Behaviour(status, {}, {"location": location})


def test_how_long_a_call_can_take_follows_from_the_settings() -> None:
    assert retry_policy.FIRST_PAUSE_S == 0.001  # as these tests set it
    settings = BackboneSettings(name="x", timeout_s=10, retries=2, max_wait_s=60)
    assert longest_call_s(settings, asked_to_wait=False) == pytest.approx(30.003)
    assert longest_call_s(settings, asked_to_wait=True) == 1830
    assert longest_call(settings) == (
        "A model call is at most 3 requests and ends within 30 s, 30 min 30 s if the endpoint asks to wait each time."
    )


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed_and_names_the_setting(
    fake_openai: FakeOpenAI, settings: BackboneSettings, status: int
) -> None:
    with FakeOpenAI() as elsewhere:
        fake_openai.always(moved(f"{elsewhere.base_url}/chat/completions", status))
        caught = await failure(settings)
        assert elsewhere.requests == [] and len(fake_openai.requests) == 1
    assert caught.fatal and elsewhere.base_url in str(caught) and "Set backbone.base_url" in str(caught)


async def test_an_endpoint_that_is_not_there_stops_all_questions_with_one_message(
    closed_port: str, settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_policy, "UNREACHABLE_S", 0.3)
    monkeypatch.setattr(retry_policy, "FIRST_PAUSE_S", 0.1)
    settings = settings.model_copy(update={"base_url": closed_port, "max_wait_s": 60.0})
    started = time.monotonic()
    async with EndpointBackbone(settings) as backbone:
        calls = (backbone.complete(Request((Message("user", str(n)),))) for n in range(40))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert time.monotonic() - started < 30  # one pause may be 60 s
    assert {type(outcome) for outcome in outcomes} == {BackboneError}
    messages = {str(outcome) for outcome in outcomes}
    assert len(messages) == 1 and all(outcome.fatal for outcome in outcomes)  # type: ignore[union-attr]
    (message,) = messages
    assert "not answered one request" in message and "backbone.base_url" in message and "\n" not in message


def test_an_unreachable_endpoint_is_given_up_within_thirty_seconds_by_default() -> None:
    owner, now, requests = RetryPolicy(BackboneSettings(name="x")), 100.0, 0
    lost = Refusal("connection", "connection failed", "Is it up?")
    while True:
        requests += 1
        owner.sent(now)
        now += retry_policy.CONNECT_S if now - 100.0 >= UNREACHABLE_S else 0.1
        decision = owner.decide(lost, "prompt", requests, now)
        if decision.pause_s is None:
            break
        now += decision.pause_s
    assert decision.fatal and requests <= MOST and now - 100.0 <= 30.0


async def test_a_lost_connection_of_an_endpoint_that_has_answered_costs_its_question_only(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    async with EndpointBackbone(settings) as backbone:
        await backbone.complete(ASK)
        fake_openai.always(dropped())
        with pytest.raises(BackboneError) as caught:
            await backbone.complete(ASK)
        assert caught.value.transient and not caught.value.fatal
    assert len(fake_openai.requests) == 1 + MOST


async def test_an_endpoint_that_only_takes_connections_stops_the_run_after_two_timeouts(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    fake_openai.always(hang())
    caught = await failure(settings.model_copy(update={"timeout_s": 0.5}))
    assert caught.fatal and caught.transient and "Raise backbone.timeout_s" in str(caught)
    assert len(fake_openai.requests) == 2


async def test_an_endpoint_that_answers_nothing_at_all_stops_the_run_before_a_request_is_sent(
    fake_openai: FakeOpenAI, settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert limiter.PROBE_S <= 30 < BackboneSettings(name="x").timeout_s
    monkeypatch.setattr(limiter, "PROBE_S", 1.0)
    fake_openai.models = None
    settings = settings.model_copy(update={"timeout_s": 3600.0, "concurrency": 4})
    async with EndpointBackbone(settings) as backbone:
        calls = (backbone.complete(Request((Message("user", str(n)),))) for n in range(20))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert fake_openai.requests == [] and fake_openai.probes == 1
    assert all(isinstance(one, BackboneError) and one.fatal and one.transient for one in outcomes)
    (message,) = {str(one) for one in outcomes}
    assert "did not answer GET /models within 1 s" in message and "\n" not in message


@pytest.mark.slow
@pytest.mark.parametrize("models", [200, 401, 404, 500])
async def test_a_server_that_does_one_thing_at_a_time_is_waited_for_until_the_timeout(
    fake_openai: FakeOpenAI, settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch, models: int
) -> None:
    """As llama-cpp-python's server: what it is asked while it works, it answers afterwards."""
    import_client()  # an evaluation does so before; on a slow machine it takes the second of the probe
    monkeypatch.setattr(limiter, "PROBE_S", 1.0)
    fake_openai.models, fake_openai.latency, fake_openai.one_at_a_time = models, 0.5, True
    settings = settings.model_copy(update={"timeout_s": 60.0, "concurrency": 4})
    other = settings.model_copy(update={"model": "eliminator"})
    async with EndpointBackbone(settings) as backbone, EndpointBackbone(other) as eliminator:
        calls = [
            asyncio.create_task(each.complete(Request((Message("user", str(n)),))))
            for n in range(3)
            for each in (backbone, eliminator)
        ]
        replies = await asyncio.gather(*calls)
    assert [reply.text for reply in replies] == [f"reply to: {n}" for n in range(3) for _ in range(2)]
    assert fake_openai.most_in_flight == 1


@pytest.mark.parametrize("header", ["0", "0.001", "-5", "Thu, 01 Jan 1970 00:00:00 GMT"])
async def test_an_endpoint_that_asks_for_too_short_a_pause_is_given_longer_ones(
    fake_openai: FakeOpenAI, settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch, header: str
) -> None:
    monkeypatch.setattr(retry_policy, "FIRST_PAUSE_S", 0.1)
    fake_openai.always(error(429, "slow down", retry_after=header))
    settings = settings.model_copy(update={"retries": 3, "max_wait_s": 60.0})
    await failure(settings)
    times = [request.at for request in fake_openai.requests]
    pauses = [after - before for before, after in pairwise(times)]
    assert [pause >= least for pause, least in zip(pauses, (0, 0.1, 0.2), strict=True)] == [True] * 3, pauses


LLAMA_CPP = json.loads((Path(__file__).parent / "fixtures" / "refusals_of_llama_cpp_python.json").read_text())

REFUSED = {
    "response_format, llama-cpp-python": (
        {"response_mode": "json_schema"},
        LLAMA_CPP["json_schema"]["status"],
        LLAMA_CPP["json_schema"]["body"],
        "set backbone.response_mode=json_object (or text)",
    ),
    "seed, llama-cpp-python": (
        {"seed": 0},
        LLAMA_CPP["seed"]["status"],
        LLAMA_CPP["seed"]["body"],
        "set backbone.seed=null",
    ),
    "extra_body, llama-cpp-python": (
        {"extra_body": {"top_k": -3}},
        LLAMA_CPP["top_k"]["status"],
        LLAMA_CPP["top_k"]["body"],
        'take "top_k" out of backbone.extra_body',
    ),
    "json_object": (
        {"response_mode": "json_object"},
        501,
        {"error": {"message": "response_format is not supported by this model"}},
        "set backbone.response_mode=text",
    ),
    "temperature, behind OpenRouter": (
        {},
        502,
        {
            "error": {
                "message": "Provider returned error",
                "code": 502,
                "metadata": {"raw": "Unsupported parameter: 'temperature' is not supported with this model."},
            }
        },
        "set backbone.temperature=null",
    ),
    "temperature, OpenAI": (
        {},
        400,
        {
            "error": {
                "message": "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1)",
                "type": "invalid_request_error",
                "param": "temperature",
                "code": "unsupported_value",
            }
        },
        "set backbone.temperature=null",
    ),
    "temperature, vLLM": (
        {},
        400,
        {"object": "error", "message": "temperature must be non-negative, got -1.", "code": 400},
        "set backbone.temperature=null",
    ),
    "seed, FastAPI": (
        {"seed": 0},
        422,
        {
            "detail": [
                {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}
            ]
        },
        "set backbone.seed=null",
    ),
    "reasoning_effort": (
        {"reasoning_effort": "max"},
        400,
        {"error": {"message": "Unrecognized request argument supplied: reasoning_effort"}},
        "set backbone.reasoning_effort",
    ),
    "max_tokens": (
        {"max_tokens": 9},
        400,
        {
            "error": {
                "message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
                "param": "max_tokens",
            }
        },
        "set it to null and backbone.max_completion_tokens instead",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refused_parameter_names_our_setting_in_one_line_and_nothing_is_sent_again(
    fake_openai: FakeOpenAI, settings: BackboneSettings, name: str
) -> None:
    changes, status, body, advice = REFUSED[name]
    fake_openai.always(Behaviour(status, body))
    settings = settings.model_copy(update=changes)
    async with EndpointBackbone(settings) as backbone:
        calls = (backbone.complete(Request((Message("user", str(n)),), schema={})) for n in range(20))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert len(fake_openai.requests) == 1
    assert all(isinstance(one, BackboneError) and one.fatal and not one.transient for one in outcomes)
    (message,) = {str(one) for one in outcomes}
    assert advice in message and "\n" not in message


async def test_requests_wait_for_the_first_answer_only(
    fake_openai: FakeOpenAI, settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "ALONE_S", 60.0)
    fake_openai.latency = 0.2
    async with EndpointBackbone(settings) as backbone:
        first = asyncio.create_task(backbone.complete(ASK))
        await asyncio.to_thread(fake_openai.wait_for, 1)
        others = [
            asyncio.create_task(backbone.complete(Request((Message("user", str(n)),)))) for n in range(8)
        ]
        await first
        assert set(fake_openai.prompts) == {"q"}
        await asyncio.gather(*others)
    assert fake_openai.most_in_flight > 2


async def test_a_first_request_that_takes_long_holds_nobody(
    fake_openai: FakeOpenAI, settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "ALONE_S", 0.05)
    fake_openai.latency = 1.0
    async with EndpointBackbone(settings) as backbone:
        await asyncio.gather(*(backbone.complete(Request((Message("user", str(n)),))) for n in range(9)))
    assert fake_openai.most_in_flight == 9


VLLM_TOO_LONG = {
    "message": "'max_tokens' or 'max_completion_tokens' is too large: 2048. This model's maximum context length is "
    "4096 tokens and your request has 2500 input tokens (2048 > 4096 - 2500).",
    "type": "BadRequestError",
    "param": "max_tokens",
    "code": 400,
}
LITELLM_TOO_LONG = (
    "litellm.BadRequestError: AnthropicException - input length and `max_tokens` exceed context limit: "
    "199800 + 2048 > 200000, decrease input length or `max_tokens` and try again"
)
TGI_TOO_LONG = (
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3900 `inputs` tokens and 2048 "
    "`max_new_tokens`"
)
TOO_LONG = {
    "vllm": Behaviour(400, {"error": VLLM_TOO_LONG}),
    "anthropic behind litellm": error(400, LITELLM_TOO_LONG),
    "tgi": Behaviour(422, {"error": TGI_TOO_LONG}),
    "bedrock": error(400, "Input is too long for requested model."),
}


def ask(text: str) -> Request:
    return Request((Message("user", text),))


@pytest.mark.parametrize("refusal", TOO_LONG.values(), ids=TOO_LONG)
@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
async def test_a_prompt_that_is_too_long_fails_alone_even_as_the_first(
    fake_openai: FakeOpenAI, settings: BackboneSettings, refusal: Behaviour, limit: str
) -> None:
    fake_openai.respond = lambda body: refusal if "long" in body["messages"][-1]["content"] else None
    async with EndpointBackbone(settings.model_copy(update={limit: 2048})) as backbone:
        for text in ("long 1", "short 1", "long 2", "long 3", "long 4", "short 2"):
            if "short" in text:
                assert (await backbone.complete(ask(text))).text
                continue
            with pytest.raises(BackboneError, match="exceeds the model's context") as caught:
                await backbone.complete(ask(text))
            assert not caught.value.fatal and not caught.value.transient


async def test_an_output_limit_above_the_context_ends_the_run(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    message = VLLM_TOO_LONG["message"].replace("2048", "8192")  # type: ignore[union-attr]
    fake_openai.always(Behaviour(400, {"error": VLLM_TOO_LONG | {"message": message}}))
    caught = await failure(settings.model_copy(update={"max_tokens": 8192}))
    assert caught.fatal and "lower backbone.max_tokens" in str(caught)


@pytest.mark.parametrize(
    "refusal",
    [error(401, "Invalid token"), error(403, "Not for this prompt"), error(402, "Payment required")],
    ids=["401", "403", "402"],
)
async def test_after_an_answer_a_refusal_is_fatal_for_the_third_prompt(
    fake_openai: FakeOpenAI, settings: BackboneSettings, refusal: Behaviour
) -> None:
    async with EndpointBackbone(settings) as backbone:
        await backbone.complete(ask("first"))
        fake_openai.always(refusal)
        found = []
        for text in ("a", "a", "b", "c"):
            with pytest.raises(BackboneError) as caught:
                await backbone.complete(ask(text))
            found.append((caught.value.fatal, caught.value.transient))
    assert found == [(False, True)] * 3 + [(True, False)], "retryable: the same command asks them again"


async def test_answers_between_refusals_show_that_each_concerns_its_prompt(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    refused = error(403, "Not for this prompt")
    fake_openai.respond = lambda body: refused if "bad" in body["messages"][-1]["content"] else None
    async with EndpointBackbone(settings) as backbone:
        await backbone.complete(ask("first"))
        for n in range(5):
            with pytest.raises(BackboneError) as caught:
                await backbone.complete(ask(f"bad {n}"))
            assert not caught.value.fatal
            await backbone.complete(ask(f"good {n}"))


async def test_the_run_ends_when_none_of_the_first_answers_can_be_read(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    fake_openai.always(Behaviour(body="<html>"))
    caught = await failure(settings)
    assert len(fake_openai.requests) == 3 and caught.fatal
    assert "3 answers in a row could not be read" in str(caught) and "/v1" in str(caught)
