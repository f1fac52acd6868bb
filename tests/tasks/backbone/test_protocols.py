"""The protocols besides OpenAI's chat, each against a server that answers and fails as its documentation says."""

import datetime
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from anthropic import transform_schema
from openai.types.chat import ChatCompletion

from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.endpoint.auto_mode import KnownEndpoints, find_response_mode
from tasks.backbone.endpoint.chat import CHAT
from tasks.backbone.endpoint.check import EndpointCheck, EndpointReport
from tasks.backbone.endpoint.client import EndpointBackbone, format_of
from tasks.backbone.endpoint.wire import identity_of
from tasks.backbone.kind import check_backbone
from tasks.backbone.opening import RunResources, backbone_of
from tasks.backbone.protocol import Message, Request, request_key
from tasks.backbone.replies.json_text import reply_schema
from tasks.core.errors import BackboneError, ConfigurationError
from tasks.core.outcome import Usage
from tasks.settings.backbone import BackboneSettings, MessagesSettings, Prices, ResponsesSettings
from tasks.settings.load import load_backbone_settings
from tasks.stages.replies import LinkReply, SqlReply
from tests.support import fake_anthropic as anthropic
from tests.support import fake_openai as openai
from tests.support import fake_responses as responses
from tests.support.fake_anthropic import FakeAnthropic, fake_anthropic
from tests.support.fake_openai import Behaviour, Body, FakeOpenAI, error
from tests.support.fake_responses import FakeResponses, fake_responses
from tests.support.sdk_types import assert_of_type
from tests.tasks.backbone.conftest import KEY, ask, asking

__all__ = ["fake_anthropic", "fake_responses"]

CONF = Path(__file__).parents[3] / "conf"
KINDS = {"openai-responses": ResponsesSettings, "anthropic": MessagesSettings}
SCHEMA = reply_schema(SqlReply)
ASKED = Request(
    (Message("system", "You write SQL."), Message("user", "### Database\nt(a)\n### Question\nq", shared=17)),
    SCHEMA,
)
PRICES = {"input": 1.0, "cached_input": 0.1, "cache_write": 1.25, "output": 5.0}


@pytest.fixture(params=["fake_responses", "fake_anthropic"])
def server(request: pytest.FixtureRequest) -> FakeOpenAI:
    """A server of each protocol; a table may name the one that its row is about."""
    found: FakeOpenAI = request.getfixturevalue(request.param)
    return found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_API_KEY", KEY)


def settings_for(server: FakeOpenAI, **changes: Any) -> BackboneSettings:
    kind = "anthropic" if isinstance(server, FakeAnthropic) else "openai-responses"
    plain = {
        "name": "fake", "model": "m-1", "base_url": server.base_url, "api_key_env": "FAKE_API_KEY", "max_wait_s": 0.01,
        "timeout_s": 5.0, "temperature": None, "response_mode": "json_schema",
        "prices": Prices(**PRICES, as_of=datetime.date(2026, 11, 1)),
    }  # fmt: skip
    return KINDS[kind](**(plain | changes))


async def test_a_response_is_requested_as_the_reference_says(fake_responses: FakeResponses) -> None:
    usage = {
        "input_tokens": 2000,
        "input_tokens_details": {"cached_tokens": 1024, "cache_write_tokens": 512},
        "output_tokens": 300,
        "output_tokens_details": {"reasoning_tokens": 200},
        "total_tokens": 2300,
    }
    said = [
        responses.thought("a is a column"),
        responses.message([responses.said("Let me look.")], phase="commentary"),
        responses.message([responses.said('{"sql": "SELECT a FROM t"}')], phase="final_answer"),
    ]
    fake_responses.script(Behaviour(choice={"output": said}, usage=usage))
    reply = await ask(settings_for(fake_responses, reasoning_effort="high", max_tokens=4096), ASKED)
    assert fake_responses.requests[0].body == {
        "model": "m-1",
        "input": [{"role": each.role, "content": each.content} for each in ASKED.messages],
        "store": False,
        "reasoning": {"effort": "high"},
        "max_output_tokens": 4096,
        "text": {"format": {"type": "json_schema", "name": "reply", "strict": True, "schema": SCHEMA}},
    }
    assert fake_responses.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert reply.text == '<think>a is a column\n\nLet me look.</think>{"sql": "SELECT a FROM t"}'
    assert reply.call.usage == Usage(2000, 1024, 300, 200, 512)
    assert reply.call.cost_usd == pytest.approx((464 * 1 + 1024 * 0.1 + 512 * 1.25 + 300 * 5) / 1e6)


