"""A fake of Anthropic's Messages API, which returns errors on demand.

It follows the API reference "Messages" and "Errors" (platform.claude.com/docs/en/api) as the types of the anthropic SDK
2.12 state it: `anthropic.types.Message`, `MessageCreateParams` and `shared.ErrorResponse`. The
fixture validates all requests and replies of a test with these types.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.types import Message
from anthropic.types.message_create_params import MessageCreateParams
from anthropic.types.shared import ErrorResponse

from tests.support.fake_openai import Behaviour, Body, FakeOpenAI
from tests.support.sdk_types import assert_of_type

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
"""Types of errors by status, from the page "Errors"."""


def failure(status: int, message: str, **headers: str) -> Behaviour:
    """An error in Anthropic's form."""
    body = {"type": "error", "error": {"type": TYPES[status], "message": message}, "request_id": "req_1"}
    ErrorResponse.model_validate(body)
    return Behaviour(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def overloaded() -> Behaviour:
    """529: the API is overloaded."""
    return failure(529, "Overloaded")


def rate_limited(retry_after: float) -> Behaviour:
    """429, with the seconds to wait."""
    return failure(
        429, "This request would exceed your organization's rate limit", retry_after=f"{retry_after}"
    )


def out_of_tokens(text: str = "") -> Behaviour:
    """A message that stopped at the token limit."""
    return Behaviour(content=text, choice={"stop_reason": "max_tokens"})


def refused(explanation: str | None) -> Behaviour:
    """A message that a classifier stopped in the middle of a word."""
    details = {"type": "refusal", "category": "cyber", "explanation": explanation}
    return Behaviour(content='{"sql": "SEL', choice={"stop_reason": "refusal", "stop_details": details})


def blocks(*content: Body, **more: Any) -> Behaviour:
    """A message with these content blocks."""
    return Behaviour(choice={"content": list(content), **more})


def thought(text: str) -> Body:
    """A content block with the model's thoughts."""
    return {"type": "thinking", "thinking": text, "signature": "c2lnbmF0dXJl"}


def said(text: str) -> Body:
    """A content block of text."""
    return {"type": "text", "text": text, "citations": None}


def tool_use(name: str, arguments: Body, id: str = "toolu_1") -> Body:
    """A content block that calls a tool."""
    return {"type": "tool_use", "id": id, "name": name, "input": arguments, "caller": {"type": "direct"}}


class FakeAnthropic(FakeOpenAI):
    """The server, at `/v1/messages`; `choice` of a behaviour is merged into the message."""

    path = "/v1/messages"

    def _reply(self, how: Behaviour, body: Body) -> Body:
        text = self.answer(body) if how.content is None else how.content
        asked = len(str(body.get("system", ""))) + sum(len(str(each["content"])) for each in body["messages"])
        usage = {
            "input_tokens": asked // 4 + 1,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": len(text) // 4 + 1,
            "service_tier": "standard",
        }
        message: Body = {
            "id": "msg_fake",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [said(text)],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": usage if how.usage == {} else how.usage,
        }
        return message | how.choice


@pytest.fixture
def fake_anthropic() -> Iterator[FakeAnthropic]:
    """A fresh server for one test."""
    with FakeAnthropic() as server:
        yield server
        assert_of_type(MessageCreateParams, [each.body for each in server.requests])
        assert_of_type(Message, server.replies)
