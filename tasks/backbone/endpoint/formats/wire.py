"""A wire format: all that differs between the protocols of endpoints."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tasks.backbone.endpoint.formats.answer import Answer
from tasks.backbone.endpoint.formats.identity import OPENAI_URL, public_url
from tasks.backbone.protocol import Request, Tool, shared_prefix_digest
from tasks.core.outcome import STANDARD, Usage
from tasks.settings.backbone import BackboneSettings

Sdk = Literal["openai", "anthropic"]


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a streamed reply."""

    text: bool = False  # whether it brings a part of the reply or of its thoughts
    usage: Usage = field(default_factory=Usage)  # the token counts in it


@dataclass(frozen=True, slots=True)
class WireFormat:
    """How a protocol writes a request and an answer. Retries, limits, cache and cost are the same for all of them.

    Attributes:
        path: path of requests below the base URL.
        body: returns a request's body.
        changes: returns how to change each parameter that an endpoint may refuse, by the name in its messages.
        answer: reads the body of an answer; raises GarbledAnswerError and RefusedInBodyError.
        event: reads an event of a streamed reply.
        stream: fields of the body that request a stream.
        modes: the response modes that the protocol has, the strictest first.
        limits: the settings by which a limit of output tokens is sent.
        takes: which of "seed", "n", "tools" and "system_role" a request may have.
        tools: returns whether a request may offer tools, under these settings.
        counting: path at which the input tokens of a request are counted without a charge; "" if there is none.
        counted: the fields of a request's body that are counted.
        sdk: package of the provider's client.
    """

    path: str
    body: Callable[[Request, BackboneSettings], dict[str, Any]]
    changes: Callable[[BackboneSettings], dict[str, str]]
    answer: Callable[[str], Answer]
    event: Callable[[Mapping[str, Any]], Event]
    stream: Mapping[str, Any]
    modes: tuple[str, ...] = ("json_schema", "json_object", "text")
    limits: tuple[str, ...] = ("max_tokens",)
    takes: frozenset[str] = frozenset()
    tools: Callable[[BackboneSettings], bool] = lambda settings: True
    counting: str = ""
    counted: frozenset[str] = frozenset()
    sdk: Sdk = "openai"


NO_TOOLS = "set pipeline.tools=text, so that the model writes its tool calls as text"
"""What to change where an endpoint refuses tools."""


def function_of(tool: Tool) -> dict[str, Any]:
    """Return a tool as the protocols of OpenAI describe a function."""
    return {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}


def temperature_of(request: Request, settings: BackboneSettings) -> float | None:
    """Return the temperature to send: none where the settings have none, since the model then rejects it."""
    if settings.temperature is None or request.temperature is None:
        return settings.temperature
    return request.temperature


def tier_fields(request: Request) -> dict[str, Any]:
    """Return the field that requests another service tier than the standard one; {} for that."""
    return {} if request.tier == STANDARD else {"service_tier": request.tier}


def cache_key_fields(request: Request, settings: BackboneSettings) -> dict[str, Any]:
    """Return OpenAI's `prompt_cache_key` for a request that shares its beginning with others; {} for any other one.

    Requests with the same key go to the same machine, whose cache has the beginning (OpenAI's guide "Prompt caching").
    Other endpoints with this protocol may refuse the field.
    """
    digest = shared_prefix_digest(request)
    if digest is None or public_url(settings.base_url or OPENAI_URL) != OPENAI_URL:
        return {}
    return {"prompt_cache_key": digest}


def merged(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body with the fields of `extra_body`; where both have an object, with the keys of both.

    >>> merged({"output_config": {"effort": "low"}, "top_k": 3}, {"output_config": {"format": None}, "top_k": 5})
    {'output_config': {'effort': 'low', 'format': None}, 'top_k': 5}
    """
    both = {
        name: {**body[name], **value}
        for name, value in extra.items()
        if isinstance(value, Mapping) and isinstance(body.get(name), Mapping)
    }
    return {**body, **extra, **both}