async def test_a_message_is_requested_as_the_reference_says(fake_anthropic: FakeAnthropic) -> None:
    usage = {
        "input_tokens": 100,
        "cache_read_input_tokens": 1800,
        "cache_creation_input_tokens": 400,
        "output_tokens": 300,
        "output_tokens_details": {"thinking_tokens": 200},
    }
    content = [anthropic.thought("a is a column"), anthropic.said('{"sql": "SELECT a FROM t"}')]
    fake_anthropic.script(Behaviour(choice={"content": content}, usage=usage))
    thinking = {"type": "enabled", "budget_tokens": 6000}
    changes = {"reasoning_effort": "high", "max_tokens": 4096, "extra_body": {"thinking": thinking}}
    reply = await ask(settings_for(fake_anthropic, **changes), ASKED)
    database = {"type": "text", "text": "### Database\nt(a)", "cache_control": {"type": "ephemeral"}}
    assert fake_anthropic.requests[0].body == {
        "model": "m-1",
        "max_tokens": 10096,  # the thoughts are part of it
        "system": "You write SQL.",
        "messages": [{"role": "user", "content": [database, {"type": "text", "text": "\n### Question\nq"}]}],
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}},
        "thinking": thinking,
    }
    assert fake_anthropic.requests[0].headers["anthropic-version"]
    assert reply.text == '<think>a is a column</think>{"sql": "SELECT a FROM t"}'
    assert reply.call.usage == Usage(2300, 1800, 300, 200, 400)
    assert reply.call.cost_usd == pytest.approx((100 * 1 + 1800 * 0.1 + 400 * 1.25 + 300 * 5) / 1e6)


async def test_nothing_is_marked_for_a_prefix_cache_that_saves_nothing(fake_anthropic: FakeAnthropic) -> None:
    await ask(settings_for(fake_anthropic, prefix_cache=False), ASKED)
    assert "cache_control" not in json.dumps(fake_anthropic.requests[0].body)


async def test_schemas_are_those_that_anthropics_client_would_send_and_one_with_open_keys_is_not_sent(
    fake_anthropic: FakeAnthropic,
) -> None:
    for reply_type in (SqlReply, LinkReply):
        assert transform_schema(reply_schema(reply_type)) == reply_schema(reply_type)
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    await ask(settings_for(fake_anthropic), asking(schema=schema))
    assert "output_config" not in fake_anthropic.requests[0].body


HOUR = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 9}


@pytest.mark.parametrize(
    ("named", "usd"),
    [
        ({"speed": "standard", "inference_geo": "global"}, 15e-6),
        (
            {"inference_geo": "not_available", "cache_creation": {**HOUR, "ephemeral_1h_input_tokens": 0}},
            15e-6,
        ),
        ({"speed": "fast"}, None),
        ({"inference_geo": "us"}, None),
        ({"cache_creation_input_tokens": 9, "cache_creation": HOUR}, None),
    ],
)
async def test_what_costs_a_multiple_has_no_known_price(
    fake_anthropic: FakeAnthropic, named: dict[str, Any], usd: float | None
) -> None:
    """Pages "Fast mode", "Data residency" (US-only: 1.1 times) and "Prompt caching" (an hour: 2 times the input)."""
    usage = {"input_tokens": 10, "output_tokens": 1, "service_tier": "standard", **named}
    fake_anthropic.script(Behaviour(usage=usage))
    call = (await ask(settings_for(fake_anthropic), ASKED)).call
    assert (call.cost_usd, call.prompt_cache_usd) == (usd, None if usd is None else 0)


