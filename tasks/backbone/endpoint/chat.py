"""The OpenAI chat protocol as plain data: a request's body, and the reply in an answer's body."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from tasks.backbone.endpoint import wire
from tasks.backbone.endpoint.wire import WireFormat
from tasks.backbone.protocol import Message, Reply, Request
from tasks.backbone.replies.thoughts import with_thoughts
from tasks.core.outcome import STANDARD, ToolCall, Usage
from tasks.core.wording import storable
from tasks.settings.backbone import BackboneSettings

INTERRUPTED = ("error", "abort", "timeout", "cancelled", "insufficient_system_resource", "network_error")
"""Finish reasons of replies that the endpoint could not complete: of gateways and servers, of DeepSeek, of Z.AI."""
TRUNCATED = ("length", "max_tokens", "model_length", "token_limit")
"""Finish reasons of replies that reached a limit: of OpenAI, of Cohere and Gemini, of Mistral, of watsonx."""
FILTERS = (
    "content_filter",
    "safety",
    "sensitive",
    "prohibited_content",
    "recitation",
    "guardrail_intervened",
)
"""Beginnings of the finish reasons of replies that a filter stopped: of OpenAI, Gemini, Z.AI and Amazon Bedrock."""
ERRORS = ("error", "detail", "message", "msg", "errors", "error_msg", "error_message", "reason")
"""Where bodies without a reply have their error: of most endpoints, FastAPI, gateways, Cloudflare, Baidu."""


def body_of(request: Request, settings: BackboneSettings) -> dict[str, Any]:
    """Return the request's body.

    Each sample has its own seed, or all would be equal. Without a system role, the user's message begins with its text.
    """
    messages = list(chain.from_iterable(map(_sent, request.messages)))
    if not settings.system_role and [message["role"] for message in messages[:2]] == ["system", "user"]:
        system, user, *others = messages
        messages = [user | {"content": f"{system['content']}\n\n{user['content']}"}, *others]
    body: dict[str, Any] = {"model": settings.model, "messages": messages, "stream": False}
    if (temperature := wire.temperature_of(request, settings)) is not None:
        body["temperature"] = temperature
    if settings.seed is not None:
        body["seed"] = settings.seed + request.sample
    if settings.reasoning_effort is not None:
        body["reasoning_effort"] = settings.reasoning_effort
    if settings.reply_tokens is not None:
        body[_limit_field(settings)] = settings.reply_tokens
    if request.tools:
        body["tools"] = [{"type": "function", "function": wire.function_of(tool)} for tool in request.tools]
    if (reply_format := wire.response_format(request, settings)) is not None:
        body["response_format"] = reply_format
    return body | wire.tier_fields(request) | wire.cache_key_fields(request, settings) | settings.extra_body


def _sent(message: Message) -> Iterator[dict[str, Any]]:
    """Yield a message as the protocol has it: the results of its tool calls are messages of their own."""
    if not message.calls:
        yield {"role": message.role, "content": message.content}
        return
    called = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": wire.tool_name(call.name), "arguments": wire.arguments_text(call.arguments)},
        }
        for call in message.calls
    ]
    yield {"role": message.role, "content": message.content or None, "tool_calls": called}
    for call in message.calls:
        yield {"role": "tool", "tool_call_id": call.id, "content": call.result or ""}


def changes_of(settings: BackboneSettings) -> dict[str, str]:
    """Return how to change each parameter that an endpoint may refuse, by its name in the request's body."""
    limit_field = _limit_field(settings)
    limit, other_limit = "max_completion_tokens", "max_tokens"  # the settings that the user may change
    if settings.max_tokens:
        limit, other_limit = other_limit, limit
    other_mode = "text" if wire.response_mode_of(settings) == "json_object" else "json_object (or text)"
    return {
        "temperature": "set backbone.temperature=null",
        "seed": "set backbone.seed=null",
        "reasoning_effort": "set backbone.reasoning_effort to a value that it takes, or to null",
        "response_format": f"set backbone.response_mode={other_mode}",
        "n": "set backbone.samples_per_request=1",
        "tools": wire.NO_TOOLS,
        "tool_choice": wire.NO_TOOLS,
        "tool choice": wire.NO_TOOLS,  # as vLLM writes it
        "service_tier": f"set backbone.tier={STANDARD}",
        limit_field: f"lower backbone.{limit}, or set it to null and backbone.{other_limit} instead",
    }


