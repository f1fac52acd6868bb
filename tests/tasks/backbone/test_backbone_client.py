"""The client against a real server that misbehaves in every way an endpoint does."""

import asyncio
import datetime
import logging
import time

import pytest

from tasks.backbone.endpoint import limiter
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.protocol import Reply, Request, request_key
from tasks.core.errors import BackboneError, ConfigurationError
from tasks.core.outcome import Usage
from tasks.settings.backbone import BackboneSettings, Prices
from tests.support.fake_openai import (
    Behaviour,
    Body,
    cut_json,
    cut_off,
    dropped,
    empty,
    error,
    hang,
    out_of_tokens,
    quota_exhausted,
    rate_limit,
    reply,
    server_error,
    unauthorized,
)
from tests.tasks.backbone.conftest import KEY, Endpoint, asking

SCHEMA = {
    "type": "object",
    "properties": {"sql": {"type": "string"}},
    "required": ["sql"],
    "additionalProperties": False,
}


async def test_a_reply_brings_its_text_and_its_bill(endpoint: Endpoint) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    endpoint.server.script(reply("SELECT 1", usage=usage, delay=0.02))
    prices = Prices(input=1.0, cached_input=0.5, output=2.0, as_of=datetime.date(2026, 1, 1))
    answer = await endpoint.ask(prices=prices)
    assert answer.text == "SELECT 1" and not answer.truncated
    call = answer.call
    assert call.usage == Usage(input=100, cached_input=64, output=20, reasoning=5)
    assert call.cost_usd == pytest.approx((36 * 1.0 + 64 * 0.5 + 20 * 2.0) / 1e6)
    assert (call.model, call.cached, call.retries) == ("fake-1", False, 0)
    assert 0.02 <= call.seconds < 60
    assert call.request == request_key(endpoint.open().identity, asking())


@pytest.mark.parametrize(
    ("reported", "usage", "cost_usd"),
    [
        (None, Usage(), None),
        ({"prompt_tokens": 3}, Usage(input=3), None),
        # thoughts that only the total counts are output
        ({"prompt_tokens": 20, "completion_tokens": 198, "total_tokens": 623}, Usage(20, output=603), 623),
        ({"prompt_tokens": 20, "completion_tokens": 198, "total_tokens": 218}, Usage(20, output=198), 218),
        ({"prompt_tokens": 20, "completion_tokens": 198, "total_tokens": 0}, Usage(20, output=198), 218),
        ({"prompt_tokens": 20, "completion_tokens": 198, "total_tokens": 10**12}, Usage(20, output=198), 218),
        ({"prompt_tokens": 20, "total_tokens": 218}, Usage(20), None),
        # implausible counts are unknown
        ({"prompt_tokens": -999_700, "completion_tokens": 20}, Usage(output=20), None),
        ({"prompt_tokens": 10**12, "completion_tokens": True}, Usage(), None),
        (
            {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 6}},
            Usage(input=5, output=2),
            7,
        ),
    ],
)
async def test_tokens_are_counted_as_reported_and_what_is_unknown_has_no_price(
    endpoint: Endpoint, reported: dict[str, object] | None, usage: Usage, cost_usd: float | None
) -> None:
    endpoint.server.script(reply("x", usage=reported))
    prices = Prices(input=1e6, output=1e6, as_of=datetime.date(2026, 1, 1))
    call = (await endpoint.ask(prices=prices)).call
    assert (call.usage, call.cost_usd) == (usage, cost_usd)


async def test_what_no_store_can_hold_is_replaced_where_it_enters(endpoint: Endpoint) -> None:
    body = {"model": "m\ud800x", "choices": [{"message": {"content": "SELECT \ud800\x00 1 😀"}}]}
    endpoint.server.script(Behaviour(body=body))
    answer = await endpoint.ask()
    assert (answer.text, answer.call.model) == ("SELECT \ufffd\ufffd 1 😀", "m\ufffdx")


