"""GET /models, which costs nothing: whether an endpoint answers, its models, and their context length."""

import datetime
import json
from collections.abc import Callable, Mapping
from typing import Any

from tasks.backbone.check.endpoint import Endpoint
from tasks.backbone.check.known import KnownEndpoint
from tasks.backbone.endpoint.connection import HttpAnswer
from tasks.backbone.endpoint.formats.identity import OPENAI_URL, public_url
from tasks.core.errors import BackboneError
from tasks.core.wording import counted, shorten
from tasks.settings.backbone import MOST_TOKENS, BackboneSettings

_CONTEXT = (
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
    "n_ctx",
    "n_ctx_train",
    "max_input_tokens",
)
"""Names of the context length in /models: of vLLM, OpenRouter, Groq, LM Studio, llama.cpp and LiteLLM."""
HINT = 'Run "crosscheck check" with this backbone to test its reply formats, sampling parameters and speed.'


def listed_models(found: HttpAnswer) -> list[Mapping[str, Any]]:
    """Return the entries of an answer to GET /models that have an id."""
    try:
        content = json.loads(found.text)
    except ValueError:
        return []
    entries = content.get("data") if isinstance(content, dict) else content
    return [each for each in entries or () if isinstance(each, dict) and each.get("id")]


def stated_context(listed: list[Mapping[str, Any]], model: str) -> int | None:
    """Return the context length in a model's entry of /models, or in its "meta"; None if there is none."""
    entry = next((each for each in listed if each["id"] == model), {})
    meta = entry.get("meta")
    for content in (entry, meta if isinstance(meta, dict) else {}):
        for name in _CONTEXT:
            value = content.get(name)
            if isinstance(value, int) and 0 < value <= MOST_TOKENS:
                return value
    return None


async def first_look(endpoint: Endpoint, note: Callable[[str], object]) -> KnownEndpoint:
    """Send GET /models before the first run with an endpoint and model, and note what a user should know.

    Raises:
        BackboneError: the endpoint cannot be reached, or does not answer.
    """
    settings = endpoint.settings
    found = await endpoint.models()
    listed = listed_models(found) if found.status == 200 else []
    context = stated_context(listed, settings.model)
    url = public_url(settings.base_url or OPENAI_URL)
    facts = [
        f"First run with {settings.model} at {url}: GET /models gives HTTP {found.status}"
        f"{_names(settings, [str(each['id']) for each in listed])}.",
        _context(settings, context),
        HINT,
    ]
    note(" ".join(fact for fact in facts if fact))
    seen = datetime.datetime.now(datetime.UTC)
    return KnownEndpoint(url=url, model=settings.model, context_tokens=context, seen=seen)


def _names(settings: BackboneSettings, names: list[str]) -> str:
    if not names:
        return ""
    if settings.model in names:
        return " and lists the model"
    return f' and lists {counted(len(names), "model")}, but not "{settings.model}": {shorten(names, 5)}'


def _context(settings: BackboneSettings, stated: int | None) -> str:
    if stated is None:
        return ""
    if settings.context_tokens is None:
        return (
            f"The model's context is {stated:,} tokens: set backbone.context_tokens={stated} to prune schemas that "
            "would exceed it."
        )
    if settings.context_tokens > stated:
        return (
            f"backbone.context_tokens is {settings.context_tokens:,}, but the endpoint states {stated:,} tokens: "
            "longer prompts are refused."
        )
    return ""


def unreachable(settings: BackboneSettings, error: BackboneError) -> BackboneError:
    """Return the error of an endpoint that did not answer GET /models, with the backbone and what to do."""
    url = public_url(settings.base_url or OPENAI_URL)
    return BackboneError(
        f'Backbone "{settings.name}" ({settings.model} at {url}): GET /models: {str(error).rstrip(".")}. '
        "Is the endpoint up, and backbone.base_url right? Run the same command again once that is fixed.",
        transient=True,
        fatal=True,
    )