@pytest.mark.parametrize(
    ("usage", "tier"),
    [
        ({"inference_geo": "us"}, "us"),
        ({"prompt_tokens_details": {"cache_creation_token_details": HOUR}}, "cache_1h"),
        ({"extra_properties": {"google": {"traffic_type": "ON_DEMAND_PRIORITY"}}}, "priority"),
        ({"extra_properties": {"google": {"traffic_type": "ON_DEMAND_FLEX"}}}, "flex"),
        ({"extra_properties": {"google": {"traffic_type": "ON_DEMAND"}}}, ""),
    ],
)
def test_a_chat_completion_may_name_what_costs_a_multiple(usage: dict[str, Any], tier: str) -> None:
    """LiteLLM's usage of a model of Anthropic, and `TrafficType` in the reference of Vertex AI."""
    completion = {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}], "usage": usage}
    assert CHAT.answer(json.dumps(completion))[0].call.tier == tier


async def test_a_response_of_xai_names_its_cost(fake_responses: FakeResponses) -> None:
    """Page "Cost Tracking" of xAI's documentation."""
    usage = {
        "input_tokens": 10,
        "output_tokens": 1,
        "total_tokens": 11,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
        "cost_in_usd_ticks": 37_756_000,
    }
    fake_responses.script(Behaviour(usage=usage))
    assert (await ask(settings_for(fake_responses), ASKED)).call.cost_usd == 0.0037756


LIMITED = '{"sql": "SELECT'


@pytest.mark.parametrize(
    ("server", "how", "text", "truncated"),
    [
        ("fake_responses", responses.out_of_tokens(LIMITED), LIMITED, True),
        ("fake_responses", responses.filtered(), "The content filter stopped the reply.", False),
        ("fake_responses", responses.refused("I cannot."), "I cannot.", False),
        ("fake_anthropic", anthropic.out_of_tokens(LIMITED), LIMITED, True),
        ("fake_anthropic", anthropic.refused("It is an attack."), "It is an attack.", False),
        ("fake_anthropic", anthropic.refused(None), "The model refused to answer.", False),
    ],
    indirect=["server"],
)
async def test_an_ended_reply_says_so(server: FakeOpenAI, how: Behaviour, text: str, truncated: bool) -> None:
    server.script(how)
    reply = await ask(settings_for(server), ASKED)
    assert (reply.text, reply.truncated) == (text, truncated)
    assert reply.call.cost_usd is not None and reply.call.cost_usd > 0, "it is paid for"


