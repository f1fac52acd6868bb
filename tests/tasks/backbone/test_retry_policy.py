"""How long an endpoint is waited for, what it may refuse, and how many requests it gets at once."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tasks.backbone.endpoint import limiter, retry_policy
from tasks.backbone.endpoint.connection import import_client
from tasks.backbone.endpoint.failures import Refusal
from tasks.backbone.endpoint.limiter import AdaptiveLimit, Queue
from tasks.backbone.endpoint.retry_policy import UNREACHABLE_S, RetryPolicy, longest_call, longest_call_s
from tasks.core.deadline import HELD_UP_S
from tasks.core.errors import BackboneError
from tasks.settings.backbone import BackboneSettings
from tests.support.fake_openai import Behaviour, FakeOpenAI, dropped, error, hang
from tests.tasks.backbone.conftest import ASK, Endpoint, asking

MOST = 7
"""Requests of one call, by default."""


@pytest.fixture
def closed_port() -> Iterator[str]:
    """A base_url that nobody listens at."""
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/v1"


def test_how_long_a_call_can_take_follows_from_the_settings() -> None:
    assert retry_policy.FIRST_PAUSE_S == 0.001  # as these tests set it
    settings = BackboneSettings(name="x", timeout_s=10, retries=2, max_wait_s=60)
    assert longest_call_s(settings, asked_to_wait=False) == pytest.approx(30.003)
    assert longest_call_s(settings, asked_to_wait=True) == 1830
    assert longest_call(settings) == (
        "A model call is at most 3 requests and ends within 30 s, 30 min 30 s if the endpoint asks to wait each time."
    )


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed_and_names_the_setting(endpoint: Endpoint, status: int) -> None:
    with FakeOpenAI() as elsewhere:
        location = {"location": f"{elsewhere.base_url}/chat/completions"}
        endpoint.server.always(Behaviour(status, {}, location))
        caught = await endpoint.failure()
        assert elsewhere.requests == [] and len(endpoint.server.requests) == 1
    assert caught.fatal and elsewhere.base_url in str(caught) and "Set backbone.base_url" in str(caught)


async def test_an_endpoint_that_is_not_there_stops_all_questions_with_one_message(
    closed_port: str, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_policy, "UNREACHABLE_S", 0.3)
    monkeypatch.setattr(retry_policy, "FIRST_PAUSE_S", 0.1)
    started = time.monotonic()
    outcomes = await endpoint.ask_all(40, base_url=closed_port, max_wait_s=60.0)
    assert time.monotonic() - started < 30  # one pause may be 60 s
    assert all(isinstance(one, BackboneError) and one.fatal for one in outcomes)
    (message,) = {str(one) for one in outcomes}
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


async def test_a_lost_connection_after_an_answer_costs_its_question_only(endpoint: Endpoint) -> None:
    async with endpoint.open() as backbone:
        await backbone.complete(ASK)
        endpoint.server.always(dropped())
        with pytest.raises(BackboneError) as caught:
            await backbone.complete(ASK)
        assert caught.value.transient and not caught.value.fatal
    assert len(endpoint.server.requests) == 1 + MOST


async def test_an_endpoint_that_only_connects_stops_the_run_after_two_timeouts(endpoint: Endpoint) -> None:
    endpoint.server.always(hang())
    caught = await endpoint.failure(timeout_s=0.5)
    assert caught.fatal and caught.transient and "Raise backbone.timeout_s" in str(caught)
    assert len(endpoint.server.requests) == 2


async def test_an_endpoint_that_answers_nothing_at_all_stops_the_run_before_a_request_is_sent(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert limiter.PROBE_S <= 30 < BackboneSettings(name="x").timeout_s
    monkeypatch.setattr(limiter, "PROBE_S", 1.0)
    endpoint.server.models = None
    outcomes = await endpoint.ask_all(20, timeout_s=3600.0, concurrency=4)
    assert endpoint.server.requests == [] and endpoint.server.probes == 1
    assert all(isinstance(one, BackboneError) and one.fatal and one.transient for one in outcomes)
    (message,) = {str(one) for one in outcomes}
    assert "did not answer GET /models within 1 s" in message and "\n" not in message


@pytest.mark.slow
@pytest.mark.parametrize("models", [200, 401, 404, 500])
async def test_a_server_that_does_one_thing_at_a_time_is_waited_for_until_the_timeout(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, models: int
) -> None:
    """As llama-cpp-python's server: what it is asked while it works, it answers afterwards."""
    import_client()  # an evaluation does so before; on a slow machine it takes the second of the probe
    monkeypatch.setattr(limiter, "PROBE_S", 1.0)
    endpoint.server.models, endpoint.server.latency, endpoint.server.one_at_a_time = models, 0.5, True
    changes = {"timeout_s": 60.0, "concurrency": 4}
    asked = (endpoint.ask_all(3, **changes), endpoint.ask_all(3, **changes, model="eliminator"))
    for replies in await asyncio.gather(*asked):
        assert [reply.text for reply in replies] == [f"reply to: {n}" for n in range(3)]
    assert endpoint.server.most_in_flight == 1


