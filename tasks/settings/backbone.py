"""Settings of a backbone: model, endpoint, sampling, retries, prices."""

import datetime
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from tasks.errors import did_you_mean
from tasks.registry import Registry
from tasks.settings.base import Settings

VARIABLE_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"

RESPONSE_MODES: Registry[Callable[[Mapping[str, Any]], Mapping[str, Any]]] = Registry(
    "response mode", package="tasks.backbone.endpoint", group="crosscheck.response_modes"
)
"""How JSON replies are asked for, by name: from the reply's JSON schema to fields of the request's body."""


def _demand_response_mode(name: str) -> str:
    if RESPONSE_MODES.has(name):
        return name
    raise ValueError(f'there is no response mode "{name}". {did_you_mean(name, RESPONSE_MODES.names())}')


ResponseMode = Annotated[str, AfterValidator(_demand_response_mode)]


class Prices(Settings):
    """Prices in USD per million tokens, with their date."""

    input: float = Field(ge=0)
    """USD per million input tokens."""
    cached_input: float | None = Field(None, ge=0)
    """USD per million input tokens that the provider served from its own prompt cache; None: as `input`."""
    output: float = Field(ge=0)
    """USD per million output tokens, reasoning included."""
    model: str | None = None
    """Model of these prices; the cost of any other model is unknown. None: they hold for every model."""
    as_of: datetime.date = Field(strict=False)
    """Day on which the price was looked up."""
    source: str = ""
    """Where it was looked up."""


class BackboneSettings(Settings):
    """One model behind an OpenAI-compatible endpoint, or one that needs no network."""

    name: str
    """Name on the command line and in MLflow."""
    kind: str = "openai"
    """"openai": anything that speaks its chat protocol; "offline": the rule-based floor; "replay": a recording;
    or `path/to/file.py:name` of one of your own."""
    description: str = ""
    """One line for `crosscheck list`."""
    model: str = "offline"
    """Model name as the endpoint knows it."""
    base_url: str | None = None
    """Endpoint; None: the OpenAI API."""
    api_key_env: str | None = Field(None, pattern=VARIABLE_NAME)
    """Name of the environment variable that holds the key, never the key; None: the endpoint needs none."""
    temperature: float | None = Field(0.0, ge=0)
    """Sampling temperature; None: not sent (some reasoning models refuse it)."""
    max_tokens: int | None = Field(None, gt=0)
    """Limit of output tokens; None: the endpoint's own."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    """What the endpoint calls that limit; None: "max_completion_tokens" at OpenAI, "max_tokens" elsewhere."""
    seed: int | None = None
    """Sampling seed, where the endpoint takes one."""
    response_mode: ResponseMode = "json_object"
    """How JSON replies are asked for: "json_schema", "json_object", or "text", in the prompt only."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request body, as the endpoint wants them (never secrets)."""
    concurrency: int = Field(16, ge=1)
    """Requests in flight at most."""
    timeout_s: float = Field(120.0, gt=0)
    """Seconds after which one attempt is given up."""
    retries: int = Field(6, ge=0)
    """Attempts after the first, on rate limits, server errors, time-outs and lost connections."""
    max_wait_s: float = Field(60.0, ge=0)
    """Longest pause between two attempts, unless the endpoint's Retry-After asks for more."""
    prices: Prices | None = None
    """None: money is reported as unknown."""
    epoch: str | None = None
    """Name of a period, e.g. a date: replies and stage results of another epoch are not reused. It is never sent."""
    recording: str | None = None
    """File that "replay" serves."""
    match: Literal["request", "stage"] = "stage"
    """How "replay" finds a reply: by exact request only, or else also by question, stage and round."""
