"""What a wire format is, what requests and answers of all protocols have in common, and a request's identity."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from tasks.backbone.protocol import Reply, Request, Tool, json_object, shared_prefix_digest
from tasks.backbone.replies.json_text import is_strict
from tasks.core.outcome import STANDARD, Call, ToolCall, Usage
from tasks.core.wording import storable
from tasks.settings.backbone import AUTO, MAX_TOKENS, RESPONSE_MODES, BackboneSettings


class GarbledAnswerError(ValueError):
    """Invalid response body: truncated, not JSON, or without a reply."""


class RefusedInBodyError(ValueError):
    """Response with status 200 whose body is an `error` object, or whose reply was interrupted."""

    def __init__(self, error: Any, status: int = 502) -> None:
        code = error.get("code") if isinstance(error, dict) else None
        status = 400 if code == "content_filter" else status
        self.status = code if isinstance(code, int) and 400 <= code < 600 else status
        self.body = json.dumps({"error": error})
        super().__init__(self.status)


MAX_CALL_USD = 10_000.0
"""Highest cost of one call that is believed; a higher one is ignored as an error of the endpoint."""
TICKS_PER_USD = 10**10
FILTERED = "The content filter stopped the reply."
"""Text of a reply that a filter left empty."""
STANDARD_NAMES = ("default", "on_demand", "standard")
"""Names of the standard tier in an answer: of OpenAI, of Groq, of Anthropic."""
SURCHARGED = FAST, CACHE_1H, US_ONLY = "fast", "cache_1h", "us"
"""Tiers that cost a multiple of the price of another one, also of the tier "batch"."""


def bill_of(model: Any, usage: Usage, tier: str, cost_usd: float | None = None) -> Call:
    """Return what an answer says of its call: model, tokens, tier and cost, as far as the endpoint reports them."""
    model_name = storable(str(model or ""))
    return Call("", model_name, usage, cached=False, seconds=None, cost_usd=cost_usd, tier=tier)


def with_shares(replies: Sequence[Reply]) -> list[Reply]:
    """Return the replies of one answer, each with its share of the bill of the answer instead of the whole bill.

    The input counts for the first one, and output and a reported cost are divided: the sum is what was paid.
    """
    bill = replies[0].call
    count = len(replies)
    usd = None if bill.cost_usd is None else bill.cost_usd / count
    calls = [replace(bill, usage=_share(bill.usage, index, count), cost_usd=usd) for index in range(count)]
    return [replace(reply, call=call) for reply, call in zip(replies, calls, strict=True)]


def _share(usage: Usage, index: int, count: int) -> Usage:
    """Return the part of the tokens that one of `count` replies counts, by its index.

    >>> shares = [_share(Usage(input=90, output=11), index, 2) for index in (0, 1)]
    >>> [(share.input, share.output) for share in shares]
    [(90, 6), (0, 5)]
    """

    def part_of(tokens: int | None) -> int | None:
        # the first replies count the remainder, one token each
        return None if tokens is None else tokens // count + (index < tokens % count)

    share = replace(usage, output=part_of(usage.output), reasoning=part_of(usage.reasoning))
    if index == 0:
        return share
    # The first reply counts all of the prompt. What is unknown stays unknown, None.
    prompt = {
        name: 0 for name in ("input", "cached_input", "cache_write") if getattr(usage, name) is not None
    }
    return replace(share, **prompt)


def tier_of(content: Mapping[str, Any]) -> str:
    """Return the service tier that an answer reports; "" if it reports none.

    What costs a multiple of the tier's price is a tier of its own: fast mode, cache writes for an hour and a region
    (Anthropic's pages "Fast mode", "Prompt caching" and "Data residency"; LiteLLM passes them on). Vertex AI has a
    traffic type.

    >>> tier_of({"service_tier": "default"}), tier_of({"service_tier": "flex"}), tier_of({"service_tier": None})
    ('standard', 'flex', '')
    """
    usage = part(content, "usage") or content
    written = part(usage.get("prompt_tokens_details"), "cache_creation_token_details")
    if usage.get("speed") == "fast":
        return FAST
    if count(part(usage, "cache_creation") or written, "ephemeral_1h_input_tokens"):
        return CACHE_1H
    if usage.get("inference_geo") == "us":
        return US_ONLY
    traffic = text(part(part(usage, "extra_properties"), "google").get("traffic_type"))
    name = content.get("service_tier") or traffic.removeprefix("ON_DEMAND").strip("_").lower()
    if not isinstance(name, str) or name == "auto":
        return ""
    return STANDARD if name in STANDARD_NAMES else storable(name)


def object_in(text: str, noun: str) -> dict[str, Any]:
    """Return the JSON object that a body is; GarbledAnswerError if it is none."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        start = " ".join(text[:80].split())
        raise GarbledAnswerError(f'the answer is cut off or no JSON; it starts with "{start}"') from None
    if not isinstance(content, dict):
        raise GarbledAnswerError(f"the answer is a JSON {type(content).__name__}, not a {noun}")
    return content


_STREAM = re.compile(r"(?:\s|(?::|event:|id:|retry:)[^\n]*\n)*data:")


def is_stream(text: str) -> bool:
    """Return whether a body is an event stream, which some gateways send although none was requested."""
    return _STREAM.match(text) is not None


def events(text: str, noun: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of an event stream."""
    for line in text.split("\n"):
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data != "[DONE]":
            yield object_in(data, noun)


def tool_call(name: Any, arguments: Any, id: Any) -> ToolCall:
    """Return a call of a tool as a model wrote it; arguments that are no text become JSON.

    >>> tool_call("run_sql", {"sql": "SELECT 1"}, None)
    ToolCall(name='run_sql', arguments='{"sql": "SELECT 1"}', result=None, error='', sql=None, id='')
    """
    arguments_text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(text(name), storable(arguments_text), id=text(id))


def arguments_object(arguments: str) -> dict[str, Any]:
    """Return the arguments of a call as the object that protocols demand, also where the model wrote none.

    >>> arguments_object('{"sql": "SELECT 1"}'), arguments_object("SELECT 1")
    ({'sql': 'SELECT 1'}, {'malformed': 'SELECT 1'})
    """
    content = json_object(arguments)
    return {"malformed": arguments} if content is None else content


@lru_cache(maxsize=4096)
def arguments_text(arguments: str) -> str:
    """Return a call's arguments as JSON of an object; a conversation sends those of all its calls in every turn."""
    content = arguments_object(arguments)
    return json.dumps(content, ensure_ascii=False) if "malformed" in content else arguments


def tool_name(name: str) -> str:
    """Return the name of a tool that the model invented, or not, in the letters that protocols take back.

    >>> tool_name("functions.run_sql"), tool_name("")
    ('functions_run_sql', 'unknown')
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"


def text(value: Any) -> str:
    """Return a text; "" for a value of another type."""
    return storable(value) if isinstance(value, str) else ""


def part(container: Any, name: str) -> Mapping[str, Any]:
    """Return an object inside of another one; {} if it is missing or no object."""
    value = container.get(name) if isinstance(container, dict) else None
    return value if isinstance(value, dict) else {}


def parts(container: Any, name: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list inside of an object; [] if it is missing or no list."""
    values = container.get(name) if isinstance(container, dict) else None
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def texts(blocks: Iterable[Mapping[str, Any]], kind: str, name: str = "text") -> str:
    """Return the joined texts of the blocks of a type.

    >>> texts([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "text")
    'ab'
    """
    values = (block.get(name) for block in blocks if block.get("type") == kind)
    return "".join(value for value in values if isinstance(value, str))


def count(container: Any, name: str) -> int | None:
    """Return a number of tokens; None if it is missing or implausible."""
    value = container.get(name) if isinstance(container, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_TOKENS:
        return None
    return value


def first_count(*names: tuple[Any, str]) -> int | None:
    """Return the first number of tokens that an answer has, of those with these names in these objects."""
    return next((number for pair in names if (number := count(*pair)) is not None), None)


def cost_in_ticks(usage: Any) -> float | None:
    """Return the cost in USD that xAI reports in its unit (page "Cost Tracking"); None without a plausible one.

    >>> cost_in_ticks({"cost_in_usd_ticks": 37756000})
    0.0037756
    """
    ticks = usage.get("cost_in_usd_ticks") if isinstance(usage, dict) else None
    if not isinstance(ticks, int) or not 0 < ticks <= MAX_CALL_USD * TICKS_PER_USD:
        return None
    return ticks / TICKS_PER_USD


Sdk = Literal["openai", "anthropic"]


@dataclass(frozen=True, slots=True)
class WireFormat:
    """How a protocol writes a request and an answer. Retries, limits, cache and cost are the same for all of them."""

    path: str  # path of requests below the base URL
    body: Callable[[Request, BackboneSettings], dict[str, Any]]
    # how to change each parameter that an endpoint may refuse, by the name in its messages
    changes: Callable[[BackboneSettings], dict[str, str]]
    # reads the samples in a body; raises GarbledAnswerError and RefusedInBodyError. The text is the reply behind its
    # thoughts (`with_thoughts`), or the model's refusal; the call has no key and no time yet (`bill_of`).
    answer: Callable[[str], list[Reply]]
    modes: tuple[str, ...] = RESPONSE_MODES  # the response modes that the protocol has, the strictest first
    limits: tuple[str, ...] = ("max_tokens",)  # the settings by which a limit of output tokens is sent
    takes: frozenset[str] = frozenset()  # which of "seed", "n", "tools" and "system_role" a request may have
    tools: Callable[[BackboneSettings], bool] = lambda settings: True  # whether a request may offer tools
    sdk: Sdk = "openai"  # package of the provider's client


NO_TOOLS = "set pipeline.tools=text, so that the model writes its tool calls as text"
"""What to change where an endpoint refuses tools."""


def function_of(tool: Tool) -> dict[str, Any]:
    """Return a tool as the protocols of OpenAI describe a function."""
    return {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}


def response_format(request: Request, settings: BackboneSettings) -> dict[str, Any] | None:
    """Return OpenAI's `response_format` for a request's schema, strict if the schema allows it; None for free text."""
    mode = response_mode_of(settings)
    if request.schema is None or mode == "text":
        return None
    if mode == "json_object":
        return {"type": mode}
    schema = {"name": "reply", "schema": dict(request.schema), "strict": is_strict(request.schema)}
    return {"type": mode, "json_schema": schema}


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
    if digest is None or public_url(settings) != OPENAI_URL:
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


OPENAI_URL = "https://api.openai.com/v1"

SENT_ONLY = frozenset({
    "cache_control", "metadata", "priority", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
    "provider", "request_id", "route", "safety_identifier", "service_tier", "store", "tags", "usage", "user",
})  # fmt: skip
"""Fields of the body that change the price, routing or accounting of a call, but not its reply. They are sent, but are
not part of the identity of a request: replies are reused when they change."""


def public_url(settings: BackboneSettings) -> str:
    """Return the endpoint's URL without user, password, query and trailing slash."""
    parts = urlsplit(settings.base_url or OPENAI_URL)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def identity_of(settings: BackboneSettings) -> dict[str, Any]:
    """Return the settings that determine a reply: model, endpoint and sampling, without those in `SENT_ONLY`.

    The name is left out: two names for the same model share their cached replies. The reply format is left out: it is
    in the request's messages and schema.
    """
    optional = {
        "epoch": settings.epoch,
        "reasoning_effort": settings.reasoning_effort,
        "system_role": None if settings.system_role else False,
    }
    # left out where they are not set: the cache keys from before these settings existed stay valid
    identity = {name: value for name, value in optional.items() if value is not None}
    return identity | {
        "kind": settings.kind,
        "model": settings.model,
        "base_url": address_of(settings),
        "temperature": settings.temperature,
        "max_tokens": settings.reply_tokens,
        "seed": settings.seed,
        "response_mode": response_mode_of(settings),
        "extra_body": {name: value for name, value in settings.extra_body.items() if name not in SENT_ONLY},
    }


def address_of(settings: BackboneSettings) -> str:
    """Return the endpoint's URL; its query is part of it, which may name a deployment or a version, and no secret."""
    query = urlsplit(settings.base_url or "").query
    return public_url(settings) + (f"?{query}" if query else "")


def response_mode_of(settings: BackboneSettings) -> str:
    """Return the response mode; for "auto", which `find_response_mode` replaces, the mode that most endpoints take."""
    return "json_object" if settings.response_mode == AUTO else settings.response_mode