@pytest.mark.parametrize(
    ("changes", "request_", "expected"),
    [
        ({}, asking(), {"temperature": 0.0}),
        ({"temperature": None}, asking(), {}),
        ({"temperature": None}, asking(temperature=0.7), {}),
        ({}, asking(temperature=0.7), {"temperature": 0.7}),
        ({"max_tokens": 9}, asking(), {"temperature": 0.0, "max_tokens": 9}),
        (
            {"max_completion_tokens": 9, "reasoning_effort": "low"},
            asking(),
            {"temperature": 0.0, "max_completion_tokens": 9, "reasoning_effort": "low"},
        ),
        ({"seed": 5}, asking(sample=2), {"temperature": 0.0, "seed": 7}),
        ({"response_mode": "json_object"}, asking(), {"temperature": 0.0}),
        (
            {"response_mode": "json_object"},
            asking(schema=SCHEMA),
            {"temperature": 0.0, "response_format": {"type": "json_object"}},
        ),
        (
            {"response_mode": "json_schema"},
            asking(schema=SCHEMA),
            {
                "temperature": 0.0,
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True},
                },
            },
        ),
        ({"response_mode": "text"}, asking(schema=SCHEMA), {"temperature": 0.0}),
        ({"extra_body": {"top_k": 1}}, asking(), {"temperature": 0.0, "top_k": 1}),
    ],
)
async def test_the_body_holds_what_the_settings_say_and_nothing_else(
    endpoint: Endpoint, changes: dict[str, object], request_: Request, expected: dict[str, object]
) -> None:
    await endpoint.ask(request_, **changes)
    sent = endpoint.server.requests[0]
    messages = [{"role": "user", "content": "q"}]
    assert sent.body == {"model": "fake-1", "messages": messages, "stream": False, **expected}
    assert sent.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(("behaviour", "text", "truncated"), [
    (empty(), "", False),
    (out_of_tokens(), "", True),
    (out_of_tokens("SELECT a FR"), "SELECT a FR", True),
    (Behaviour(choice={"message": {"content": None, "refusal": "I must not."}}), "I must not.", False),
    (Behaviour(choice={"message": {"content": [{"type": "text", "text": "a"}, {"text": "b"}]}}), "ab", False),
], ids=["empty", "out of tokens before the first word", "out of tokens", "refusal", "parts"])  # fmt: skip
async def test_an_odd_reply(endpoint: Endpoint, behaviour: Behaviour, text: str, truncated: bool) -> None:
    endpoint.server.script(behaviour)
    answer = await endpoint.ask()
    assert (answer.text, answer.truncated) == (text, truncated)


BUSY = {"message": "upstream is busy", "code": 503}
PASSING = {
    "429": rate_limit(),
    "429, with a time": rate_limit(retry_after=0.01),
    "500": server_error(500),
    "503": server_error(503),
    "408": error(408, "request timeout"),
    "dropped": dropped(),
    "cut off": cut_off(),
    "cut JSON": cut_json(),
    "no choice": Behaviour(body={"choices": []}),
    "an error with status 200": Behaviour(body={"error": BUSY}),
    "an error of the choice": Behaviour(choice={"finish_reason": "error", "error": BUSY}),
    "interrupted": Behaviour(content="SELECT a FR", choice={"finish_reason": "insufficient_system_resource"}),
    "HTML": Behaviour(body="<html>hello</html>"),
}


@pytest.mark.parametrize("behaviour", PASSING.values(), ids=PASSING)
async def test_what_passes_is_asked_again(endpoint: Endpoint, behaviour: Behaviour) -> None:
    endpoint.server.script(behaviour, behaviour)
    answer = await endpoint.ask()
    assert answer.text == "reply to: q"
    assert answer.call.retries == 2
    assert len(endpoint.server.requests) == 3


async def test_an_interrupted_reply_is_no_reply_and_says_why(endpoint: Endpoint) -> None:
    for choice, said in (
        ({"finish_reason": "error", "error": BUSY}, "503: upstream is busy"),
        ({"finish_reason": "abort"}, "502: the reply was interrupted (finish_reason abort)"),
    ):
        endpoint.server.always(Behaviour(content="SELECT a FR", choice=choice))
        assert said in str(await endpoint.failure(retries=0))


