"""`crosscheck check` against servers with other protocols than OpenAI's chat."""

import json

from tasks.backbone.endpoint.check import EndpointCheck, EndpointReport
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.settings.backbone import BackboneSettings, MessagesSettings, ResponsesSettings
from tasks.stages.replies import LinkReply
from tests.support import fake_anthropic as anthropic
from tests.support import fake_responses as responses
from tests.support.fake_anthropic import FakeAnthropic, fake_anthropic
from tests.support.fake_openai import Behaviour, Body, FakeOpenAI, error
from tests.support.fake_responses import FakeResponses, fake_responses

__all__ = ["fake_anthropic", "fake_responses"]


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
    report = await probed(
        ResponsesSettings(name="r", model="m-1", base_url=fake_responses.base_url), fake_responses
    )
    found = verdicts(report)
    assert [found[name] for name in ("max_tokens", "temperature", "json_schema")] == ["yes", "no", "yes"]
    assert not {"seed", "n", "tools"} & {*found}, "the protocol has no field for them"
    assert report.input_tokens is not None
    settings = report.settings(ResponsesSettings(name="r"))
    assert (settings["kind"], settings["response_mode"], settings["temperature"]) == (
        "openai-responses", "json_schema", None,
    )  # fmt: skip


async def test_an_endpoint_with_messages(fake_anthropic: FakeAnthropic) -> None:
    def respond(body: Body) -> Behaviour | None:
        if "temperature" in body:
            return anthropic.failure(400, "`temperature` is deprecated for this model.")
        return None

    fake_anthropic.respond = respond
    fake_anthropic.listed = [{"id": "m-1", "type": "model", "max_input_tokens": 1_000_000}]
    settings = MessagesSettings(name="a", model="m-1", base_url=fake_anthropic.base_url)
    report = await probed(settings, fake_anthropic)
    found = verdicts(report)
    assert [found[name] for name in ("max_tokens", "temperature", "json_schema")] == ["yes", "no", "yes"]
    assert "json_object" not in found and report.input_tokens is not None
    assert (
        report.context_tokens == 1_000_000
        and report.settings(MessagesSettings(name="a"))["kind"] == "anthropic"
    )


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