@pytest.mark.parametrize("header", ["0", "0.001", "-5", "Thu, 01 Jan 1970 00:00:00 GMT"])
async def test_an_endpoint_that_asks_for_too_short_a_pause_is_given_longer_ones(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, header: str
) -> None:
    monkeypatch.setattr(retry_policy, "FIRST_PAUSE_S", 0.1)
    endpoint.server.always(error(429, "slow down", retry_after=header))
    await endpoint.failure(retries=3, max_wait_s=60.0)
    times = [request.at for request in endpoint.server.requests]
    pauses = [after - before for before, after in pairwise(times)]
    assert [pause >= least for pause, least in zip(pauses, (0, 0.1, 0.2), strict=True)] == [True] * 3, pauses


KNOWN = json.loads((Path(__file__).parent / "fixtures" / "refusals_of_llama_cpp_python.json").read_text())
LLAMA_CPP = {
    name: Behaviour(KNOWN[name]["status"], KNOWN[name]["body"]) for name in ("json_schema", "seed", "top_k")
}

NOT_SUPPORTED = "Unsupported parameter: 'temperature' is not supported with this model."
REFUSED = {
    "response_format, llama-cpp-python": (
        {"response_mode": "json_schema"},
        LLAMA_CPP["json_schema"],
        "set backbone.response_mode=json_object (or text)",
    ),
    "seed, llama-cpp-python": ({"seed": 0}, LLAMA_CPP["seed"], "set backbone.seed=null"),
    "extra_body, llama-cpp-python": (
        {"extra_body": {"top_k": -3}},
        LLAMA_CPP["top_k"],
        'take "top_k" out of backbone.extra_body',
    ),
    "json_object": (
        {"response_mode": "json_object"},
        error(501, "response_format is not supported by this model"),
        "set backbone.response_mode=text",
    ),
    "temperature, behind OpenRouter": (
        {},
        Behaviour(502, {"error": {"message": "Provider returned error", "metadata": {"raw": NOT_SUPPORTED}}}),
        "set backbone.temperature=null",
    ),
    "temperature, OpenAI": (
        {},
        error(
            400,
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1)",
            code="unsupported_value",
            type_="invalid_request_error",
        ),
        "set backbone.temperature=null",
    ),
    "temperature, vLLM": (
        {},
        Behaviour(
            400, {"object": "error", "message": "temperature must be non-negative, got -1.", "code": 400}
        ),
        "set backbone.temperature=null",
    ),
    "seed, FastAPI": (
        {"seed": 0},
        Behaviour(422, {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}),
        "set backbone.seed=null",
    ),
    "reasoning_effort": (
        {"reasoning_effort": "max"},
        error(400, "Unrecognized request argument supplied: reasoning_effort"),
        "set backbone.reasoning_effort",
    ),
    "max_tokens": (
        {"max_tokens": 9},
        error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        "set it to null and backbone.max_completion_tokens instead",
    ),
}


