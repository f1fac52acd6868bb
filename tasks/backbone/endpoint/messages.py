"""Anthropic's Messages API as plain data (API reference "Messages", types of the anthropic SDK 2.12)."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from tasks.backbone.endpoint import wire
from tasks.backbone.endpoint.wire import WireFormat
from tasks.backbone.protocol import Message, Reply, Request
from tasks.backbone.replies.thoughts import with_thoughts
from tasks.core.outcome import Usage
from tasks.core.wording import storable
from tasks.settings.backbone import BackboneSettings

REPLY_TOKENS = 8192
"""Limit of output tokens where the settings have none; the protocol requires one."""
TRUNCATED = ("max_tokens", "model_context_window_exceeded")
CACHED = {"type": "ephemeral"}
"""Marks the end of a beginning that the provider keeps for 5 minutes after each use."""


def body_of(request: Request, settings: BackboneSettings) -> dict[str, Any]:
    """Return the request's body.

    If the backbone has a prefix cache, the ends of what a request shares with others are marked with `cache_control`.
    System messages are joined. A thinking budget that leaves no room for a reply is added to the limit.
    """
    caches = settings.has_prefix_cache
    limit = settings.reply_tokens or REPLY_TOKENS
    thinking_budget = wire.count(wire.part(settings.extra_body, "thinking"), "budget_tokens") or 0
    if thinking_budget >= limit:
        limit += thinking_budget
    conversation = [message for message in request.messages if message.role != "system"]
    body: dict[str, Any] = {
        "model": settings.model,
        "max_tokens": limit,
        "messages": list(chain.from_iterable(_sent(message, caches=caches) for message in conversation)),
    }
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
            for tool in request.tools
        ]
    if caches and request.messages[-1].calls:  # the agent's next turn repeats all up to the last result
        body["messages"][-1]["content"][-1]["cache_control"] = CACHED
    system = "\n\n".join(message.content for message in request.messages if message.role == "system")
    if system:
        body["system"] = system
    if (temperature := wire.temperature_of(request, settings)) is not None:
        body["temperature"] = temperature
    config: dict[str, Any] = {}
    if settings.reasoning_effort is not None:
        config["effort"] = settings.reasoning_effort
    json_schema = wire.part(wire.response_format(request, settings), "json_schema")
    if json_schema.get("strict"):  # the API refuses a schema with an object of any keys
        config["format"] = {"type": "json_schema", "schema": json_schema["schema"]}
    if config:
        body["output_config"] = config
    return wire.merged(body, settings.extra_body)


def _sent(message: Message, *, caches: bool) -> Iterator[dict[str, Any]]:
    """Yield a message as the protocol has it: the results of its tool calls are one message of the user."""
    if not message.calls:
        yield {"role": message.role, "content": _blocks(message) if caches else message.content}
        return
    text = [{"type": "text", "text": message.content}] if message.content.strip() else []
    used = [
        {
            "type": "tool_use",
            "id": call.id,
            "name": wire.tool_name(call.name),
            "input": wire.arguments_object(call.arguments),
        }
        for call in message.calls
    ]
    yield {"role": message.role, "content": [*text, *used]}
    results = []
    for call in message.calls:
        result = {"type": "tool_result", "tool_use_id": call.id, "content": call.result or ""}
        results.append({**result, "is_error": True} if call.error else result)
    yield {"role": "user", "content": results}


def _blocks(message: Message) -> str | list[dict[str, Any]]:
    if not message.shared:
        return message.content
    shared, rest = message.content[: message.shared], message.content[message.shared :]
    first = {"type": "text", "text": shared, "cache_control": CACHED}
    return [first, {"type": "text", "text": rest}] if rest else [first]


def changes_of(settings: BackboneSettings) -> dict[str, str]:
    """Return how to change each parameter that an endpoint may refuse, by its name in the request's body."""
    effort = "set backbone.reasoning_effort to a value that it takes, or to null"
    mode = "set backbone.response_mode=text"
    return {
        "temperature": "set backbone.temperature=null",
        "output_config.effort": effort,
        "effort": effort,
        "output_config.format": mode,
        "output_format": mode,
        "max_tokens": "change backbone.max_tokens",
        "cache_control": "set backbone.prefix_cache=false",
        **dict.fromkeys(("tools", "tool_use"), wire.NO_TOOLS),
    }


