"""The scripted agent behind OpenAI's chat protocol: requests with tools are read, and answered with tool calls."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tasks.backbone.offline.model import act
from tasks.backbone.protocol import Message, Request, Tool, canonical_request
from tasks.core.outcome import ToolCall
from tests.support.fake_openai import Behaviour, Body, tool_calls


def request_of(body: Body) -> Request:
    """Return the request that a chat body is; its known messages are those before the last turn."""
    messages: list[Message] = []
    for sent in body["messages"]:
        if sent["role"] == "tool":
            messages[-1] = _with_result(messages[-1], sent)
            continue
        calls = tuple(
            ToolCall(call["function"]["name"], call["function"]["arguments"], id=call["id"])
            for call in sent.get("tool_calls", ())
        )
        messages.append(Message(sent["role"], sent["content"] or "", calls=calls))
    offered = tuple(
        Tool(each["function"]["name"], each["function"]["description"], each["function"]["parameters"])
        for each in body.get("tools", ())
    )
    said = [place for place, message in enumerate(messages) if message.role == "assistant"]
    return Request(tuple(messages), tools=offered, known=said[-1] if offered and said else 0)


def act_as_offline(body: Body) -> Behaviour | None:
    """Return the offline model's tool calls; None for a request without tools."""
    if not body.get("tools"):
        return None
    text, calls = act(request_of(body))
    answer = tool_calls(*((call.name, call.arguments) for call in calls), text=text or None)
    for place, call in enumerate(answer.choice["message"]["tool_calls"]):
        call["id"] = f"call_{len(body['messages'])}_{place}"
    return answer


def said(asked: Mapping[str, Any]) -> str:
    """Return the messages of a request's canonical form, with the digest of those that were known."""
    return json.dumps([asked["messages"], asked.get("known")])


def said_in(body: Body) -> str:
    """Return the same of a chat body."""
    return said(json.loads(canonical_request({}, request_of(body))))


def _with_result(message: Message, sent: Body) -> Message:
    calls = tuple(
        replace(call, result=sent["content"]) if call.id == sent["tool_call_id"] else call
        for call in message.calls
    )
    return replace(message, calls=calls)