@pytest.mark.parametrize(("changes", "refusal", "advice"), REFUSED.values(), ids=REFUSED)
async def test_a_refused_parameter_names_our_setting_in_one_line_and_nothing_is_sent_again(
    endpoint: Endpoint, changes: dict[str, Any], refusal: Behaviour, advice: str
) -> None:
    endpoint.server.always(refusal)
    outcomes = await endpoint.ask_all(20, schema={}, **changes)
    assert len(endpoint.server.requests) == 1
    assert all(isinstance(one, BackboneError) and one.fatal and not one.transient for one in outcomes)
    (message,) = {str(one) for one in outcomes}
    assert advice in message and "\n" not in message


async def test_requests_wait_for_the_first_answer(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "ALONE_S", 60.0)
    endpoint.server.latency = 0.2
    async with endpoint.open() as backbone:
        first = asyncio.create_task(backbone.complete(ASK))
        await asyncio.to_thread(endpoint.server.wait_for, 1)
        others = [asyncio.create_task(backbone.complete(asking(str(n)))) for n in range(8)]
        await first
        assert set(endpoint.server.prompts) == {"q"}
        await asyncio.gather(*others)
    assert endpoint.server.most_in_flight > 2


async def test_a_slow_first_request_holds_nobody(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiter, "ALONE_S", 0.05)
    endpoint.server.latency = 1.0
    await endpoint.ask_all(9)
    assert endpoint.server.most_in_flight == 9


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


@pytest.mark.parametrize("refusal", TOO_LONG.values(), ids=TOO_LONG)
@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
async def test_a_prompt_that_is_too_long_fails_alone_even_as_the_first(
    endpoint: Endpoint, refusal: Behaviour, limit: str
) -> None:
    endpoint.server.respond = lambda body: refusal if "long" in body["messages"][-1]["content"] else None
    async with endpoint.open(**{limit: 2048}) as backbone:
        for text in ("long 1", "short 1", "long 2", "long 3", "long 4", "short 2"):
            if "short" in text:
                assert (await backbone.complete(asking(text))).text
                continue
            with pytest.raises(BackboneError, match="exceeds the model's context") as caught:
                await backbone.complete(asking(text))
            assert not caught.value.fatal and not caught.value.transient


async def test_an_output_limit_above_the_context_ends_the_run(endpoint: Endpoint) -> None:
    message = VLLM_TOO_LONG["message"].replace("2048", "8192")  # type: ignore[union-attr]
    endpoint.server.always(Behaviour(400, {"error": VLLM_TOO_LONG | {"message": message}}))
    caught = await endpoint.failure(max_tokens=8192)
    assert caught.fatal and "lower backbone.max_tokens" in str(caught)


@pytest.mark.parametrize(
    "refusal",
    [error(401, "Invalid token"), error(403, "Not for this prompt"), error(402, "Payment required")],
    ids=["401", "403", "402"],
)
async def test_after_an_answer_the_third_refusal_is_fatal(endpoint: Endpoint, refusal: Behaviour) -> None:
    async with endpoint.open() as backbone:
        await backbone.complete(asking("first"))
        endpoint.server.always(refusal)
        found = []
        for text in ("a", "a", "b", "c"):
            with pytest.raises(BackboneError) as caught:
                await backbone.complete(asking(text))
            found.append((caught.value.fatal, caught.value.transient))
    assert found == [(False, True)] * 3 + [(True, False)], "retryable: the same command asks them again"


