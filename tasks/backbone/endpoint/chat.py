"""The OpenAI chat protocol as plain data: a request's body, and the reply in an answer's body."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tasks.backbone.protocol import Request
from tasks.records import Usage
from tasks.settings.backbone import RESPONSE_MODES, BackboneSettings

OPENAI_URL = "https://api.openai.com/v1"
MOST_TOKENS = 100_000_000
"""Token counts above it, or below zero, are mistakes of the endpoint: the count is unknown."""

_NO_TEXT = re.compile("[\x00\ud800-\udfff]")


class GarbledAnswerError(ValueError):
    """Invalid response body: truncated, not JSON, or without a choice."""


class RefusedInBodyError(ValueError):
    """Response with status 200 whose body is an `error` object.

    Attributes:
        status: the status that the object names, 502 when it names none.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True, slots=True)
class Answer:
    """Content of a chat completion.

    Attributes:
        text: the message's content, or its refusal; "" when it has neither. Storable everywhere, see `storable`.
        model: name of the model in the response, "" if missing. Storable as well.
        usage: token counts; None for a missing or implausible one.
        truncated: True when the model stopped at its token limit.
    """

    text: str
    model: str
    usage: Usage
    truncated: bool


def identity_of(settings: BackboneSettings) -> dict[str, Any]:
    """Return what decides a reply: model, endpoint and sampling; not concurrency, time-outs or prices.

    The name is left out: two names for the same model share their cached replies. An epoch is in it where one is
    set, so that keys without one are what they always were.
    """
    epoch = {} if settings.epoch is None else {"epoch": settings.epoch}
    return epoch | {
        "kind": settings.kind,
        "model": settings.model,
        "base_url": public_url(settings.base_url or OPENAI_URL),
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        "seed": settings.seed,
        "response_mode": settings.response_mode,
        "extra_body": settings.extra_body,
    }


def public_url(url: str) -> str:
    """Return the URL without user, password, query and trailing slash.

    >>> public_url("https://me:secret@host:8000/v1/?key=secret")
    'https://host:8000/v1'
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def body_of(request: Request, settings: BackboneSettings) -> dict[str, Any]:
    """Return the request's body.

    If the backbone's temperature is None, none is sent, also if the request has one: the model rejects it.
    `max_tokens` goes under the name that the endpoint knows: OpenAI deprecates `max_tokens` and its reasoning
    models refuse it; Ollama, DeepSeek and older servers know no other and ignore `max_completion_tokens`.
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
    if settings.max_tokens is not None:
        at_openai = public_url(settings.base_url or OPENAI_URL) == OPENAI_URL
        field = settings.max_tokens_field or ("max_completion_tokens" if at_openai else "max_tokens")
        body[field] = settings.max_tokens
    if request.schema is not None:
        body |= RESPONSE_MODES.get(settings.response_mode)(request.schema)
    return body | settings.extra_body


def answer_of(text: str) -> Answer:
    """Read a chat completion.

    Raises:
        GarbledAnswerError: the text is not JSON, or holds no choice.
        RefusedInBodyError: it is an `error` object.
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
        error = content["error"]
        code = error.get("code") if isinstance(error, dict) else None
        raise RefusedInBodyError(code if isinstance(code, int) and 400 <= code < 600 else 502)
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise GarbledAnswerError("the answer holds no choice")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise GarbledAnswerError("the answer's choice holds no message")
    return Answer(
        text=storable(_content(message)),
        model=storable(str(content.get("model") or "")),
        usage=_usage(content.get("usage")),
        truncated=choices[0].get("finish_reason") == "length",
    )


def storable(text: str) -> str:
    """Return text that every store, page and protocol can hold: UTF-8 without NUL.

    JSON can spell NUL and halves of surrogate pairs; each becomes U+FFFD, the replacement character.

    >>> storable("a" + chr(0) + "b" + chr(0xD800))
    'a\ufffdb\ufffd'
    """
    return _NO_TEXT.sub("\ufffd", text)


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        content = "".join(part for part in parts if isinstance(part, str))
    if isinstance(content, str) and content:
        return content
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    read = _count(usage, "prompt_tokens")
    cached = _count(usage.get("prompt_tokens_details"), "cached_tokens")
    if cached is None:
        cached = _count(usage, "prompt_cache_hit_tokens")  # DeepSeek's own name for it
    return Usage(
        input=read,
        cached_input=cached if cached is None or read is None or cached <= read else None,
        output=_count(usage, "completion_tokens"),
        reasoning=_count(usage.get("completion_tokens_details"), "reasoning_tokens"),
    )


def _count(container: Any, name: str) -> int | None:
    value = container.get(name) if isinstance(container, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_TOKENS:
        return None
    return value