PASSING = {
    "fake_responses": [
        openai.rate_limit(0.01), openai.server_error(503), openai.cut_off(), openai.cut_json(), openai.dropped(),
        responses.unavailable(), responses.failed("server_error", "The server had an error"),
        responses.failed("rate_limit_exceeded", "Slow down"), Behaviour(choice={"status": "in_progress"}),
    ],
    "fake_anthropic": [
        anthropic.rate_limited(0.01), anthropic.overloaded(), anthropic.failure(500, "Internal server error"),
        openai.server_error(502), openai.cut_off(), openai.cut_json(), openai.dropped(),
        Behaviour(body={"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        Behaviour(choice={"stop_reason": None}),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("server", "passing"), PASSING.items(), indirect=["server"], ids=PASSING)
async def test_what_passes_is_asked_again_and_its_answer_bought_once(
    server: FakeOpenAI, passing: list[Behaviour], tmp_path: Path
) -> None:
    server.script(*passing)
    settings = settings_for(server, retries=len(passing))
    for again in (0, 1):
        with open_reply_cache(tmp_path / "replies.sqlite") as cache:
            async with EndpointBackbone(settings) as client:
                reply = await backbone_of(client, settings, RunResources(cache)).complete(ASKED)
        assert reply.text.startswith("reply to: ### Database") and reply.call.cached == bool(again)
        assert len(server.requests) == len(passing) + 1


@pytest.mark.parametrize(
    ("server", "how", "fatal", "says"),
    [
        ("fake_responses", responses.failed("invalid_prompt", "Invalid prompt"), False, "Invalid prompt."),
        ("fake_responses", openai.error(400, "Unsupported parameter: 'temperature'."), True, "temperature=null"),
        ("fake_responses", openai.quota_exhausted(), True, "add credit"),
        ("fake_anthropic", anthropic.failure(401, "invalid x-api-key"), True, "FAKE_API_KEY is not accepted"),
        ("fake_anthropic", anthropic.failure(404, "model: m-1"), True, "backbone.model"),
        ("fake_anthropic", anthropic.failure(400, "`temperature` is deprecated for this model."), True,
         "backbone.temperature=null"),
        ("fake_anthropic", anthropic.failure(400, "prompt is too long: 210000 tokens > 200000 maximum"), False,
         "backbone.context_tokens"),
        ("fake_anthropic", anthropic.failure(
            400, "max_tokens: 90000 > 64000, which is the maximum allowed number of output tokens for m-1"), True,
         "backbone.max_tokens"),
        ("fake_anthropic", anthropic.failure(400, "Your credit balance is too low to access the Anthropic API."), True,
         "add credit"),
        ("fake_anthropic", anthropic.failure(400, "output_config.format: Extra inputs are not permitted"), True,
         "backbone.response_mode=text"),
    ],
    indirect=["server"],
)  # fmt: skip
async def test_what_does_not_pass_says_what_to_do_after_one_request(
    server: FakeOpenAI, how: Behaviour, fatal: bool, says: str
) -> None:
    server.script(how)
    with pytest.raises(BackboneError) as caught:
        await ask(settings_for(server), ASKED)
    assert says in str(caught.value) and caught.value.fatal == fatal and len(server.requests) == 1


async def test_a_refusal_that_stays_fails_retryably(server: FakeOpenAI) -> None:
    server.always(anthropic.overloaded())
    with pytest.raises(BackboneError, match="HTTP 529 overloaded_error: Overloaded") as caught:
        await ask(settings_for(server, retries=1), ASKED)
    assert caught.value.transient and not caught.value.fatal and len(server.requests) == 2


async def test_the_response_mode_is_the_strictest_of_the_protocol(server: FakeOpenAI, tmp_path: Path) -> None:
    wanted = "output_config" if isinstance(server, FakeAnthropic) else "text"
    server.respond = lambda body: (
        openai.error(400, f"{wanted}.format: json_schema is not supported")
        if (body.get(wanted) or {}).get("format", {}).get("type") == "json_schema"
        else None
    )
    found = await find_response_mode(settings_for(server, response_mode="auto"), KnownEndpoints(tmp_path))
    assert found.response_mode == {"text": "json_object", "output_config": "text"}[wanted]
    assert [each.body.get("max_tokens", 16) for each in server.requests] == [16, 16]
    assert (
        KnownEndpoints(tmp_path).find(BackboneSettings(name="fake", model="m-1", base_url=server.base_url))
        is None
    )


def test_marks_for_prefix_caches_are_in_no_key_and_the_keys_of_todays_paid_replies_stay() -> None:
    plain = Request(tuple(Message(each.role, each.content) for each in ASKED.messages), ASKED.schema)
    for kind in KINDS.values():
        identity = identity_of(kind(name="n", prefix_cache=True, extra_body={"prompt_cache_key": "k"}))
        other = identity_of(kind(name="n", prefix_cache=False))
        assert request_key(identity, ASKED) == request_key(other, plain)
    settings = BackboneSettings(
        name="openai", model="gpt-4.1-mini-2025-04-14", api_key_env="K", seed=0, response_mode="json_schema"
    )
    key = "2d69eca95168ed4f25dd938ab9af1612611dc8531a31761717e71899177bf4ef"
    assert request_key(identity_of(settings), ASKED) == key


@pytest.mark.parametrize("kind", [BackboneSettings, ResponsesSettings])
def test_requests_with_one_beginning_have_one_cache_key_at_openai(kind: type[BackboneSettings]) -> None:
    def keys(**changes: Any) -> list[str | None]:
        settings = kind(name="n", model="m", response_mode="text", **changes)
        user = ASKED.messages[1].content
        asked = [
            replace(ASKED.messages[1], content=each) for each in (user, f"{user}2", f"{user}3", f"x{user}")
        ]
        asked[2] = replace(asked[2], shared=0)
        return [
            format_of(settings).body(Request((ASKED.messages[0], each)), settings).get("prompt_cache_key")
            for each in asked
        ]

    one, two, unshared, other = keys()
    assert one == two and one is not None and len(one) <= 64
    assert unshared is None and other not in (None, one)
    assert keys(base_url="http://127.0.0.1:8000/v1") == [None] * 4


@pytest.mark.parametrize(
    ("kind", "change", "says"),
    [
        ("openai-responses", "seed=1", "has no seed"),
        ("anthropic", "seed=1", "has no seed"),
        ("anthropic", "samples_per_request=4", "has no n"),
        ("anthropic", "response_mode=json_object", 'has no "json_object"'),
    ],
)
def test_a_setting_that_the_protocol_lacks_is_refused_before_anything_is_sent(
    tmp_path: Path, kind: str, change: str, says: str
) -> None:
    (file := tmp_path / "mine.yaml").write_text(f"kind: {kind}\nmodel: m\n")
    with pytest.raises(ConfigurationError, match=says):
        load_backbone_settings(CONF, str(file), [f"backbone.{change}"])


def test_a_missing_package_is_named_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ConfigurationError, match=r'pip install "crosscheck-sql\[anthropic\]"'):
        check_backbone(MessagesSettings(name="a", model="m"))


GEMINI = {
    "choices": [{"finish_reason": "stop", "index": 0, "message": {"content": "SELECT 1", "role": "assistant"}}],
    "created": 1761000000, "id": "x", "model": "gemini-3.8-flash", "object": "chat.completion",
    "usage": {"completion_tokens": 10, "prompt_tokens": 100, "total_tokens": 350},
}  # fmt: skip
"""In the form of ai.google.dev/gemini-api/docs/openai: thoughts are in the total only."""
BEDROCK = {
    "choices": [{"finish_reason": "stop", "index": 0, "logprobs": None, "message": {
        "role": "assistant", "content": "<reasoning>Which</reasoning><reasoning> table?</reasoning>SELECT 1",
    }}],
    "created": 1761000000, "id": "x", "model": "openai.gpt-oss-120b-1:0", "object": "chat.completion",
    "usage": {"completion_tokens": 250, "prompt_tokens": 100, "total_tokens": 350},
}  # fmt: skip
"""In the form of Bedrock's runtime endpoint for gpt-oss."""


@pytest.mark.parametrize(
    ("body", "text"), [(GEMINI, "SELECT 1"), (BEDROCK, BEDROCK["choices"][0]["message"]["content"])]
)
async def test_replies_of_compatible_addresses_are_read_in_their_own_form(
    fake_openai: FakeOpenAI, body: dict[str, Any], text: str
) -> None:
    assert_of_type(ChatCompletion, [body])
    fake_openai.script(Behaviour(body=body))
    reply = await ask(BackboneSettings(name="g", model="m", base_url=fake_openai.base_url), ASKED)
    assert (reply.text, reply.call.usage.input, reply.call.usage.output) == (text, 100, 250)


async def test_errors_of_gemini_come_in_a_list(fake_openai: FakeOpenAI) -> None:
    """They have the form of Google's APIs: code, message and status."""

    def gemini(status: int, message: str, name: str) -> Behaviour:
        return Behaviour(status, [{"error": {"code": status, "message": message, "status": name}}])

    settings = BackboneSettings(name="g", model="m", base_url=fake_openai.base_url)
    exhausted = (
        "You exceeded your current quota, please check your plan and billing details. Please retry in 0.01s."
    )
    fake_openai.script(
        gemini(429, exhausted, "RESOURCE_EXHAUSTED"), gemini(503, "The model is overloaded.", "UNAVAILABLE")
    )
    assert (await ask(settings, ASKED)).call.retries == 2
    fake_openai.script(gemini(400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT"))
    with pytest.raises(BackboneError, match="is not accepted") as caught:
        await ask(settings, ASKED)
    assert caught.value.fatal


async def probed(settings: BackboneSettings, server: FakeOpenAI) -> EndpointReport:
    server.models = 200
    server.answer = lambda body: json.dumps({"sql": "SELECT 1", "tables": [], "columns": []})
    async with EndpointBackbone(settings) as endpoint:
        report = await EndpointCheck(endpoint, settings, lambda step: None).run(LinkReply, 1)
    # What it tried and the protocol does not have is no request that the SDK knows.
    server.requests = [each for each in server.requests if "temperature" not in each.body]
    return report


def verdicts(report: EndpointReport) -> dict[str, str]:
    return {each.name: each.verdict for each in report.findings}


async def test_an_endpoint_with_responses(fake_responses: FakeResponses) -> None:
    def respond(body: Body) -> Behaviour | None:
        if "temperature" in body:
            return error(400, "Unsupported parameter: 'temperature' is not supported with this model.")
        if body["max_output_tokens"] < 100:
            return responses.out_of_tokens()  # its thoughts take a hundred tokens
        return None

    fake_responses.respond = respond
    settings = ResponsesSettings(name="r", model="m-1", base_url=fake_responses.base_url)
    report = await probed(settings, fake_responses)
    found = verdicts(report)
    assert [found[name] for name in ("max_tokens", "temperature", "json_schema")] == ["yes", "no", "yes"]
    assert not {"seed", "n", "tools"} & {*found}, "the protocol has no field for them"
    assert report.input_tokens is not None
    written = report.settings(ResponsesSettings(name="r"))
    assert (written["kind"], written["response_mode"]) == ("openai-responses", "json_schema")
    assert written["temperature"] is None


async def test_an_endpoint_with_messages(fake_anthropic: FakeAnthropic) -> None:
    refused = anthropic.failure(400, "`temperature` is deprecated for this model.")
    fake_anthropic.respond = lambda body: refused if "temperature" in body else None
    fake_anthropic.listed = [{"id": "m-1", "type": "model", "max_input_tokens": 1_000_000}]
    settings = MessagesSettings(name="a", model="m-1", base_url=fake_anthropic.base_url)
    report = await probed(settings, fake_anthropic)
    found = verdicts(report)
    assert [found[name] for name in ("max_tokens", "temperature", "json_schema")] == ["yes", "no", "yes"]
    assert "json_object" not in found and report.input_tokens is not None
    assert report.context_tokens == 1_000_000
    assert report.settings(MessagesSettings(name="a"))["kind"] == "anthropic"


def test_the_settings_that_follow_keep_the_query_of_the_address_and_what_was_not_checked() -> None:
    before = BackboneSettings(
        name="mine", base_url="http://localhost:1/v1?api-version=2", model="m", retries=2
    )
    report = EndpointReport(url="http://localhost:1/v1", model="m")
    assert report.settings(before) == {}, "the model does not answer"
    report.add("model", True)
    report.add("text", True)
    assert report.settings(before) == {
        "model": "m", "base_url": before.base_url, "retries": 2, "temperature": None, "response_mode": "text",
        "concurrency": 1,
    }  # fmt: skip