async def test_a_request_that_hangs_is_given_up_after_the_time_out(endpoint: Endpoint) -> None:
    endpoint.server.script(server_error())
    endpoint.server.always(hang())
    started = time.monotonic()
    caught = await endpoint.failure(timeout_s=0.5, retries=2)
    assert time.monotonic() - started >= 1.0
    assert caught.transient and not caught.fatal
    assert "no reply within 0.5 s" in str(caught) and "3 attempts" in str(caught)


async def test_requests_that_wait_for_their_turn_are_not_given_up(endpoint: Endpoint) -> None:
    at_work = asyncio.Lock()

    async def one_at_a_time(how: Behaviour, body: Body, writer: asyncio.StreamWriter) -> bool:
        async with at_work:
            await asyncio.sleep(0.2)
        return await behave(how, body, writer)

    behave, endpoint.server._behave = endpoint.server._behave, one_at_a_time  # type: ignore[method-assign]
    replies = await endpoint.ask_all(6, timeout_s=0.5, concurrency=6, retries=0)
    assert max(reply.call.seconds for reply in replies) > 0.5
    assert len(endpoint.server.requests) == 6


@pytest.mark.slow
@pytest.mark.parametrize("drip", [None, 0.05])
async def test_replies_that_came_in_a_standstill_are_not_asked_again(
    endpoint: Endpoint, drip: float | None
) -> None:
    endpoint.server.always(Behaviour(content="x" * 500_000, delay=0.3, drip=drip))
    requests = [asking(str(number)) for number in range(8)]
    async with endpoint.open(timeout_s=1.0) as backbone:
        calls = [asyncio.create_task(backbone.complete(each)) for each in requests]
        while len(endpoint.server.requests) < len(requests):
            await asyncio.sleep(0.001)
        time.sleep(3)  # as after Ctrl-Z and `fg`
        replies = await asyncio.gather(*calls)
    assert {len(reply.text) for reply in replies} == {500_000}
    assert len(endpoint.server.requests) == len(requests)


async def test_one_rate_limit_with_a_time_holds_everybody(endpoint: Endpoint) -> None:
    endpoint.server.script(rate_limit(retry_after=0.3))
    await endpoint.ask_all(4, concurrency=1)
    first, *others = endpoint.server.requests
    assert min(other.at for other in others) - first.at >= 0.29


async def test_a_request_that_is_repeated_goes_before_those_that_were_never_sent(endpoint: Endpoint) -> None:
    endpoint.server.latency = 0.05
    endpoint.server.script(server_error())
    await endpoint.ask_all(5, concurrency=1)
    assert endpoint.server.prompts == ["0", "1", "0", "2", "3", "4"]


async def test_an_endpoint_that_wants_hours_ends_the_run(endpoint: Endpoint) -> None:
    endpoint.server.always(error(429, "daily limit", retry_after="7200"))
    caught = await endpoint.failure()
    assert caught.fatal and caught.transient
    assert "120 minutes" in str(caught) and len(endpoint.server.requests) == 1


async def test_an_overloaded_endpoint_gets_fewer_requests_and_all_answer(endpoint: Endpoint) -> None:
    endpoint.server.latency = 0.02
    await endpoint.ask_all(30, concurrency=5)
    assert endpoint.server.most_in_flight == 5
    endpoint.server.requests.clear()
    endpoint.server.capacity = 4
    replies = await endpoint.ask_all(150, concurrency=32, retries=20)
    assert {answer.text for answer in replies} == {f"reply to: {number}" for number in range(150)}
    refused = len(endpoint.server.requests) - 150
    assert refused < 150  # without adapting, about seven of eight attempts are refused


NOT_ACCEPTED, USED_UP = "FAKE_API_KEY is not accepted", "quota of the key in FAKE_API_KEY is used up"
NOT_THERE = "backbone.model and backbone.base_url"


