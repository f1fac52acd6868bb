"""The OpenAI chat protocol as plain data: a request's body, and the reply in an answer's body."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tasks.backbone.endpoint.access import OPENAI_URL, public_url
from tasks.backbone.protocol import Request
from tasks.backbone.replies.json_text import with_thoughts
from tasks.core.outcome import Usage
from tasks.core.wording import storable
from tasks.settings.backbone import AUTO, MOST_TOKENS, RESPONSE_MODES, BackboneSettings

MOST_CALL_USD = 10_000.0
"""Highest cost of one call that is believed; a higher one is ignored as an error of the endpoint."""
INTERRUPTED = ("error", "abort", "insufficient_system_resource", "network_error")
"""Finish reasons of replies that the endpoint could not complete: of gateways and servers, of DeepSeek, of Z.AI."""


SENT_ONLY = frozenset(
    {
        "metadata",
        "priority",
        "prompt_cache_key",
        "prompt_cache_retention",
        "provider",
        "request_id",
        "route",
        "safety_identifier",
        "service_tier",
        "store",
        "tags",
        "usage",
        "user",
    }
)
"""Fields of the body that change the price, routing or accounting of a call, but not its reply. They are sent, but are
not part of the identity of a request: replies are reused when they change."""


class GarbledAnswerError(ValueError):
    """Invalid response body: truncated, not JSON, or without a choice."""


class RefusedInBodyError(ValueError):
    """Response with status 200 whose body is an `error` object, or whose choice is an interrupted reply.

    Attributes:
        status: the status that the object names, 502 when it names none.
        body: a body with this object alone.
    """

    def __init__(self, error: Any, body: str) -> None:
        code = error.get("code") if isinstance(error, dict) else None
        self.status = code if isinstance(code, int) and 400 <= code < 600 else 502
        self.body = body
        super().__init__(self.status)


@dataclass(frozen=True, slots=True)
class Answer:
    """Content of a chat completion.

    Attributes:
        text: the message's content, or its refusal; "" when it has neither. Thoughts that the endpoint gives in a field
            of their own precede it, between <think> tags. Storable everywhere, see `storable`.
        model: name of the model in the response, "" if missing. Storable as well.
        usage: token counts; None for a missing or implausible one.
        truncated: True when the model stopped at its token limit.
        cost_usd: cost that the endpoint reports, as gateways do; None without one.
    """

    text: str
    model: str
    usage: Usage
    truncated: bool
    cost_usd: float | None = None


def identity_of(settings: BackboneSettings) -> dict[str, Any]:
    """Return the settings that determine a reply: model, endpoint and sampling, without those in `SENT_ONLY`.

    The name is left out: two names for the same model share their cached replies. An epoch and a reasoning effort are
    in it where one is set, so that keys without one are what they always were. The reply format is left out: it is in
    the request's messages and schema.
    """
    optional = {"epoch": settings.epoch, "reasoning_effort": settings.reasoning_effort}
    return {name: value for name, value in optional.items() if value is not None} | {
        "kind": settings.kind,
        "model": settings.model,
        "base_url": address_of(settings),
        "temperature": settings.temperature,
        "max_tokens": settings.reply_tokens,
        "seed": settings.seed,
        "response_mode": _response_mode(settings),
        "extra_body": {name: value for name, value in settings.extra_body.items() if name not in SENT_ONLY},
    }


def address_of(settings: BackboneSettings) -> str:
    """Return the endpoint's URL; its query is part of it, which may name a deployment or a version, and no secret."""
    query = urlsplit(settings.base_url or "").query
    return public_url(settings.base_url or OPENAI_URL) + (f"?{query}" if query else "")


def body_of(request: Request, settings: BackboneSettings) -> dict[str, Any]:
    """Return the request's body.

    If the backbone's temperature is None, none is sent, also if the request has one: the model rejects it.
    The seed moves on with the sample index, or asking again would bring the same reply.
    """
    body: dict[str, Any] = {
        "model": settings.model,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
    }
    if settings.temperature is not None:
        body["temperature"] = settings.temperature if request.temperature is None else request.temperature
    if settings.seed is not None:
        body["seed"] = settings.seed + request.sample
    if settings.reasoning_effort is not None:
        body["reasoning_effort"] = settings.reasoning_effort
    limit = settings.max_tokens or settings.max_completion_tokens
    if limit is not None:
        body[_limit_field(settings)] = limit
    if request.schema is not None:
        body |= RESPONSE_MODES.get(_response_mode(settings))(request.schema)
    return body | settings.extra_body


