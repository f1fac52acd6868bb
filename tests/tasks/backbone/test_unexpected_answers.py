"""Complete replies in forms that were not requested, and errors with status 200: each is read, and not bought again.

The forms are those of the providers' documentation: Groq (error codes), MiniMax (`base_resp`), FastAPI (`detail`), and
the events of OpenAI's API reference "Chat streaming".
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tasks.backbone.endpoint import chat, messages, responses
from tasks.backbone.endpoint.check import listed_models, stated_context
from tasks.backbone.endpoint.connection import HttpAnswer
from tasks.backbone.endpoint.wire import GarbledAnswerError, RefusedInBodyError
from tasks.core.errors import BackboneError
from tests.support.fake_openai import Behaviour, Body
from tests.tasks.backbone.conftest import Endpoint


def event(delta: Body, finish: str | None = None, **more: Any) -> str:
    chunk = {"id": "1", "object": "chat.completion.chunk", "model": "fake-1", **more}
    return f"data: {json.dumps(chunk | {'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]})}\n\n"


STREAM = (
    event({"role": "assistant", "content": ""})
    + event({"content": "SELECT '\u2028"})
    + event({"content": "1'"})
    + event({}, "stop")
    + 'data: {"id": "1", "model": "fake-1", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}\n\n'
    + "data: [DONE]\n\n"
)


async def test_an_event_stream_is_read(endpoint: Endpoint) -> None:
    endpoint.server.always(Behaviour(raw=STREAM.encode(), headers={"content-type": "text/event-stream"}))
    answered = await endpoint.ask()
    assert answered.text == "SELECT '\u20281'"
    assert (answered.call.usage.input, answered.call.usage.output, answered.call.model) == (9, 4, "fake-1")
    assert len(endpoint.server.requests) == 1


@pytest.mark.parametrize(
    "before", [": OPENROUTER PROCESSING\n\n", "\n\n", "event: message\nid: 7\n", ":\r\n\r\n"]
)
async def test_an_event_stream_may_begin_with_other_lines(endpoint: Endpoint, before: str) -> None:
    endpoint.server.always(Behaviour(raw=(before + STREAM).encode(), headers={"content-encoding": "gzip"}))
    assert (await endpoint.ask()).text == "SELECT '\u20281'" and len(endpoint.server.requests) == 1


def test_an_event_stream_of_the_other_protocols_is_read() -> None:
    """The events of OpenAI's reference "Streaming events" and of Anthropic's guide "Streaming messages"."""

    def stream(*events: Body) -> str:
        return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)

    text = {"type": "message", "content": [{"type": "output_text", "text": "SELECT 1"}]}
    response = {"model": "m", "status": "completed", "output": [text]}
    created = {"type": "response.created", "response": {"status": "in_progress", "output": []}}
    (reply,) = responses.answer_of(stream(created, {"type": "response.completed", "response": response}))
    assert (reply.text, reply.call.model) == ("SELECT 1", "m")
    with pytest.raises(RefusedInBodyError):
        responses.answer_of(stream(created, {"type": "error", "code": "server_error", "message": "no"}))

    def piece(index: int, **delta: str) -> Body:
        return {"type": "content_block_delta", "index": index, "delta": delta}

    def begin(index: int, **block: Any) -> Body:
        return {"type": "content_block_start", "index": index, "content_block": block}

    start = {"type": "message_start", "message": {"model": "c", "content": [], "usage": {"input_tokens": 9}}}
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}}
    blocks = [begin(0, type="text", text=""), piece(0, text="SELECT "), piece(0, text="1")]
    call = [begin(1, type="tool_use", id="t", name="run_sql", input={}), piece(1, partial_json='{"sql": ""}')]
    (reply,) = messages.answer_of(
        stream(start, {"type": "ping"}, *blocks, *call, end, {"type": "message_stop"})
    )
    assert (reply.text, reply.call.model) == ("SELECT 1", "c")
    assert (reply.call.usage.input, reply.call.usage.output) == (9, 4)
    assert [(each.name, each.arguments) for each in reply.calls] == [("run_sql", '{"sql": ""}')]
    with pytest.raises(GarbledAnswerError):
        messages.answer_of(stream(start, *blocks))
    with pytest.raises(RefusedInBodyError):
        messages.answer_of(stream(start, {"type": "error", "error": {"type": "overloaded_error"}}))


async def test_tool_calls_in_an_event_stream_are_joined(endpoint: Endpoint) -> None:
    def piece(**function: str) -> Body:
        return {"tool_calls": [{"index": 0, "function": function}]}

    first = piece(name="run_sql", arguments="")
    first["tool_calls"][0]["id"] = "c1"
    deltas = [first, piece(arguments='{"sql": '), piece(arguments='"SELECT 1"}')]
    pieces = [*map(event, deltas), event({}, "tool_calls")]
    endpoint.server.always(Behaviour(raw="".join(pieces).encode()))
    (call,) = (await endpoint.ask()).calls
    assert (call.id, call.name, json.loads(call.arguments)) == ("c1", "run_sql", {"sql": "SELECT 1"})


async def test_an_event_stream_that_was_cut_off_is_requested_again(endpoint: Endpoint) -> None:
    endpoint.server.script(Behaviour(raw=event({"role": "assistant", "content": "SELECT"}).encode()))
    assert (await endpoint.ask()).text.startswith("reply to")
    assert len(endpoint.server.requests) == 2


async def test_an_answer_that_claims_to_be_compressed_is_read(endpoint: Endpoint) -> None:
    endpoint.server.always(Behaviour(headers={"content-encoding": "gzip"}))
    assert (await endpoint.ask()).text.startswith("reply to") and len(endpoint.server.requests) == 1


@pytest.mark.parametrize("code", ["json_validate_failed", "tool_use_failed"])
async def test_what_a_model_wrote_in_another_form_is_an_answer(endpoint: Endpoint, code: str) -> None:
    error = {"message": "Failed to generate JSON.", "type": "invalid_request_error", "code": code}
    endpoint.server.always(Behaviour(400, {"error": error | {"failed_generation": '{"sql": SELECT 1}'}}))
    answered = await endpoint.ask()
    assert answered.text == '{"sql": SELECT 1}' and answered.call.usage.output is None
    assert answered.call.cost_usd is None, "unknown, not free"


@pytest.mark.parametrize(("status", "error"), [
    (400, {"message": 'GroqException - {"error":{"failed_generation":"{\\"sql\\": S}"}}'}),
    (400, {"message": "Provider returned error", "metadata": {"raw": '{"failed_generation": "{\\"sql\\": S}"}'}}),
    (500, {"message": "error parsing tool call: raw='{\"sql\": S}', err=invalid character 'S'"}),
    (500, {"message": 'Failed to parse input at pos 0: {"sql": S}'}),
])  # fmt: skip
async def test_what_a_model_wrote_may_be_quoted_in_a_message(
    endpoint: Endpoint, status: int, error: Body
) -> None:
    """As LiteLLM and OpenRouter quote Groq, and as Ollama and llama.cpp write it."""
    endpoint.server.always(Behaviour(status, {"error": error}))
    assert (await endpoint.ask()).text == '{"sql": S}' and len(endpoint.server.requests) == 1


async def test_a_quoted_text_with_a_wrong_escape_is_passed_on(endpoint: Endpoint) -> None:
    error = {"message": 'GroqException - {"failed_generation": "SELECT \\d"}'}
    endpoint.server.always(Behaviour(400, {"error": error}))
    assert (await endpoint.ask()).text == "SELECT \\d" and len(endpoint.server.requests) == 1


async def test_a_document_that_the_limit_cut_off_is_truncated(endpoint: Endpoint) -> None:
    message = "Failed to generate JSON: max completion tokens reached before generating a valid document."
    error = {"message": message, "code": "json_validate_failed", "failed_generation": ""}
    endpoint.server.always(Behaviour(400, {"error": error}))
    answered = await endpoint.ask()
    assert answered.text == "" and answered.truncated
    endpoint.server.always(Behaviour(400, {"error": {"message": "no", "code": "json_validate_failed"}}))
    assert (await endpoint.ask()).text == "", "unreadable, and not a refusal of the prompt"


@pytest.mark.parametrize(
    ("finish", "truncated", "text"),
    [
        ("content_filter: PROHIBITED_CONTENT", False, "The content filter stopped the reply."),
        ("SAFETY", False, "The content filter stopped the reply."),
        ("sensitive", False, "The content filter stopped the reply."),
        ("model_length", True, ""),
        ("MAX_TOKENS", True, ""),
        (
            "function_call_filter: MALFORMED_FUNCTION_CALL",
            False,
            "The reply ended without a text (finish_reason function_call_filter: malformed_function_call).",
        ),
        ("repetition", False, "The reply ended without a text (finish_reason repetition)."),
    ],
)
@pytest.mark.parametrize("message", [{"content": None}, {}])
def test_finish_reasons_of_other_endpoints(finish: str, truncated: bool, text: str, message: Body) -> None:
    answer = {"choices": [{"message": message, "finish_reason": finish}]}
    (reply,) = chat.answer_of(json.dumps(answer))
    assert (reply.text, reply.truncated) == (text, truncated)


def test_a_filtered_choice_may_have_no_message_and_a_whole_reply_may_be_a_delta() -> None:
    filtered = {"choices": [{"finish_reason": "content_filter"}]}
    assert chat.answer_of(json.dumps(filtered))[0].text == "The content filter stopped the reply."
    chunk = {"choices": [{"delta": {"content": "SELECT 1"}, "finish_reason": "stop"}]}
    assert chat.answer_of(json.dumps(chunk))[0].text == "SELECT 1"
    broken = {"choices": [{"message": {"content": ""}, "finish_reason": None}], "error": {"message": "boom"}}
    with pytest.raises(RefusedInBodyError):
        chat.answer_of(json.dumps(broken))


@pytest.mark.parametrize(
    ("body", "reason", "requests"),
    [
        (
            {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
            "insufficient balance",
            1,
        ),
        ({"detail": "Model m is not loaded"}, "Model m is not loaded", 1),
        ({"promptFeedback": {"blockReason": "SAFETY"}}, r"blocked the prompt \(SAFETY\)", 1),
        (
            {
                "choices": [],
                "prompt_filter_results": [{"content_filter_results": {"hate": {"filtered": True}}}],
            },
            r"blocked the prompt \(hate\)",
            1,
        ),
        ({"error": {"code": "content_filter", "message": "No."}}, "No.", 1),
        ({"message": "the backend is busy"}, "the backend is busy", 7),
        ({"code": 500, "msg": "internal fault"}, "internal fault", 7),
        ({"success": False, "errors": [{"code": 5007, "message": "No such model"}]}, "No such model", 7),
        ({"error_code": 17, "error_msg": "daily limit reached"}, "daily limit reached", 7),
        ({"model": "m", "result": {"response": "SELECT 1"}}, "holds no choice, only model, result", 3),
    ],
)
async def test_an_error_with_status_200(endpoint: Endpoint, body: Body, reason: str, requests: int) -> None:
    endpoint.server.always(Behaviour(body=body))
    with pytest.raises(BackboneError, match=reason):
        await endpoint.ask()
    assert len(endpoint.server.requests) == requests


@pytest.mark.parametrize("usage", ["n/a", [1], 5, True])
async def test_usage_that_is_no_object_loses_no_reply(endpoint: Endpoint, usage: object) -> None:
    body = {"model": "fake-1", "choices": [{"message": {"content": "SELECT 1"}}], "usage": usage}
    endpoint.server.always(Behaviour(200, body))
    answered = await endpoint.ask()
    assert (answered.text, answered.call.usage.input, answered.call.cost_usd) == ("SELECT 1", None, None)


CHAT_ANSWER = {
    "model": "m",
    "service_tier": "flex",
    "choices": [
        {
            "finish_reason": "stop",
            "message": {
                "content": [{"type": "text", "text": "SELECT 1"}],
                "reasoning_content": "why",
                "refusal": None,
                "tool_calls": [{"id": "c", "function": {"name": "run_sql", "arguments": "{}"}}],
            },
        },
        {"finish_reason": "length", "message": {"content": "SELECT"}},
    ],
    "usage": {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "is_byok": True,
        "cost": 0,
        "cost_details": {"upstream_inference_cost": 0.2},
        "prompt_tokens_details": {"cached_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 2},
    },
}
RESPONSE = {
    "model": "m",
    "status": "incomplete",
    "incomplete_details": {"reason": "content_filter"},
    "error": None,
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "why"}]},
        {"type": "message", "phase": "commentary", "content": [{"type": "output_text", "text": "a"}]},
        {"type": "message", "content": [{"type": "refusal", "refusal": "no"}]},
        {"type": "function_call", "name": "run_sql", "arguments": "{}", "call_id": "i"},
    ],
    "usage": {"input_tokens": 1, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}},
}
MESSAGE = {
    "type": "message",
    "model": "m",
    "stop_reason": "refusal",
    "stop_details": {"explanation": "no"},
    "content": [
        {"type": "thinking", "thinking": "why"},
        {"type": "text", "text": "SELECT 1"},
        {"type": "tool_use", "name": "run_sql", "input": {}, "id": "i"},
    ],
    "usage": {
        "input_tokens": 1,
        "output_tokens": 2,
        "cache_read_input_tokens": 1,
        "service_tier": "standard",
    },
}
MODELS = {"data": [{"id": "m", "max_model_len": 4096, "meta": {"n_ctx_train": 1}}]}
ODD = (None, True, 0, -1, 10**40, "n/a", "", "\ud800", [], [1], [None], {}, {"a": 1}, [[1]], [{"type": 5}])


CHUNK = {
    "model": "m",
    "choices": [
        {
            "finish_reason": "stop",
            "delta": {
                "role": "assistant",
                "content": "SELECT 1",
                "extra": {"a": "b"},
                "tool_calls": [{"index": 0, "id": "c", "function": {"name": "run_sql", "arguments": "{}"}}],
            },
        }
    ],
    "usage": {"prompt_tokens": 3},
}
START = {"type": "message_start", "message": {"model": "m", "content": [], "usage": {"input_tokens": 9}}}
BLOCK = {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}
PIECE = {
    "type": "content_block_delta",
    "delta": {"text": "SELECT 1", "thinking": "why", "partial_json": "{}"},
}
END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}
DONE = {"type": "response.completed", "response": RESPONSE}


def stream_of(*events: object) -> str:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events)


def read_models(body: str) -> object:
    return stated_context(listed_models(HttpAnswer(200, {}, body)), "m")


def with_odd_values(value: Any) -> Iterator[Any]:
    """Yield an answer with each odd value in place of it, and of each value within it."""
    yield from ODD
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, inner in pairs:
        for odd in with_odd_values(inner):
            changed = value.copy()
            changed[place] = odd
            yield changed


@pytest.mark.parametrize(("answer", "read"), [
    (CHAT_ANSWER, chat.answer_of),
    (RESPONSE, responses.answer_of),
    (MESSAGE, messages.answer_of),
    (MODELS, read_models),
], ids=["chat", "responses", "messages", "models"])  # fmt: skip
def test_an_answer_with_a_value_of_another_type_is_read_or_garbled(
    answer: Body, read: Callable[[str], object]
) -> None:
    for changed in with_odd_values(answer):
        with suppress(GarbledAnswerError, RefusedInBodyError):
            read(json.dumps(changed))


@pytest.mark.parametrize(("events", "read"), [
    ([CHUNK, CHUNK, CHUNK], chat.answer_of),
    ([DONE], responses.answer_of),
    ([START, BLOCK, PIECE, PIECE, END], messages.answer_of),
], ids=["chat", "responses", "messages"])  # fmt: skip
def test_an_event_stream_with_a_value_of_another_type_is_read_or_garbled(
    events: list[Body], read: Callable[[str], object]
) -> None:
    for place, event in enumerate(events):
        for changed in with_odd_values(event):
            with suppress(GarbledAnswerError, RefusedInBodyError):
                read(stream_of(*events[:place], changed, *events[place + 1 :]))
    assert read(stream_of(*events))


async def test_odd_values_in_an_event_stream_lose_no_reply(endpoint: Endpoint) -> None:
    odd = {"content": 5, "tool_calls": "none", "extra": {"a": 1}}
    pieces = [event({"extra": "a", "content": "SELECT 1"}), event(odd), event({}, "stop")]
    endpoint.server.always(Behaviour(raw="".join(pieces).encode()))
    assert (await endpoint.ask()).text == "SELECT 1" and len(endpoint.server.requests) == 1