@pytest.mark.parametrize(("behaviour", "advice"), [
    pytest.param(unauthorized(KEY), NOT_ACCEPTED, id="401"),
    pytest.param(error(403, "no access to this model"), NOT_ACCEPTED, id="403"),
    pytest.param(error(404, "The model `fake-1` does not exist", code="model_not_found"), NOT_THERE, id="404"),
    pytest.param(error(400, "Model Not Exist"), NOT_THERE, id="DeepSeek's unknown model"),
    pytest.param(quota_exhausted(), USED_UP, id="quota"),
    pytest.param(error(402, "Insufficient Balance"), USED_UP, id="402"),
    pytest.param(error(429, "Billing hard limit has been reached"), USED_UP, id="billing"),
])  # fmt: skip
async def test_what_no_request_can_survive_ends_the_run_at_once(
    endpoint: Endpoint, behaviour: Behaviour, advice: str
) -> None:
    endpoint.server.always(behaviour)
    async with endpoint.open() as backbone:
        for _ in range(3):
            with pytest.raises(BackboneError) as caught:
                await backbone.complete(asking())
            assert caught.value.fatal and not caught.value.transient
            assert advice in str(caught.value) and "run the same command again" in str(caught.value)
    assert len(endpoint.server.requests) == 1


async def test_an_exhausted_quota_wakes_and_fails_those_that_wait_without_a_call(endpoint: Endpoint) -> None:
    endpoint.server.script(
        rate_limit(retry_after=600), Behaviour(**vars(quota_exhausted()) | {"delay": 0.05})
    )
    started = time.monotonic()
    outcomes = await endpoint.ask_all(50, concurrency=2)
    assert time.monotonic() - started < 300
    assert all(isinstance(outcome, BackboneError) and outcome.fatal for outcome in outcomes)
    assert len(endpoint.server.requests) == 2


@pytest.mark.parametrize(
    "said", ["", "* Quota exceeded for metric: requests, limit: 20\n" * 10], ids=["short", "long"]
)
async def test_a_quota_that_says_when_to_come_back_is_a_rate_limit(endpoint: Endpoint, said: str) -> None:
    endpoint.server.script(error(429, f"You exceeded your current quota. {said}Please retry in 0.05s."))
    assert (await endpoint.ask()).call.retries == 1


async def test_a_content_filter_fails_one_question_only(endpoint: Endpoint) -> None:
    endpoint.server.script(error(400, "blocked by the content management policy", code="content_filter"))
    caught = await endpoint.failure()
    assert not caught.fatal and not caught.transient and "content filter" in str(caught)


async def test_after_winding_down_nothing_is_sent_but_what_is_in_flight_comes_back(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "ALONE_S", 0.0)
    endpoint.server.latency = 1.0
    async with endpoint.open(concurrency=2) as backbone:
        calls = [asyncio.create_task(backbone.complete(asking(str(number)))) for number in range(10)]
        await asyncio.to_thread(endpoint.server.wait_for, 2)
        backbone.wind_down()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(outcome, Reply) for outcome in outcomes) == 2
    assert all(outcome.transient for outcome in outcomes if isinstance(outcome, BackboneError))
    assert len(endpoint.server.requests) == 2


async def test_a_cancelled_request_frees_its_place(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "ALONE_S", 0.0)
    endpoint.server.script(hang(), hang())
    async with endpoint.open(concurrency=2) as backbone:
        calls = [asyncio.create_task(backbone.complete(asking(str(number)))) for number in range(6)]
        await asyncio.to_thread(endpoint.server.wait_for, 2)
        for call in (*calls[:2], calls[3]):
            call.cancel()
        done = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 60)
    assert [isinstance(outcome, Reply) for outcome in done] == [False, False, True, False, True, True]


