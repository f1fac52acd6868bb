"""Tools in the protocol: offered, called and answered in every format, cached, recorded and replayed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.opening import RunResources, open_backbone
from tasks.backbone.protocol import (
    Message,
    Origin,
    Reply,
    Request,
    Tool,
    messages_of,
    request_digest,
    request_key,
    stored_text,
)
from tasks.backbone.recordings import (
    Observations,
    RecordedBackbone,
    RecordedReply,
    read_recording,
    write_recording,
)
from tasks.core.errors import BackboneError, DataError
from tasks.core.outcome import Call, ToolCall, Usage
from tests.support import fake_anthropic as anthropic
from tests.support import fake_openai as openai
from tests.support import fake_responses as responses
from tests.support.fake_anthropic import FakeAnthropic, fake_anthropic
from tests.support.fake_openai import Behaviour, FakeOpenAI
from tests.support.fake_responses import FakeResponses, fake_responses
from tests.support.sdk_types import assert_of_type
from tests.support.stage_bench import fake_settings
from tests.tasks.backbone.conftest import ask
from tests.tasks.backbone.test_protocols import quick, settings_for

__all__ = ["fake_anthropic", "fake_responses", "quick"]

RUN_SQL = Tool(
    "run_sql",
    "Runs a query.",
    {"type": "object", "properties": {"sql": {"type": "string"}}, "required": ["sql"]},
)
OPENING = (Message("system", "You write SQL."), Message("user", "How many museums?"))
ASKED = Request(OPENING, tools=(RUN_SQL,))
ARGUMENTS = '{"sql": "SELECT 1"}'
CALLED = (
    ToolCall("run_sql", ARGUMENTS, "1", id="call_0"),
    ToolCall("run_sql", "SELECT", "The arguments are not JSON.", "not_json", id="call_1"),
)
LATER = Request((*OPENING, Message("assistant", "I look.", calls=CALLED)), tools=(RUN_SQL,), known=2)
PLAIN = Request((*OPENING, Message("assistant", "?"), Message("user", "again")), {"type": "object"}, 0.5, 3)


def test_the_keys_of_requests_without_tools_are_what_they_were() -> None:
    identity = {"kind": "openai", "model": "m"}
    assert request_key(identity, PLAIN) == "38305711c595d5a8849ff2b3f7a326f1829fbda5c6522c2362c78fb02dcc89b2"
    assert request_digest(PLAIN) == "e707786ddae1978301166722aa8afa888aa3b840f82f45ddabccb6610af276b6"
    assert (
        request_digest(Request(OPENING)) == "8bf4f27a8a714de881ecad0ed6c9803f0c154eca34e524effefd55c839d47225"
    )


def test_every_part_of_a_conversation_with_tools_is_in_the_key_and_the_ids_are_not() -> None:
    others = [
        replace(LATER, tools=()),
        replace(LATER, tools=(replace(RUN_SQL, description="Runs it."),)),
        replace(LATER, known=0),
        replace(LATER, messages=(*OPENING, Message("assistant", "I look."))),
        replace(LATER, messages=(OPENING[0], Message("user", "Why?"), LATER.messages[2])),
        *(
            replace(LATER, messages=(*OPENING, Message("assistant", "I look.", calls=(CALLED[0], changed))))
            for changed in (
                replace(CALLED[1], name="tables"),
                replace(CALLED[1], arguments="{}"),
                replace(CALLED[1], result="2"),
            )
        ),
    ]
    assert len({request_digest(each) for each in (LATER, *others)}) == len(others) + 1
    other_ids = tuple(replace(call, id=f"other {call.id}") for call in CALLED)
    renamed = replace(LATER, messages=(*OPENING, Message("assistant", "I look.", calls=other_ids)))
    assert request_digest(renamed) == request_digest(LATER)


async def test_chat_offers_tools_and_sends_calls_with_results(fake_openai: FakeOpenAI) -> None:
    fake_openai.script(openai.tool_calls(("run_sql", ARGUMENTS), ("tables", "{}"), text="I look."))
    reply = await ask(fake_settings(fake_openai), ASKED)
    assert reply.text == "I look."
    assert reply.calls == (ToolCall("run_sql", ARGUMENTS, id="call_0"), ToolCall("tables", "{}", id="call_1"))
    assert (await ask(fake_settings(fake_openai), LATER)).calls == ()
    first, second = (received.body for received in fake_openai.requests)
    function = {"name": "run_sql", "description": "Runs a query.", "parameters": RUN_SQL.parameters}
    assert first["tools"] == second["tools"] == [{"type": "function", "function": function}]
    said, *results = second["messages"][2:]
    sent = [call["function"]["arguments"] for call in said["tool_calls"]]
    assert sent == [ARGUMENTS, '{"malformed": "SELECT"}']
    assert [each["role"] for each in results] == ["tool", "tool"]
    assert [each["tool_call_id"] for each in results] == ["call_0", "call_1"]
    assert_of_type(CompletionCreateParamsNonStreaming, [first, second])
    assert_of_type(ChatCompletion, [each | {"usage": None} for each in fake_openai.replies])


async def test_responses_offers_tools_and_sends_calls_with_results(fake_responses: FakeResponses) -> None:
    output = [responses.thought("Which?"), responses.function_call("run_sql", ARGUMENTS)]
    fake_responses.script(Behaviour(choice={"output": output}))
    reply = await ask(settings_for(fake_responses), ASKED)
    assert reply.calls == (ToolCall("run_sql", ARGUMENTS, id="call_1"),)
    await ask(settings_for(fake_responses), LATER)
    items = fake_responses.requests[1].body["input"][2:]
    kinds = ["message", "function_call", "function_call", "function_call_output", "function_call_output"]
    assert [each.get("type", "message") for each in items] == kinds
    assert fake_responses.requests[0].body["tools"][0]["name"] == "run_sql"


async def test_messages_offers_tools_and_sends_calls_with_results(fake_anthropic: FakeAnthropic) -> None:
    used = anthropic.tool_use("run_sql", {"sql": "SELECT 1"})
    fake_anthropic.script(anthropic.blocks(anthropic.said("I look."), used, stop_reason="tool_use"))
    reply = await ask(settings_for(fake_anthropic), ASKED)
    assert (reply.text, reply.calls) == ("I look.", (ToolCall("run_sql", ARGUMENTS, id="toolu_1"),))
    await ask(settings_for(fake_anthropic), LATER)
    body = fake_anthropic.requests[1].body
    said, results = body["messages"][1:]
    assert [block["type"] for block in said["content"]] == ["text", "tool_use", "tool_use"]
    assert said["content"][2]["input"] == {"malformed": "SELECT"}
    assert [block.get("is_error") for block in results["content"]] == [None, True]
    assert results["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert body["tools"][0]["input_schema"] == RUN_SQL.parameters


@pytest.mark.parametrize(("status", "text"), [
    (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    (500, "tools param requires --jinja flag"),
    (400, "registry.ollama.ai/library/phi does not support tools"),
    (400, "Function call is missing a thought_signature in functionCall parts. This is required for tools"),
    (400, "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2"),
    (400, "The `reasoning_content` in the thinking mode must be passed back to the API."),
    (400, "messages[51]: assistant message with tool_calls must include reasoning_content."),
])  # fmt: skip
async def test_an_endpoint_without_tools_is_a_message_that_says_what_to_set(
    fake_openai: FakeOpenAI, status: int, text: str
) -> None:
    fake_openai.always(openai.error(status, text))
    with pytest.raises(BackboneError, match=r"pipeline\.tools=text") as caught:
        await ask(fake_settings(fake_openai), ASKED)
    assert caught.value.fatal


@pytest.mark.parametrize("said", [None, 5, "", "x" * 3000, {"sql": ["\ud800", "\x00"]}])
async def test_calls_unlike_the_protocol_are_read_as_text(fake_openai: FakeOpenAI, said: Any) -> None:
    odd = {"id": 7, "type": "function", "function": {"name": None, "arguments": said}}
    message = {"role": "assistant", "content": None, "tool_calls": [odd, None, {}, {"function": []}]}
    fake_openai.script(Behaviour(choice={"message": message}))
    reply = await ask(fake_settings(fake_openai), ASKED)
    assert len(reply.calls) == 3
    assert (reply.calls[0].name, reply.calls[0].id) == ("", "")
    reply.calls[0].arguments.encode()


async def test_a_call_is_served_from_the_cache_with_its_tools(
    fake_openai: FakeOpenAI, tmp_path: Path
) -> None:
    cut = replace(openai.tool_calls(("run_sql", '{"sql": "SEL'), text="ü"), usage={"prompt_tokens": 9})
    fake_openai.script(replace(cut, choice=cut.choice | {"finish_reason": "length"}))
    with open_reply_cache(tmp_path / "replies.sqlite") as cache:
        async with open_backbone(fake_settings(fake_openai), RunResources(cache)) as cached:
            paid, again = await cached.complete(LATER), await cached.complete(LATER)
        entry = cache.entry(paid.call.request)
    assert again == replace(paid, call=again.call)
    assert (paid.truncated, again.call.cached, again.call.usage.input) == (True, True, 9)
    assert len(fake_openai.requests) == 1
    assert entry is not None and entry.finish == "tool_calls length"
    (said,) = messages_of(entry.request)
    assert [(call.name, call.result) for call in said.calls] == [(call.name, call.result) for call in CALLED]


def test_what_is_stored_of_a_long_conversation_grows_with_the_turn_and_not_with_the_conversation() -> None:
    turn = Message("assistant", "", calls=(replace(CALLED[0], result="row " * 500),))
    stored = []
    for turns in range(1, 31):
        messages = (*OPENING, *[turn] * turns)
        request = replace(ASKED, messages=messages, known=len(messages) - 1)
        observations = Observations(recorded=True, traced=True)
        observations.add(request, Reply("", Call("key", "m", Usage(), cached=False, seconds=0.1)))
        (seen,) = observations
        stored.append(len(json.dumps([[*map(str, each.calls)] for each in seen.messages])))
    assert max(stored) == min(stored)


async def test_a_recording_replays_calls_of_tools_and_lines_without_any_are_what_they_were(
    fake_openai: FakeOpenAI, tmp_path: Path
) -> None:
    fake_openai.script(openai.tool_calls(("run_sql", ARGUMENTS), text="I look."))
    observations = Observations(recorded=True)
    async with open_backbone(fake_settings(fake_openai), RunResources(observations=observations)) as opened:
        meter = opened.fresh(Origin("1", "museum", "turn"))
        asked = await meter.complete(ASKED)
        await meter.complete(Request(OPENING))
    lines = [
        RecordedReply("1", "museum", "turn", number, seen.reply, seen.digest, tool_calls=seen.tool_calls)
        for number, seen in enumerate(observations)
    ]
    file = tmp_path / "recording.jsonl"
    write_recording(file, lines)
    first, second = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    assert first["reply"] == stored_text(asked)
    assert "tool_calls" not in second
    replayed = await RecordedBackbone(read_recording(file)).complete(ASKED)
    assert (replayed.text, replayed.calls) == (asked.text, asked.calls)
    objects: list[dict[str, Any]] = [
        {}, {"text": ""}, {"text": None, "tool_calls": []}, {"text": "", "tool_calls": "abc"},
        {"text": "", "tool_calls": [["a", "run_sql"]]}, {"text": "", "tool_calls": [["a", 2, "{}"]]},
    ]  # fmt: skip
    for reply in ("{", "[" * 100_000, "5", *map(json.dumps, objects)):
        file.write_text(json.dumps(first | {"reply": reply}) + "\n", encoding="utf-8")
        with pytest.raises(DataError, match=r"line 1: .*its text and tool calls cannot be read"):
            read_recording(file)
