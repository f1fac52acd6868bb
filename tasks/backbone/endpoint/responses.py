"""OpenAI's Responses API as plain data (API reference "Responses", types of the openai SDK 3.52).

Responses are not stored at the provider (`store: false`), unless `extra_body` says so. There is no seed.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from tasks.backbone.endpoint import wire
from tasks.backbone.endpoint.wire import WireFormat
from tasks.backbone.protocol import Message, Reply, Request
from tasks.backbone.replies.thoughts import with_thoughts
from tasks.core.outcome import STANDARD, Usage
from tasks.core.wording import storable
from tasks.settings.backbone import BackboneSettings

STATUSES = {"server_error": 500, "vector_store_timeout": 504, "rate_limit_exceeded": 429}
"""HTTP statuses of the codes with which a response fails, for what may pass; every other code says that the prompt
cannot be answered."""


def body_of(request: Request, settings: BackboneSettings) -> dict[str, Any]:
    """Return the request's body."""
    body: dict[str, Any] = {
        "model": settings.model,
        "input": list(chain.from_iterable(map(_sent, request.messages))),
        "store": False,
    }
    if request.tools:
        body["tools"] = [
            {"type": "function", "strict": False} | wire.function_of(tool) for tool in request.tools
        ]
    if (temperature := wire.temperature_of(request, settings)) is not None:
        body["temperature"] = temperature
    if settings.reasoning_effort is not None:
        body["reasoning"] = {"effort": settings.reasoning_effort}
    if settings.reply_tokens is not None:
        body["max_output_tokens"] = settings.reply_tokens
    if (reply_format := wire.response_format(request, settings)) is not None:
        schema = reply_format.pop("json_schema", {})
        # this API has no object "json_schema" around the schema
        body["text"] = {"format": reply_format | schema}
    fields = wire.tier_fields(request) | wire.cache_key_fields(request, settings)
    return wire.merged(body | fields, settings.extra_body)


def _sent(message: Message) -> Iterator[dict[str, Any]]:
    """Yield the items of a message: its text, its tool calls and their results are items of their own."""
    if message.content or not message.calls:
        yield {"role": message.role, "content": message.content}
    for call in message.calls:
        yield {
            "type": "function_call",
            "call_id": call.id,
            "name": wire.tool_name(call.name),
            "arguments": wire.arguments_text(call.arguments),
        }
    for call in message.calls:
        yield {"type": "function_call_output", "call_id": call.id, "output": call.result or ""}


def changes_of(settings: BackboneSettings) -> dict[str, str]:
    """Return how to change each parameter that an endpoint may refuse, by its name in the request's body."""
    mode = "set backbone.response_mode=json_object (or text)"
    return {
        "temperature": "set backbone.temperature=null",
        "reasoning": "set backbone.reasoning_effort to a value that it takes, or to null",
        "service_tier": f"set backbone.tier={STANDARD}",
        "text": mode,
        "text.format": mode,
        **dict.fromkeys(("tools", "tool_choice"), wire.NO_TOOLS),
        "max_output_tokens": "change backbone.max_tokens (16 or more), or set it to null",
    }


def answer_of(body: str) -> list[Reply]:
    """Read a response.

    Comments that the model makes before its final answer (phase "commentary") are part of its thoughts.
    """
    content = _streamed(body) if wire.is_stream(body) else wire.object_in(body, "response")
    status, error = content.get("status"), content.get("error")
    if error:
        code = str(wire.part(content, "error").get("code"))
        raise wire.RefusedInBodyError(error, STATUSES.get(code, 400))
    if status not in ("completed", "incomplete") or not isinstance(content.get("output"), list):
        raise wire.GarbledAnswerError(f"the answer is no response that has ended (status {status})")
    output = wire.parts(content, "output")
    thoughts = [
        wire.texts(wire.parts(item, "content"), "reasoning_text")
        or wire.texts(wire.parts(item, "summary"), "summary_text")
        for item in output
        if item.get("type") == "reasoning"
    ]
    commentary = final_answer = ""
    messages = [item for item in output if item.get("type") == "message"]
    for item in messages:
        blocks = wire.parts(item, "content")
        text = wire.texts(blocks, "output_text") or wire.texts(blocks, "refusal", "refusal")
        if item.get("phase") == "commentary":
            commentary += text
        else:
            final_answer += text
    is_incomplete = status == "incomplete"
    reason = wire.part(content, "incomplete_details").get("reason")
    is_filtered = is_incomplete and reason == "content_filter"
    usage = content.get("usage")
    all_thoughts = "\n\n".join(filter(None, (*thoughts, commentary)))
    reply = Reply(
        storable(with_thoughts(all_thoughts, wire.FILTERED if is_filtered else final_answer)),
        wire.bill_of(content.get("model"), usage_of(usage), wire.tier_of(content), wire.cost_in_ticks(usage)),
        truncated=is_incomplete and not is_filtered,
        calls=tuple(
            wire.tool_call(item.get("name"), item.get("arguments"), item.get("call_id"))
            for item in output
            if item.get("type") == "function_call"
        ),
    )
    return [reply]


def _streamed(body: str) -> Mapping[str, Any]:
    """Return the response in an event stream: the last event has it as a whole, or is an error."""
    content: Mapping[str, Any] = {}
    for event in wire.events(body, "event of a response"):
        content = wire.part(event, "response") or (event if event.get("type") == "error" else content)
    return {"error": dict(content)} if content.get("type") == "error" else content


def usage_of(usage: Any) -> Usage:
    """Return the token counts in a response's `usage`."""
    input_tokens = wire.count(usage, "input_tokens")
    cached = wire.count(wire.part(usage, "input_tokens_details"), "cached_tokens")
    if cached is not None and input_tokens is not None and cached > input_tokens:
        cached = None  # implausible: it is a part of the input
    return Usage(
        input=input_tokens,
        cached_input=cached,
        output=wire.count(usage, "output_tokens"),
        reasoning=wire.count(wire.part(usage, "output_tokens_details"), "reasoning_tokens"),
        cache_write=wire.count(wire.part(usage, "input_tokens_details"), "cache_write_tokens"),
    )


RESPONSES = WireFormat(path="responses", body=body_of, changes=changes_of, answer=answer_of)
"""OpenAI's Responses API: the only one of its codex and pro models."""