@pytest.mark.parametrize("name", ["401", "quota", "billing", "500", "dropped", "garbled"])
async def test_the_key_is_in_no_error_or_log(
    endpoint: Endpoint, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told = f"the key {KEY} sent as Bearer {KEY} is no good"
    behaviours = {
        "401": error(401, told),
        "quota": error(429, told, code="insufficient_quota"),
        "billing": error(402, told),
        "500": error(500, told),
        "dropped": dropped(),
        "garbled": Behaviour(body=told),
    }
    endpoint.server.always(behaviours[name])
    caught = await endpoint.failure(retries=1)
    told_to_the_user = [str(caught), repr(caught), repr(caught.__cause__), caplog.text]
    told_to_the_user += [repr(vars(record)) for record in caplog.records]
    assert not [text for text in told_to_the_user if KEY in text]
    assert caught.__cause__ is None
    assert KEY not in repr(endpoint.open().identity)


async def test_attempts_are_logged(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="tasks.backbone")
    endpoint.server.script(server_error(503))
    await endpoint.ask()
    assert "HTTP 503" in caplog.text and "attempt 2" in caplog.text


@pytest.mark.parametrize("value", ["\u201csk-abcdef\u201d", "sk-abc\ndef", "sk-abc\x07def", "sk-\xfcabcdef"])
def test_a_key_that_no_header_can_hold_or_that_is_missing_is_said_before_any_call_and_not_repeated(
    settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("FAKE_API_KEY", value)
    with pytest.raises(ConfigurationError, match=r"FAKE_API_KEY.* not allowed in an API key") as caught:
        EndpointBackbone(settings)
    assert "abc" not in str(caught.value)
    for missing in ("", "  "):
        monkeypatch.setenv("FAKE_API_KEY", missing)
        with pytest.raises(ConfigurationError, match="FAKE_API_KEY"):
            EndpointBackbone(settings)
    monkeypatch.delenv("FAKE_API_KEY")
    with pytest.raises(ConfigurationError, match="FAKE_API_KEY"):
        EndpointBackbone(settings)


def test_a_model_under_two_names_with_other_limits_has_one_identity(settings: BackboneSettings) -> None:
    other = settings.model_copy(update={"name": "other", "concurrency": 1, "timeout_s": 1.0})
    assert EndpointBackbone(settings).identity == EndpointBackbone(other).identity
    warmer = settings.model_copy(update={"temperature": 1.0})
    assert EndpointBackbone(settings).identity != EndpointBackbone(warmer).identity


async def test_openai_variables_do_not_move_a_backbone(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-somebody-else")
    await endpoint.ask(api_key_env=None)
    assert "somebody" not in repr(endpoint.server.requests[0].headers)


@pytest.mark.parametrize(
    "field", [{"model": f"m-{KEY}"}, {"service_tier": KEY}], ids=["as the model", "as the tier"]
)
async def test_a_key_that_a_server_repeats_is_in_no_reply(endpoint: Endpoint, field: dict[str, str]) -> None:
    message = {"role": "assistant", "content": "SELECT 1"}
    endpoint.server.always(Behaviour(body={"choices": [{"index": 0, "message": message}], **field}))
    reply = await endpoint.ask()
    assert reply.text == "SELECT 1" and KEY not in repr(reply)
    async with endpoint.open() as endpoint:
        answer = await endpoint.ask_once({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    assert KEY not in repr(answer)


async def test_a_placeholder_for_a_key_may_be_in_a_name(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(endpoint.settings.api_key_env or "", "local")
    message = {"role": "assistant", "content": "SELECT 1"}
    endpoint.server.always(
        Behaviour(body={"choices": [{"index": 0, "message": message}], "model": "local-model"})
    )
    assert (await endpoint.ask()).call.model == "local-model"


async def test_a_key_that_the_server_lists_as_a_model_is_not_read(endpoint: Endpoint) -> None:
    endpoint.server.models, endpoint.server.listed = 200, [{"id": f"m-{KEY}"}]
    async with endpoint.open() as endpoint:
        answer = await endpoint.models()
    assert KEY not in answer.text
