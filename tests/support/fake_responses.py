"""A fake of OpenAI's Responses API, which returns errors on demand.

It follows the API reference "Responses" (developers.openai.com/api/reference) as the types of the openai SDK 3.52 state
it: `openai.types.responses.Response` and `ResponseCreateParams`. The
fixture validates all requests and replies of a test with these types.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParams

from tests.support.fake_openai import Behaviour, Body, FakeOpenAI, error
from tests.support.sdk_types import assert_of_type


def out_of_tokens(text: str = "") -> Behaviour:
    """A response that stopped at the token limit."""
    details = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return Behaviour(content=text, choice=details)


def filtered() -> Behaviour:
    """A response that the content filter stopped."""
    details = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    return Behaviour(content='{"sql": "SELECT', choice=details)


def refused(text: str) -> Behaviour:
    """A response whose model refuses to answer."""
    return Behaviour(choice={"output": [message([{"type": "refusal", "refusal": text}])]})


def failed(code: str, text: str) -> Behaviour:
    """Status 200 with a response that failed."""
    return Behaviour(choice={"status": "failed", "error": {"code": code, "message": text}, "output": []})


def message(content: list[Body], **more: Any) -> Body:
    """An output item with the model's words."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": content,
        **more,
    }


def said(text: str) -> Body:
    """A block of text."""
    return {"type": "output_text", "text": text, "annotations": []}


def thought(text: str) -> Body:
    """An output item with a summary of the model's reasoning."""
    return {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


def function_call(name: str, arguments: str, id: str = "call_1") -> Body:
    """An output item that calls a function."""
    return {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": arguments}


def unavailable() -> Behaviour:
    """429 as a tier without free capacity gives it."""
    return error(429, "Resource unavailable", code="resource_unavailable", type_="server_error")


class FakeResponses(FakeOpenAI):
    """The server, at `/v1/responses`; `choice` of a behaviour is merged into the response."""

    path = "/v1/responses"

    def _reply(self, how: Behaviour, body: Body) -> Body:
        text = self.answer(body) if how.content is None else how.content
        asked, written = sum(len(str(each)) for each in body["input"]) // 4 + 1, len(text) // 4 + 1
        usage = {
            "input_tokens": asked,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": asked + written,
        }
        response: Body = {
            "id": "resp_fake",
            "object": "response",
            "created_at": time.time(),
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "model": body["model"],
            "output": [message([said(text)])],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": usage if how.usage == {} else how.usage,
        }
        return response | how.choice


@pytest.fixture
def fake_responses() -> Iterator[FakeResponses]:
    """A fresh server for one test."""
    with FakeResponses() as server:
        yield server
        assert_of_type(ResponseCreateParams, [each.body for each in server.requests])
        assert_of_type(Response, server.replies)