def answer_of(text: str) -> list[Reply]:
    """Read a message.

    What a model wrote before it refused is left out, as the documentation of `stop_reason` asks.
    """
    content = _streamed(text) if wire.is_stream(text) else wire.object_in(text, "message")
    if content.get("type") == "error" or (content.get("error") and not content.get("content")):
        raise wire.RefusedInBodyError(content.get("error"), status=500)
    reason = content.get("stop_reason")
    if not isinstance(content.get("content"), list) or not reason:
        raise wire.GarbledAnswerError("the answer is no message that has ended")
    blocks = wire.parts(content, "content")
    reply_text = wire.texts(blocks, "text")
    if reason == "refusal":
        explanation = wire.part(content, "stop_details").get("explanation")
        reply_text = str(explanation or "The model refused to answer.")
    usage = wire.part(content, "usage")
    reply = Reply(
        storable(with_thoughts(wire.texts(blocks, "thinking", "thinking"), reply_text)),
        wire.bill_of(content.get("model"), usage_of(usage), wire.tier_of(usage)),
        truncated=reason in TRUNCATED,
        calls=tuple(
            wire.tool_call(block.get("name"), block.get("input"), block.get("id"))
            for block in blocks
            if block.get("type") == "tool_use" and reason != "refusal"
        ),
    )
    return [reply]


def _streamed(text: str) -> dict[str, Any]:
    """Return the message in an event stream: its blocks, their pieces joined, and how it ended."""
    message: dict[str, Any] = {}
    blocks: list[dict[str, Any]] = []
    for event in wire.events(text, "event of a message"):
        delta = wire.part(event, "delta")
        match event.get("type"):
            case "error":
                return event
            case "message_start":
                message = dict(wire.part(event, "message"))
            case "content_block_start":
                blocks.append(dict(wire.part(event, "content_block")))
            case "content_block_delta" if blocks:
                for name in ("text", "thinking", "partial_json"):
                    blocks[-1][name] = wire.text(blocks[-1].get(name)) + wire.text(delta.get(name))
            case "message_delta":
                usage = {**wire.part(message, "usage"), **wire.part(event, "usage")}
                message |= {**delta, "usage": usage}
    called = [
        block | {"input": block["partial_json"]} if block.get("partial_json") else block for block in blocks
    ]
    return message | {"content": called}


def usage_of(usage: Any) -> Usage:
    """Return the token counts in a message's `usage`, whose `input_tokens` are without those of the prompt cache."""
    uncached = wire.count(usage, "input_tokens")
    cache_read = wire.count(usage, "cache_read_input_tokens")
    cache_write = wire.count(usage, "cache_creation_input_tokens")
    return Usage(
        input=None if uncached is None else uncached + (cache_read or 0) + (cache_write or 0),
        cached_input=cache_read,
        output=wire.count(usage, "output_tokens"),
        reasoning=wire.count(wire.part(usage, "output_tokens_details"), "thinking_tokens"),
        cache_write=cache_write,
    )


def takes_tools(settings: BackboneSettings) -> bool:
    """Return whether requests may offer tools: not with extended thinking, whose blocks would have to be sent back."""
    return wire.part(settings.extra_body, "thinking").get("type") in (None, "disabled")


MESSAGES = WireFormat(
    path="messages",
    body=body_of,
    changes=changes_of,
    answer=answer_of,
    modes=("json_schema", "text"),
    tools=takes_tools,
    sdk="anthropic",
)
"""Anthropic's Messages API."""
