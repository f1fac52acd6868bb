"""Complete replies in forms that were not requested, and errors with status 200: each is read, and not bought again.

The forms are those of the providers' documentation: Groq (error codes), MiniMax (`base_resp`), FastAPI (`detail`), and
the events of OpenAI's API reference "Chat streaming".
"""

import json
from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("body", "reason", "requests"),
    [
        (
            {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
            "insufficient balance",
            1,
        ),
        ({"detail": "Model m is not loaded"}, "Model m is not loaded", 1),
        ({"message": "the backend is busy"}, "the backend is busy", 7),
    ],
)
async def test_an_error_with_status_200(endpoint: Endpoint, body: Body, reason: str, requests: int) -> None:
    endpoint.server.always(Behaviour(body=body))
    with pytest.raises(BackboneError, match=reason):
        await endpoint.ask()
    assert len(endpoint.server.requests) == requests
