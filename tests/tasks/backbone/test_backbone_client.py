"""The client against a real server that misbehaves in every way an endpoint does."""

import asyncio
import datetime
import logging
import time

import pytest

from tasks.backbone.endpoint import limiter
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.protocol import Message, Reply, Request, request_key
from tasks.core.errors import BackboneError, ConfigurationError
from tasks.core.outcome import Usage
from tasks.settings.backbone import BackboneSettings, Prices
from tests.support.fake_openai import (
    Behaviour,
    Body,
    FakeOpenAI,
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
from tests.tasks.backbone.conftest import KEY, ask, failure, make_settings

SCHEMA = {
    "type": "object",
    "properties": {"sql": {"type": "string"}},
    "required": ["sql"],
    "additionalProperties": False,
}


def asking(text: str = "q", **changes: object) -> Request:
    return Request((Message("user", text),), **changes)  # type: ignore[arg-type]


async def test_a_reply_brings_its_text_and_its_bill(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    fake_openai.script(reply("SELECT 1", usage=usage, delay=0.02))
    prices = Prices(input=1.0, cached_input=0.5, output=2.0, as_of=datetime.date(2026, 1, 1))
    settings = settings.model_copy(update={"prices": prices})
    answer = await ask(settings)
    assert answer.text == "SELECT 1" and not answer.truncated
    call = answer.call
    assert call.usage == Usage(input=100, cached_input=64, output=20, reasoning=5)
    assert call.cost_usd == pytest.approx((36 * 1.0 + 64 * 0.5 + 20 * 2.0) / 1e6)
    assert (call.model, call.cached, call.retries) == ("fake-1", False, 0)
    assert 0.02 <= call.seconds < 60
    async with EndpointBackbone(settings) as backbone:
        assert call.request == request_key(backbone.identity, asking())


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
    fake_openai: FakeOpenAI,
    settings: BackboneSettings,
    reported: dict[str, object] | None,
    usage: Usage,
    cost_usd: float | None,
) -> None:
    fake_openai.script(reply("x", usage=reported))
    prices = Prices(input=1e6, output=1e6, as_of=datetime.date(2026, 1, 1))
    call = (await ask(settings.model_copy(update={"prices": prices}))).call
    assert (call.usage, call.cost_usd) == (usage, cost_usd)


async def test_what_no_store_can_hold_is_replaced_where_it_enters(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    body = {"model": "m\ud800x", "choices": [{"message": {"content": "SELECT \ud800\x00 1 😀"}}]}
    fake_openai.script(Behaviour(body=body))
    answer = await ask(settings)
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
    fake_openai: FakeOpenAI,
    settings: BackboneSettings,
    changes: dict[str, object],
    request_: Request,
    expected: dict[str, object],
) -> None:
    await ask(settings.model_copy(update=changes), request_)
    sent = fake_openai.requests[0]
    messages = [{"role": "user", "content": "q"}]
    assert sent.body == {"model": "fake-1", "messages": messages, "stream": False, **expected}
    assert sent.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("behaviour", "text", "truncated"),
    [
        (empty(), "", False),
        (out_of_tokens(), "", True),
        (out_of_tokens("SELECT a FR"), "SELECT a FR", True),
        (Behaviour(choice={"message": {"content": None, "refusal": "I must not."}}), "I must not.", False),
        (
            Behaviour(choice={"message": {"content": [{"type": "text", "text": "a"}, {"text": "b"}]}}),
            "ab",
            False,
        ),
    ],
    ids=["empty", "out of tokens before the first word", "out of tokens", "refusal", "parts"],
)
async def test_an_odd_reply_is_still_a_reply(
    fake_openai: FakeOpenAI, settings: BackboneSettings, behaviour: Behaviour, text: str, truncated: bool
) -> None:
    fake_openai.script(behaviour)
    answer = await ask(settings)
    assert (answer.text, answer.truncated) == (text, truncated)


@pytest.mark.parametrize(
    "behaviour",
    [
        rate_limit(),
        rate_limit(retry_after=0.01),
        server_error(500),
        server_error(503),
        error(408, "request timeout"),
        dropped(),
        cut_off(),
        cut_json(),
        Behaviour(body={"choices": []}),
        Behaviour(body={"error": {"message": "upstream is busy", "code": 503}}),
        Behaviour(choice={"finish_reason": "error", "error": {"message": "upstream is busy", "code": 503}}),
        Behaviour(content="SELECT a FR", choice={"finish_reason": "insufficient_system_resource"}),
        Behaviour(body="<html>hello</html>"),
    ],
    ids=[
        "429",
        "429+",
        "500",
        "503",
        "408",
        "dropped",
        "cut off",
        "cut JSON",
        "no choice",
        "200 error",
        "error of the choice",
        "interrupted",
        "HTML",
    ],
)
async def test_what_passes_is_asked_again(
    fake_openai: FakeOpenAI, settings: BackboneSettings, behaviour: Behaviour
) -> None:
    fake_openai.script(behaviour, behaviour)
    answer = await ask(settings)
    assert answer.text == "reply to: q"
    assert answer.call.retries == 2
    assert len(fake_openai.requests) == 3