def _limit_field(settings: BackboneSettings) -> str:
    """Return the parameter of the output limit.

    OpenAI deprecates `max_tokens`, and its reasoning models refuse it; Ollama, DeepSeek and older servers know no other
    and ignore `max_completion_tokens`.
    """
    at_openai = wire.public_url(settings) == wire.OPENAI_URL
    return "max_completion_tokens" if at_openai or settings.max_completion_tokens else "max_tokens"


def answer_of(text: str) -> list[Reply]:
    """Read a chat completion: a reply per choice, all with the bill of the whole answer."""
    content = _streamed(text) if wire.is_stream(text) else wire.object_in(text, "chat completion")
    choices = content.get("choices")
    if not choices and (error := _error_in(content)):
        raise wire.RefusedInBodyError(error)
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise wire.GarbledAnswerError(f"the answer holds no choice, only {', '.join(content) or 'nothing'}")
    finish = _finish(choices[0])
    if finish in INTERRUPTED:
        error = choices[0].get("error") or {"message": f"the reply was interrupted (finish_reason {finish})"}
        raise wire.RefusedInBodyError(error)
    message = choices[0].get("message", choices[0].get("delta"))
    is_filtered = finish.startswith(FILTERS)
    if not isinstance(message, dict) and not is_filtered:
        raise wire.GarbledAnswerError("the answer's choice holds no message")
    message = message or {}
    text = _content(message)
    if not _joined(message.get("content")) and (error := content.get("error")):
        raise wire.RefusedInBodyError(error)
    if is_filtered and not _joined(message.get("content")):
        text += wire.FILTERED
    elif not text and not message.get("tool_calls") and finish not in ("", "stop", *TRUNCATED):
        text = f"The reply ended without a text (finish_reason {finish})."
    usage = wire.part(content, "usage")
    bill = wire.bill_of(content.get("model"), usage_of(usage), wire.tier_of(content), cost_usd=_cost(usage))
    reply = Reply(storable(text), bill, truncated=finish in TRUNCATED, calls=_calls(message))
    return [reply, *_further_replies(reply, choices[1:])]


def _finish(choice: Mapping[str, Any]) -> str:
    return str(choice.get("finish_reason") or "").lower()


def _streamed(text: str) -> dict[str, Any]:
    """Return the chat completion in an event stream, which some gateways send although none was requested."""
    completion: dict[str, Any] = {}
    message: dict[str, Any] = {}
    finish = None
    for event in wire.events(text, "event of a chat completion"):
        choices = wire.parts(event, "choices")
        event.pop("choices", None)
        completion |= {name: value for name, value in event.items() if value is not None}
        for choice in choices:
            finish = choice.get("finish_reason") or finish
            _append(message, wire.part(choice, "delta"))
    if message and finish is None:
        raise wire.GarbledAnswerError("the answer is an event stream that was cut off")
    if message:
        completion["choices"] = [{"message": message, "finish_reason": finish}]
    return completion