async def test_answers_between_refusals_show_that_each_concerns_its_prompt(endpoint: Endpoint) -> None:
    refused = error(403, "Not for this prompt")
    endpoint.server.respond = lambda body: refused if "bad" in body["messages"][-1]["content"] else None
    async with endpoint.open() as backbone:
        await backbone.complete(asking("first"))
        for n in range(5):
            with pytest.raises(BackboneError) as caught:
                await backbone.complete(asking(f"bad {n}"))
            assert not caught.value.fatal
            await backbone.complete(asking(f"good {n}"))


async def test_the_run_ends_when_none_of_the_first_answers_can_be_read(endpoint: Endpoint) -> None:
    endpoint.server.always(Behaviour(body="<html>"))
    caught = await endpoint.failure()
    assert len(endpoint.server.requests) == 3 and caught.fatal
    assert "3 answers in a row could not be read" in str(caught) and "/v1" in str(caught)


async def hold(limit: AdaptiveLimit, order: list[str], name: str, *, ahead: bool = False) -> None:
    async with limit.slot(ahead=ahead):
        order.append(name)
        await asyncio.sleep(0)


async def test_each_burst_of_refusals_halves_the_limit_once_and_answers_raise_it() -> None:
    limit = AdaptiveLimit(16)
    async with limit.slot() as first, limit.slot() as second:
        limit.rate_limited(first)
        limit.rate_limited(second)
        assert limit.size == 8
    for size in (4, 2, 1, 1):
        await asyncio.sleep(0.002)
        async with limit.slot() as later:
            limit.rate_limited(later)
        assert limit.size == size
    limit.succeeded()
    assert limit.size == 2, "about one more per round"
    for _ in range(1000):
        limit.succeeded()
    assert limit.size == 16, "not more than at first"


@pytest.mark.parametrize("granted", [False, True])
async def test_a_cancelled_wait_takes_no_place(granted: bool) -> None:
    limit, order = AdaptiveLimit(1), []
    async with limit.slot():
        waiting = asyncio.create_task(hold(limit, order, "a"))
        await asyncio.sleep(0)
        if not granted:
            waiting.cancel()
    waiting.cancel()  # has its place by now, but has not run since
    await asyncio.gather(waiting, return_exceptions=True)
    assert (order, limit._in_flight) == ([], 0)
    await asyncio.wait_for(hold(limit, order, "b"), 30)
    assert order == ["b"]


async def test_the_time_of_a_request_counts_from_the_last_answer_to_one_that_was_sent_before() -> None:
    queue, ended = Queue(1.0), []

    async def request(name: str, seconds: float) -> None:
        with suppress(TimeoutError):
            async with queue.turn():
                await asyncio.sleep(seconds)
                ended.append(name)

    await asyncio.gather(request("first", 0.7), request("second", 1.4), request("silent", 60.0))
    assert ended == ["first", "second"]


async def test_after_a_standstill_the_time_counts_from_the_answer_that_had_come_meanwhile() -> None:
    queue, ended, answered = Queue(1.0), [], asyncio.Event()

    async def first() -> None:
        async with queue.turn():
            await asyncio.sleep(0.9)
        answered.set()

    async def second() -> None:
        async with queue.turn():
            await answered.wait()
            await asyncio.sleep(2.5 * HELD_UP_S)
            ended.append("second")

    asyncio.get_running_loop().call_later(0.1, time.sleep, 1.0 + 3 * HELD_UP_S)
    await asyncio.gather(first(), second())
    assert ended == ["second"]


async def test_an_answer_sets_no_timer_for_the_requests_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, timers = asyncio.get_running_loop(), []
    monkeypatch.setattr(
        loop, "call_at", lambda *timer: timers.append(timer) or type(loop).call_at(loop, *timer)
    )
    queue, answers = Queue(60.0), [asyncio.Event() for _ in range(100)]

    async def request(answer: asyncio.Event) -> None:
        async with queue.turn():
            await answer.wait()

    requests = [asyncio.create_task(request(answer)) for answer in answers]
    await asyncio.sleep(0)
    for answer in answers:
        answer.set()
    await asyncio.gather(*requests)
    assert len(timers) <= 2 * len(requests)
