"""The probes of `crosscheck check` against servers with other protocols than OpenAI's chat."""

import json
from typing import Any

from anthropic.types import RawMessageStreamEvent
from openai.types.responses import ResponseStreamEvent

from tasks.backbone.check.endpoint import Endpoint
from tasks.backbone.check.probes import Probes
from tasks.backbone.check.report import EndpointReport
from tasks.settings.backbone import BackboneSettings
from tasks.settings.protocols import MessagesSettings, ResponsesSettings
from tasks.stages.replies import LinkReply, SqlReply
from tests.support import fake_anthropic as anthropic
from tests.support import fake_responses as responses
from tests.support.fake_anthropic import FakeAnthropic, fake_anthropic
from tests.support.fake_openai import Behaviour, Body, FakeOpenAI, error
from tests.support.fake_responses import FakeResponses, fake_responses
from tests.support.sdk_types import sent_events

__all__ = ["fake_anthropic", "fake_responses"]


async def probed(settings: BackboneSettings, server: FakeOpenAI) -> EndpointReport:
    server.models = 200
    server.answer = lambda body: json.dumps({"sql": "SELECT 1", "tables": [], "columns": []})
    types = {"preliminary_sql": SqlReply, "forward_link": LinkReply}
    async with Endpoint(settings) as endpoint:
        report = await Probes(endpoint, lambda step: None).run(types, 1)
    # What it tried and the protocol does not have is no request that the SDK knows.
    server.requests = [each for each in server.requests if "temperature" not in each.body]
    return report


def verdicts(report: EndpointReport) -> dict[str, str]:
    return {each.name: each.verdict for each in report.findings}


def counting(report: EndpointReport) -> str:
    return next(each.detail for each in report.findings if each.name == "token counting")


async def test_an_endpoint_with_responses(fake_responses: FakeResponses) -> None:
    def event(kind: str, **content: Any) -> Body:
        return {"type": kind, "sequence_number": 0, **content}

    def respond(body: Body) -> Behaviour | None:
        if "temperature" in body:
            return error(400, "Unsupported parameter: 'temperature' is not supported with this model.")
        if body["max_output_tokens"] < 100:
            return responses.out_of_tokens()  # its thoughts take a hundred tokens
        if not body.get("stream"):
            return None
        place = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
        done = fake_responses._reply(Behaviour(content="one, two"), body)
        words = [event("response.output_text.delta", delta=word, **place) for word in ("one, ", "two")]
        return Behaviour(
            raw=sent_events(ResponseStreamEvent, [*words, event("response.completed", response=done)])
        )

    fake_responses.respond = respond
    report = await probed(
        ResponsesSettings(name="r", model="m-1", base_url=fake_responses.base_url), fake_responses
    )
    found = verdicts(report)
    assert [found[name] for name in ("max_tokens", "temperature", "reasoning_effort", "json_schema", "streaming")] == [
        "yes", "no", "yes", "yes", "yes",
    ]  # fmt: skip
    assert not {"seed", "n", "tools"} & {*found}, "the protocol has no field for them"
    assert report.unreported == 0 and counting(report) == "3.0 characters of SQL a token"
    settings = report.settings(ResponsesSettings(name="r"))
    assert (settings["kind"], settings["response_mode"], settings["temperature"]) == (
        "openai-responses", "json_schema", None,
    )  # fmt: skip


async def test_an_endpoint_with_messages(fake_anthropic: FakeAnthropic) -> None:
    def respond(body: Body) -> Behaviour | None:
        if "temperature" in body:
            return anthropic.failure(400, "`temperature` is deprecated for this model.")
        if not body.get("stream"):
            return None
        begun = fake_anthropic._reply(Behaviour(content=""), body) | {"content": [], "stop_reason": None}
        delta = {"type": "text_delta", "text": "one, two"}
        ended = {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 5}}
        events = [
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": anthropic.said("")},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", **ended},
            {"type": "message_stop"},
        ]
        return Behaviour(raw=sent_events(RawMessageStreamEvent, events))

    fake_anthropic.respond = respond
    fake_anthropic.listed = [{"id": "m-1", "type": "model", "max_input_tokens": 1_000_000}]
    settings = MessagesSettings(name="a", model="m-1", base_url=fake_anthropic.base_url)
    report = await probed(settings, fake_anthropic)
    found = verdicts(report)
    assert [found[name] for name in ("max_tokens", "temperature", "reasoning_effort", "json_schema", "streaming")] == [
        "yes", "no", "yes", "yes", "yes",
    ]  # fmt: skip
    assert "json_object" not in found and report.unreported == 0
    assert counting(report) == "3.0 characters of SQL a token"
    fake_anthropic.counting = ""  # a gateway that does not count
    assert verdicts(await probed(settings, fake_anthropic))["token counting"] == "no"
    assert (
        report.context_tokens == 1_000_000
        and report.settings(MessagesSettings(name="a"))["kind"] == "anthropic"
    )