def _append(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Append an event's part of a message: texts are joined, also those of tool calls with the same index.

    Other values are left out, and "role" and "type": each event may repeat these names as a whole.
    """
    for name, value in delta.items():
        if name == "tool_calls":
            calls = message.setdefault(name, [])
            for piece in wire.parts(delta, name):
                call = next((call for call in calls if call["index"] == piece.get("index")), None)
                if call is None:
                    call = {"index": piece.get("index")}
                    calls.append(call)
                _append(call, {"id": piece.get("id"), "function": piece.get("function")})
        elif isinstance(value, dict):
            if not wire.part(message, name):
                message[name] = {}
            _append(message[name], value)
        elif isinstance(value, str) and name not in ("role", "type"):
            message[name] = wire.text(message.get(name)) + value


def _error_in(content: Mapping[str, Any]) -> Any:
    """Return the error in a body without a reply, under the names that endpoints give it; None if there is none.

    MiniMax has `base_resp` with `status_code` and `status_msg`; Gemini and Azure name what blocked the prompt.
    """
    blocked = [wire.part(content, "promptFeedback").get("blockReason")]
    for prompt in wire.parts(content, "prompt_filter_results"):
        filters = wire.part(prompt, "content_filter_results")
        blocked += [name for name in filters if wire.part(filters, name).get("filtered")]
    if found := ", ".join(str(reason) for reason in blocked if reason):
        return {"message": f"the content filter blocked the prompt ({found})", "code": "content_filter"}
    message = wire.part(content, "base_resp").get("status_msg")
    error = message or next((content[name] for name in ERRORS if content.get(name)), None)
    if isinstance(error, list) and isinstance(error[0], dict) and "message" in error[0]:
        return error[0]
    if error is None or isinstance(error, dict):
        return error
    return {"message": error if isinstance(error, str) else json.dumps(error)}


def _further_replies(reply: Reply, choices: Iterable[Any]) -> Iterator[Reply]:
    """Read the choices behind the first one, up to one that the endpoint could not complete."""
    for choice in choices:
        message = wire.part(choice, "message")
        if not message or (finish := _finish(choice)) in INTERRUPTED:
            return
        text = storable(_content(message))
        yield replace(reply, text=text, truncated=finish in TRUNCATED, calls=_calls(message))


def _calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    called = ((call.get("id"), wire.part(call, "function")) for call in wire.parts(message, "tool_calls"))
    return tuple(
        wire.tool_call(function.get("name"), function.get("arguments", ""), id) for id, function in called
    )


def _content(message: Mapping[str, Any]) -> str:
    """Return the text of a message behind its thoughts; a refusal stands for a text that is missing."""
    thoughts = _joined(message.get("reasoning_content")) or _joined(message.get("reasoning"))
    answer = _joined(message.get("content")) or _joined(message.get("refusal"))
    return with_thoughts(thoughts, answer)


def _joined(content: Any) -> str:
    """Return the text that a message has as one text or as a list of blocks; "" if it has neither."""
    if isinstance(content, list):
        values = (block.get("text") for block in content if isinstance(block, dict))
        return "".join(value for value in values if isinstance(value, str))
    return content if isinstance(content, str) else ""


def usage_of(usage: Any) -> Usage:
    """Return the token counts in an answer's `usage`."""
    if not isinstance(usage, dict):
        return Usage()
    prompt = wire.count(usage, "prompt_tokens")
    completion = wire.count(usage, "completion_tokens")
    total = wire.count(usage, "total_tokens")
    if prompt is not None and completion is not None and total is not None:
        # Some endpoints (Gemini, xAI) count a model's thoughts in the total only.
        completion = max(completion, total - prompt)
    details = usage.get("prompt_tokens_details")
    # names of OpenAI, of DeepSeek, of Kimi
    cached = wire.first_count(
        (details, "cached_tokens"), (usage, "prompt_cache_hit_tokens"), (usage, "cached_tokens")
    )
    if cached is not None and prompt is not None and cached > prompt:
        cached = None  # implausible: it is a part of the prompt
    # names of OpenAI, of DashScope, of Anthropic
    written = "cache_creation_input_tokens"
    cache_write = wire.first_count((details, "cache_write_tokens"), (details, written), (usage, written))
    reasoning = wire.count(usage.get("completion_tokens_details"), "reasoning_tokens")
    return Usage(prompt, cached_input=cached, output=completion, reasoning=reasoning, cache_write=cache_write)


def _cost(usage: Mapping[str, Any]) -> float | None:
    """Return the cost in USD that an endpoint reports (OpenRouter, xAI); None without a plausible one.

    If the gateway used the user's own key at the provider, who sends the bill, `cost` is its fee, which may be 0.
    """
    cost = wire.cost_in_ticks(usage) if usage.get("cost") is None else _amount(usage["cost"])
    upstream_cost = _amount(wire.part(usage, "cost_details").get("upstream_inference_cost")) or 0.0
    if usage.get("is_byok", upstream_cost > (cost or 0.0)):
        return (cost or 0.0) + upstream_cost if upstream_cost else None
    return cost


def _amount(usd: Any) -> float | None:
    is_number = isinstance(usd, int | float) and not isinstance(usd, bool)
    return float(usd) if is_number and 0 <= usd <= wire.MAX_CALL_USD else None


CHAT = WireFormat(
    path="chat/completions",
    body=body_of,
    changes=changes_of,
    answer=answer_of,
    limits=("max_tokens", "max_completion_tokens"),
    takes=frozenset({"seed", "n", "tools", "system_role"}),
)
"""OpenAI's Chat Completions, which most servers speak."""