def changes_of(settings: BackboneSettings) -> dict[str, str]:
    """Return how to change each parameter that an endpoint may refuse, by its name in the request's body."""
    limit = _limit_field(settings)
    other = "max_completion_tokens" if settings.max_tokens else "max_tokens"
    own = "max_tokens" if settings.max_tokens else "max_completion_tokens"
    other_mode = "text" if _response_mode(settings) == "json_object" else "json_object (or text)"
    return {
        "temperature": "set backbone.temperature=null",
        "seed": "set backbone.seed=null",
        "reasoning_effort": "set backbone.reasoning_effort to a value that it takes, or to null",
        "response_format": f"set backbone.response_mode={other_mode}",
        limit: f"lower backbone.{own}, or set it to null and backbone.{other} instead",
    } | {name: f'take "{name}" out of backbone.extra_body' for name in settings.extra_body}


def _response_mode(settings: BackboneSettings) -> str:
    """Return the response mode; for "auto", which `find_response_mode` replaces, the mode that most endpoints take."""
    return "json_object" if settings.response_mode == AUTO else settings.response_mode


def _limit_field(settings: BackboneSettings) -> str:
    """Return the parameter of the output limit.

    OpenAI deprecates `max_tokens`, and its reasoning models refuse it; Ollama, DeepSeek and older servers know no other
    and ignore `max_completion_tokens`.
    """
    at_openai = public_url(settings.base_url or OPENAI_URL) == OPENAI_URL
    return "max_completion_tokens" if at_openai or settings.max_completion_tokens else "max_tokens"


def answer_of(text: str) -> Answer:
    """Read a chat completion.

    Raises:
        GarbledAnswerError: the text is not JSON, or holds no choice.
        RefusedInBodyError: it is an `error` object, or an interrupted reply.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        start = " ".join(text[:80].split())
        raise GarbledAnswerError(f'the answer is cut off or no JSON; it starts with "{start}"') from None
    if not isinstance(content, dict):
        raise GarbledAnswerError(f"the answer is a JSON {type(content).__name__}, not a chat completion")
    choices = content.get("choices")
    if not choices and content.get("error"):
        raise RefusedInBodyError(content["error"], text)
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise GarbledAnswerError("the answer holds no choice")
    finish = choices[0].get("finish_reason")
    if finish in INTERRUPTED:
        error = choices[0].get("error") or {"message": f"the reply was interrupted (finish_reason {finish})"}
        raise RefusedInBodyError(error, json.dumps({"error": error}))
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise GarbledAnswerError("the answer's choice holds no message")
    return Answer(
        text=storable(_content(message)),
        model=storable(str(content.get("model") or "")),
        usage=usage_of(content.get("usage")),
        truncated=finish == "length",
        cost_usd=_cost(content.get("usage")),
    )


def _content(message: Mapping[str, Any]) -> str:
    thoughts = _joined(message.get("reasoning_content")) or _joined(message.get("reasoning"))
    answer = _joined(message.get("content")) or _joined(message.get("refusal"))
    return with_thoughts(thoughts, answer)


def _joined(content: Any) -> str:
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        content = "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def usage_of(usage: Any) -> Usage:
    """Return the token counts in an answer's `usage`."""
    if not isinstance(usage, dict):
        return Usage()
    read, written, total = (_count(usage, f"{name}_tokens") for name in ("prompt", "completion", "total"))
    if read is not None and written is not None and total is not None:
        # Some endpoints (Gemini, xAI) count a model's thoughts in the total only.
        written = max(written, total - read)
    cached = _count(usage.get("prompt_tokens_details"), "cached_tokens")
    if cached is None:
        cached = _count(usage, "prompt_cache_hit_tokens")  # DeepSeek's own name for it
    return Usage(
        input=read,
        cached_input=cached if cached is None or read is None or cached <= read else None,
        output=written,
        reasoning=_count(usage.get("completion_tokens_details"), "reasoning_tokens"),
        cache_write=_cache_write(usage),
    )


def _cache_write(usage: Mapping[str, Any]) -> int | None:
    """Return the tokens written to the provider's prompt cache, under OpenAI's name or Anthropic's."""
    written = _count(usage.get("prompt_tokens_details"), "cache_write_tokens")
    return _count(usage, "cache_creation_input_tokens") if written is None else written


def _cost(usage: Any) -> float | None:
    """Return the cost in USD that a gateway reports as `usage.cost` (OpenRouter); None without a plausible one."""
    cost = usage.get("cost") if isinstance(usage, dict) else None
    if not isinstance(cost, int | float) or isinstance(cost, bool) or not 0 <= cost <= MOST_CALL_USD:
        return None
    return float(cost)


def _count(container: Any, name: str) -> int | None:
    value = container.get(name) if isinstance(container, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_TOKENS:
        return None
    return value