async def test_an_interrupted_reply_is_no_reply_and_says_why(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    for choice, said in (
        (
            {"finish_reason": "error", "error": {"message": "upstream is busy", "code": 503}},
            "503: upstream is busy",
        ),
        ({"finish_reason": "abort"}, r"502: the reply was interrupted \(finish_reason abort\)"),
    ):
        fake_openai.always(Behaviour(content="SELECT a FR", choice=choice))
        with pytest.raises(BackboneError, match=said):
            await ask(settings.model_copy(update={"retries": 0}))


async def test_a_request_that_hangs_is_given_up_after_the_time_out(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    fake_openai.script(server_error())
    fake_openai.always(hang())
    started = time.monotonic()
    caught = await failure(settings.model_copy(update={"timeout_s": 0.5, "retries": 2}))
    assert time.monotonic() - started >= 1.0
    assert caught.transient and not caught.fatal
    assert "no reply within 0.5 s" in str(caught) and "3 attempts" in str(caught)


async def test_requests_that_wait_for_their_turn_at_a_server_that_does_one_at_a_time_are_not_given_up(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    at_work = asyncio.Lock()
    settings = settings.model_copy(update={"timeout_s": 0.5, "concurrency": 6, "retries": 0})

    async def one_at_a_time(how: Behaviour, body: Body, writer: asyncio.StreamWriter) -> bool:
        async with at_work:
            await asyncio.sleep(0.2)
        return await behave(how, body, writer)

    behave, fake_openai._behave = fake_openai._behave, one_at_a_time  # type: ignore[method-assign]
    async with EndpointBackbone(settings) as backbone:
        replies = await asyncio.gather(*(backbone.complete(asking(str(number))) for number in range(6)))
    assert max(reply.call.seconds for reply in replies) > settings.timeout_s
    assert len(fake_openai.requests) == 6


@pytest.mark.slow
@pytest.mark.parametrize("drip", [None, 0.05])
async def test_replies_that_came_while_this_process_stood_still_are_not_asked_for_again(
    fake_openai: FakeOpenAI, settings: BackboneSettings, drip: float | None
) -> None:
    fake_openai.always(Behaviour(content="x" * 500_000, delay=0.3, drip=drip))
    requests = [asking(str(number)) for number in range(8)]
    async with EndpointBackbone(settings.model_copy(update={"timeout_s": 1.0})) as backbone:
        calls = [asyncio.create_task(backbone.complete(each)) for each in requests]
        while len(fake_openai.requests) < len(requests):
            await asyncio.sleep(0.001)
        time.sleep(3)  # as after Ctrl-Z and `fg`
        replies = await asyncio.gather(*calls)
    assert {len(reply.text) for reply in replies} == {500_000}
    assert len(fake_openai.requests) == len(requests)


async def test_one_rate_limit_with_a_time_holds_everybody(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    fake_openai.script(rate_limit(retry_after=0.3))
    async with EndpointBackbone(settings.model_copy(update={"concurrency": 1})) as backbone:
        await asyncio.gather(*(backbone.complete(asking(str(number))) for number in range(4)))
    first, *others = fake_openai.requests
    assert min(other.at for other in others) - first.at >= 0.29


async def test_a_request_that_is_repeated_goes_before_those_that_were_never_sent(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    fake_openai.latency = 0.05
    fake_openai.script(server_error())
    async with EndpointBackbone(settings.model_copy(update={"concurrency": 1})) as backbone:
        await asyncio.gather(*(backbone.complete(asking(str(number))) for number in range(5)))
    assert fake_openai.prompts == ["0", "1", "0", "2", "3", "4"]


async def test_an_endpoint_that_wants_hours_ends_the_run(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    fake_openai.always(error(429, "daily limit", retry_after="7200"))
    caught = await failure(settings)
    assert caught.fatal and caught.transient
    assert "120 minutes" in str(caught) and len(fake_openai.requests) == 1


async def test_requests_in_flight_never_exceed_the_concurrency(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    fake_openai.latency = 0.02
    async with EndpointBackbone(settings.model_copy(update={"concurrency": 5})) as backbone:
        await asyncio.gather(*(backbone.complete(asking(str(number))) for number in range(30)))
    assert fake_openai.most_in_flight == 5


async def test_an_overloaded_endpoint_gets_fewer_requests_at_once_and_every_answer_still_comes(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    fake_openai.latency, fake_openai.capacity = 0.02, 4
    settings = settings.model_copy(update={"concurrency": 32, "retries": 20})
    async with EndpointBackbone(settings) as backbone:
        replies = await asyncio.gather(*(backbone.complete(asking(str(number))) for number in range(150)))
    assert {answer.text for answer in replies} == {f"reply to: {number}" for number in range(150)}
    refused = len(fake_openai.requests) - 150
    assert refused < 150  # without adapting, about seven of eight attempts are refused


FATAL = {
    "401": (unauthorized(KEY), "FAKE_API_KEY is not accepted"),
    "403": (error(403, "no access to this model"), "FAKE_API_KEY is not accepted"),
    "404": (
        error(404, "The model `fake-1` does not exist", code="model_not_found"),
        "backbone.model and backbone.base_url",
    ),
    "DeepSeek's unknown model": (error(400, "Model Not Exist"), "backbone.model and backbone.base_url"),
    "quota": (quota_exhausted(), "quota of the key in FAKE_API_KEY is used up"),
    "402": (error(402, "Insufficient Balance"), "quota of the key in FAKE_API_KEY is used up"),
    "billing": (error(429, "Billing hard limit has been reached"), "quota of the key"),
}


@pytest.mark.parametrize("name", FATAL)
async def test_what_no_request_can_survive_ends_the_run_at_once(
    fake_openai: FakeOpenAI, settings: BackboneSettings, name: str
) -> None:
    behaviour, advice = FATAL[name]
    fake_openai.always(behaviour)
    async with EndpointBackbone(settings) as backbone:
        for _ in range(3):
            with pytest.raises(BackboneError) as caught:
                await backbone.complete(asking())
            assert caught.value.fatal and not caught.value.transient
            assert advice in str(caught.value) and "run the same command again" in str(caught.value)
    assert len(fake_openai.requests) == 1


async def test_an_exhausted_quota_wakes_and_fails_those_that_wait_without_a_call(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    fake_openai.script(rate_limit(retry_after=600), Behaviour(**vars(quota_exhausted()) | {"delay": 0.05}))
    async with EndpointBackbone(settings.model_copy(update={"concurrency": 2})) as backbone:
        started = time.monotonic()
        outcomes = await asyncio.gather(
            *(backbone.complete(asking(str(number))) for number in range(50)), return_exceptions=True
        )
    assert time.monotonic() - started < 300
    assert all(isinstance(outcome, BackboneError) and outcome.fatal for outcome in outcomes)
    assert len(fake_openai.requests) == 2


@pytest.mark.parametrize(
    "said", ["", "* Quota exceeded for metric: requests, limit: 20\n" * 10], ids=["short", "long"]
)
async def test_a_rate_limit_that_calls_itself_a_quota_but_says_when_to_come_back_passes(
    fake_openai: FakeOpenAI, settings: BackboneSettings, said: str
) -> None:
    fake_openai.script(error(429, f"You exceeded your current quota. {said}Please retry in 0.05s."))
    assert (await ask(settings)).call.retries == 1


async def test_a_content_filter_fails_one_question_only(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    fake_openai.script(error(400, "blocked by the content management policy", code="content_filter"))
    caught = await failure(settings)
    assert not caught.fatal and not caught.transient and "content filter" in str(caught)


async def test_after_winding_down_nothing_is_sent_but_what_is_in_flight_comes_back(
    fake_openai: FakeOpenAI, settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "ALONE_S", 0.0)
    fake_openai.latency = 1.0
    async with EndpointBackbone(settings.model_copy(update={"concurrency": 2})) as backbone:
        calls = [asyncio.create_task(backbone.complete(asking(str(number)))) for number in range(10)]
        await asyncio.to_thread(fake_openai.wait_for, 2)
        backbone.wind_down()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(outcome, Reply) for outcome in outcomes) == 2
    assert all(outcome.transient for outcome in outcomes if isinstance(outcome, BackboneError))
    assert len(fake_openai.requests) == 2


async def test_a_cancelled_request_gives_its_place_back(
    fake_openai: FakeOpenAI, settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "ALONE_S", 0.0)
    fake_openai.script(hang(), hang())
    async with EndpointBackbone(settings.model_copy(update={"concurrency": 2})) as backbone:
        calls = [asyncio.create_task(backbone.complete(asking(str(number)))) for number in range(6)]
        await asyncio.to_thread(fake_openai.wait_for, 2)
        for call in (*calls[:2], calls[3]):
            call.cancel()
        done = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 60)
    assert [isinstance(outcome, Reply) for outcome in done] == [False, False, True, False, True, True]


@pytest.mark.parametrize("name", ["401", "quota", "billing", "500", "dropped", "garbled"])
async def test_the_key_appears_in_no_error_and_no_log(
    fake_openai: FakeOpenAI, settings: BackboneSettings, name: str, caplog: pytest.LogCaptureFixture
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
    fake_openai.always(behaviours[name])
    caught = await failure(settings.model_copy(update={"retries": 1}))
    told_to_the_user = [str(caught), repr(caught), repr(caught.__cause__), caplog.text]
    told_to_the_user += [repr(vars(record)) for record in caplog.records]
    assert not [text for text in told_to_the_user if KEY in text]
    assert caught.__cause__ is None
    assert KEY not in repr(EndpointBackbone(settings).identity)


async def test_attempts_are_logged(
    fake_openai: FakeOpenAI, settings: BackboneSettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="tasks.backbone")
    fake_openai.script(server_error(503))
    await ask(settings)
    assert "HTTP 503" in caplog.text and "attempt 2" in caplog.text


@pytest.mark.parametrize("value", ["\u201csk-abcdef\u201d", "sk-abc\ndef", "sk-abc\x07def", "sk-\xfcabcdef"])
def test_a_key_that_no_header_can_hold_is_said_before_any_call_and_not_repeated(
    settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("FAKE_API_KEY", value)
    with pytest.raises(ConfigurationError, match=r"FAKE_API_KEY.* not allowed in an API key") as caught:
        EndpointBackbone(settings)
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key_is_said_before_any_call(
    fake_openai: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv("FAKE_API_KEY", raising=False)
    else:
        monkeypatch.setenv("FAKE_API_KEY", value)
    with pytest.raises(ConfigurationError, match="FAKE_API_KEY"):
        EndpointBackbone(make_settings(fake_openai))


def test_the_same_model_under_two_names_and_with_other_limits_has_one_identity(
    settings: BackboneSettings,
) -> None:
    other = settings.model_copy(update={"name": "other", "concurrency": 1, "timeout_s": 1.0})
    assert EndpointBackbone(settings).identity == EndpointBackbone(other).identity
    warmer = settings.model_copy(update={"temperature": 1.0})
    assert EndpointBackbone(settings).identity != EndpointBackbone(warmer).identity


async def test_openai_variables_in_the_environment_do_not_move_a_backbone(
    fake_openai: FakeOpenAI, settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-somebody-else")
    await ask(settings.model_copy(update={"api_key_env": None}))
    assert "somebody" not in repr(fake_openai.requests[0].headers)


@pytest.mark.parametrize(
    "field", [{"model": f"m-{KEY}"}, {"service_tier": KEY}], ids=["as the model", "as the tier"]
)
async def test_a_key_that_the_server_repeats_is_in_no_reply(
    fake_openai: FakeOpenAI, settings: BackboneSettings, field: dict[str, str]
) -> None:
    message = {"role": "assistant", "content": "SELECT 1"}
    fake_openai.always(Behaviour(body={"choices": [{"index": 0, "message": message}], **field}))
    reply = await ask(settings)
    assert reply.text == "SELECT 1" and KEY not in repr(reply)
    async with EndpointBackbone(settings) as endpoint:
        answer = await endpoint.ask_once({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    assert KEY not in repr(answer)


async def test_a_placeholder_for_a_key_is_left_in_the_name_of_a_model(
    fake_openai: FakeOpenAI, settings: BackboneSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(settings.api_key_env or "", "local")
    message = {"role": "assistant", "content": "SELECT 1"}
    fake_openai.always(
        Behaviour(body={"choices": [{"index": 0, "message": message}], "model": "local-model"})
    )
    assert (await ask(settings)).call.model == "local-model"


async def test_a_key_that_the_server_lists_as_a_model_is_not_read(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    fake_openai.models, fake_openai.listed = 200, [{"id": f"m-{KEY}"}]
    async with EndpointBackbone(settings) as endpoint:
        answer = await endpoint.models()
    assert KEY not in answer.text
