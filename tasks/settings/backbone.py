"""Settings of a backbone: model, endpoint, sampling, retries, prices."""

import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, ValidationInfo, field_validator, model_validator

from tasks.core.errors import did_you_mean
from tasks.core.outcome import STANDARD
from tasks.core.registry import Registry
from tasks.core.wording import next_time
from tasks.settings.base import Settings

VARIABLE_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
MAX_TOKENS = 100_000_000
MAX_USD = 1_000_000
MAX_IN_BATCH = 5_000
"""Requests that are collected for one batch at most."""
HEADER_NAME = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$"

RESPONSE_MODES = ("json_schema", "json_object", "text")
"""How JSON replies are requested, the strictest first: by schema, as any object, in the prompt alone."""
AUTO = "auto"
"""Response mode that stands for the strictest one that the endpoint takes."""


def _demand_response_mode(name: str) -> str:
    modes = (AUTO, *RESPONSE_MODES)
    if name in modes:
        return name
    raise ValueError(f'there is no response mode "{name}". {did_you_mean(name, modes)}')


REPLY_FORMATS: Registry[Any] = Registry(
    "reply format", package="tasks.backbone.replies.format", group="crosscheck.reply_formats"
)
"""In which form a model answers, by name: subclasses of `ReplyFormat`."""


def _demand_reply_format(name: str) -> str:
    if REPLY_FORMATS.has(name):
        return name
    raise ValueError(f'there is no reply format "{name}". {did_you_mean(name, REPLY_FORMATS.names())}')


ReplyFormatName = Annotated[str, AfterValidator(_demand_reply_format)]


class Rates(Settings):
    """Prices of one service tier, in USD per million tokens."""

    input: float = Field(ge=0, le=MAX_USD)
    """USD per million input tokens."""
    cached_input: float | None = Field(None, ge=0, le=MAX_USD)
    """USD per million input tokens that the provider served from its own prompt cache; None: as `input`."""
    cache_write: float | None = Field(None, ge=0, le=MAX_USD)
    """USD per million input tokens that the provider wrote to its own prompt cache; None: unknown, and so is the cost
    of every call that wrote some."""
    output: float = Field(ge=0, le=MAX_USD)
    """USD per million output tokens, reasoning included."""


class Prices(Rates):
    """Prices of a model: those of the standard tier, of other tiers, and when they hold."""

    flex: Rates | None = None
    """Prices of the tier "flex"; None: unknown."""
    batch: Rates | None = None
    """Prices of the tier "batch"; None: unknown."""
    most_input: int | None = Field(None, gt=0, le=MAX_TOKENS)
    """Input tokens of a request up to which the prices hold; the cost of a longer one is unknown. None: no limit."""
    model: str | None = None
    """Model of these prices; the cost of any other model is unknown. None: they hold for every model."""
    valid_from: datetime.date | None = Field(None, strict=False)
    """First day, in UTC, on which the prices hold; the cost on an earlier day is unknown. None: no first day."""
    valid_until: datetime.date | None = Field(None, strict=False)
    """Last day, in UTC, on which the prices hold; the cost on a later day is unknown. None: no last day."""
    source: str = ""
    """Where the prices were looked up."""
    as_of: datetime.date | None = Field(None, strict=False, validate_default=True)
    """Day on which the prices were looked up. It may be missing if `source` names a price list with its version."""

    @field_validator("as_of")
    @classmethod
    def _dated(cls, day: datetime.date | None, info: ValidationInfo) -> datetime.date | None:
        if day is None and not info.data.get("source"):
            raise ValueError("as_of is missing: set the day on which the prices were looked up")
        return day

    @field_validator("valid_until")
    @classmethod
    def _in_order(cls, last: datetime.date | None, info: ValidationInfo) -> datetime.date | None:
        first = info.data.get("valid_from")
        if first and last and last < first:
            raise ValueError(f"the last day ({last}) is before valid_from ({first})")
        return last

    def rates(self, tier: str) -> Rates | None:
        """Return the prices of a service tier; None where they are unknown."""
        return {STANDARD: self, "flex": self.flex, "batch": self.batch}.get(tier)


class BackboneSettings(Settings):
    """One model behind an OpenAI-compatible endpoint, or one that needs no network."""

    name: str
    """Name on the command line and in MLflow."""
    kind: str = "openai"
    """"openai": anything that speaks its chat protocol; "offline": the rule-based baseline; "replay": a recording;
    or `path/to/file.py:name` of one of your own."""
    description: str = ""
    """One line for `crosscheck list`."""
    model: str = ""
    """Model name as the endpoint knows it; every endpoint needs one."""
    base_url: str | None = None
    """Endpoint; None: the OpenAI API. Its query, e.g. ?api-version=2024-10-21, belongs to every request."""
    api_key_env: str | None = Field(None, pattern=VARIABLE_NAME)
    """Name of the environment variable that holds the key, never the key; None: the endpoint needs none."""
    api_key_command: list[Annotated[str, Field(min_length=1)]] | None = Field(None, min_length=1)
    """Program, with its arguments, that prints the key, instead of `api_key_env`: for access tokens, which expire.
    It is run before the first request and every 3 minutes, e.g. [gcloud, auth, print-access-token]."""
    headers_env: dict[
        Annotated[str, Field(pattern=HEADER_NAME)], Annotated[str, Field(pattern=VARIABLE_NAME)]
    ] = Field(default_factory=dict)
    """Further HTTP headers, by name: the environment variable that holds the value, never the value, e.g.
    {api-key: AZURE_KEY}."""
    reply: ReplyFormatName = "json"
    """In which form the model answers: "json", "json_with_reasoning", "fenced", or `path/to/file.py:name` of one of
    your own. "json" is the default of every kind: the endpoint can enforce it (`response_mode`), it costs the fewest
    tokens, and models that think do so before it anyway. "json_with_reasoning" is for models that do not think by
    themselves; "fenced" for those trained to reason in free text and end with the query."""
    reply_by_stage: dict[str, ReplyFormatName] = Field(default_factory=dict)
    """Reply formats of single stages, by the stage's name, e.g. {entity_linking: json}."""
    temperature: float | None = Field(0.0, ge=0, le=10)
    """Sampling temperature; None: not sent (some reasoning models refuse it)."""
    reasoning_effort: str | None = None
    """How long a reasoning model may think, as the endpoint calls it ("low", "high"); None: not sent."""
    max_tokens: int | None = Field(None, gt=0, le=MAX_TOKENS)
    """Limit of output tokens; None: the endpoint's own. OpenAI is sent it as `max_completion_tokens`."""
    max_completion_tokens: int | None = Field(None, gt=0, le=MAX_TOKENS)
    """The same limit, for endpoints that know it by this name only: reasoning models elsewhere than at OpenAI."""
    context_tokens: int | None = Field(None, gt=0, le=MAX_TOKENS)
    """Tokens of the model's context, for prompt and reply together. A schema that would fill more than 60 % of what the
    reply leaves is pruned to the columns nearest to the question. None: unknown; a schema of more than 1,000 columns
    is then pruned to 100 KB of text."""
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    """Sampling seed, where the endpoint takes one."""
    response_mode: Annotated[str, AfterValidator(_demand_response_mode)] = AUTO
    """How JSON replies are requested: "json_schema", "json_object", "text" (in the prompt only), or "auto": the first
    of these that the endpoint takes. It is found once per endpoint and model, and is part of the run's settings."""
    system_role: bool = True
    """Whether the model's chat template has the role "system"; if not, as Gemma's, its text is put before the first
    message of the user. `response_mode: auto` finds this too."""
    extra_body: dict[str, JsonValue] = Field(default_factory=dict)
    """Further fields of the request body, as the endpoint wants them (never secrets)."""
    samples_per_request: int = Field(1, ge=1, le=128)
    """Samples of one request, for example of candidates, that are sent together at most, with the parameter `n`: the
    endpoint charges their prompt once. With a seed, they have the seed of the first of them."""
    concurrency: int = Field(16, ge=1, le=4096)
    """Requests in flight at most."""
    timeout_s: float = Field(120.0, gt=0, le=86_400)
    """Seconds after which one attempt is given up; they count anew from each reply to a request sent before it."""
    retries: int = Field(6, ge=0, le=100)
    """Requests of one call after the first, on rate limits, server errors, time-outs, lost connections and redirects.
    Nothing else repeats a call."""
    max_wait_s: float = Field(60.0, ge=0, le=86_400)
    """Longest pause between two attempts, unless the endpoint's Retry-After asks for more."""
    unreadable_limit: int = Field(20, ge=0, le=1_000_000)
    """The run stops if this many first replies of a stage are all unreadable; 0: never."""
    prices: Prices | None = None
    """None: those of the installed price list (the extra `prices`) for the provider and the model; without one, money
    is reported as unknown."""
    tier: Literal["standard", "flex", "batch"] = "standard"
    """Service tier of the requests; no part of their identity. "flex" is slower and cheaper (OpenAI, Azure), sent as
    `service_tier`. "batch" collects the requests of all questions, and submits them to OpenAI's Batch API or
    Anthropic's Message Batches, which answer within 24 hours for half the price."""
    flex_wait_s: float = Field(600.0, ge=0, le=86_400)
    """Seconds that a request of the tier "flex" waits for capacity before it is sent at the standard price."""
    batch_quiet_s: float = Field(10.0, ge=0, le=3600)
    """Seconds without a new request after which the collected ones are submitted as a batch."""
    batch_poll_s: float = Field(30.0, gt=0, le=3600)
    """Seconds between two looks at the state of a batch."""
    finish_by: str | None = None
    """Time by which the run must end: the next "07:00" in the machine's time zone, the next "07:00 Europe/Berlin", or
    an ISO 8601 time. While the run would end later at its current rate, requests are sent in the standard tier. It
    needs a cheaper tier."""
    prefix_cache: bool | None = None
    """Whether the endpoint charges less for the beginning of a prompt that it has seen. Then one question of each
    database runs before the others of it. None: if `prices.cached_input` is below `prices.input`."""
    epoch: str | None = None
    """Name of a period, e.g. a date: replies and stage results of another epoch are not reused. It is never sent."""
    recording: str | None = None
    """File that "replay" serves."""
    match: Literal["request", "stage"] = "stage"
    """How "replay" finds a reply: by exact request only, or else also by question, stage and round."""

    @property
    def key_place(self) -> str | None:
        """Where the key is, in words; None: the endpoint needs none."""
        return "the output of api_key_command" if self.api_key_command else self.api_key_env

    @property
    def reply_tokens(self) -> int | None:
        """Limit of output tokens, under whichever name it is sent; None: the endpoint's own."""
        return self.max_tokens or self.max_completion_tokens

    @property
    def fills_prefix_cache(self) -> bool:
        """Whether one question of each database is asked before the others; with batches, all are asked at once."""
        return self.has_prefix_cache and self.tier != "batch"

    @property
    def most_in_flight(self) -> int:
        """Requests that wait for their replies at most: with batches, as many as shall be in one."""
        return MAX_IN_BATCH if self.tier == "batch" else self.concurrency

    @property
    def has_prefix_cache(self) -> bool:
        """Whether the endpoint charges less for the beginning of a prompt that it has seen before."""
        if self.prefix_cache is not None or self.prices is None:
            return bool(self.prefix_cache)
        return self.prices.cached_input is not None and self.prices.cached_input < self.prices.input

    @model_validator(mode="after")
    def _consistent(self) -> "BackboneSettings":
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise ValueError(
                "max_tokens and max_completion_tokens are one limit under two names: set one of them"
            )
        if self.finish_by is not None:
            try:
                next_time(self.finish_by, datetime.datetime.now(datetime.UTC))
            except ValueError:
                raise ValueError(
                    f'finish_by: "{self.finish_by}" is neither a time of day, 07:00, nor an ISO 8601 time'
                ) from None
            if self.tier == STANDARD:
                raise ValueError(
                    "finish_by chooses between tiers: set backbone.tier to flex or batch as well"
                )
        if self.context_tokens is not None and (self.reply_tokens or 0) >= self.context_tokens:
            raise ValueError(
                f"context_tokens ({self.context_tokens}) are for prompt and reply together, and the reply alone may "
                f"have {self.reply_tokens}: set a lower max_tokens"
            )
        return self


class ResponsesSettings(BackboneSettings):
    """A model behind OpenAI's Responses API, or behind an endpoint that is compatible with it."""

    kind: str = "openai-responses"

    @model_validator(mode="after")
    def _of_protocol(self) -> "ResponsesSettings":
        _demand_unset(self, "seed")
        return self


class MessagesSettings(BackboneSettings):
    """A model behind Anthropic's Messages API, or behind an endpoint that is compatible with it."""

    kind: str = "anthropic"
    base_url: str = "https://api.anthropic.com/v1"
    """Endpoint, without the path `messages`."""
    temperature: float | None = Field(None, ge=0, le=1)
    """Sampling temperature; None: not sent. Models from Claude Opus 4.7 on refuse it."""
    max_tokens: int = Field(8192, gt=0, le=MAX_TOKENS)
    """Limit of output tokens, thinking included; the protocol requires one."""

    @model_validator(mode="after")
    def _of_protocol(self) -> "MessagesSettings":
        _demand_unset(self, "seed", "max_completion_tokens")
        if self.response_mode == "json_object":
            raise ValueError(
                'response_mode: the protocol has no "json_object": use json_schema, text or auto'
            )
        return self


def _demand_unset(settings: BackboneSettings, *names: str) -> None:
    for name in names:
        if getattr(settings, name) is not None:
            raise ValueError(f"{name}: the protocol has no {name}: leave it out, or set it to null")
    if settings.samples_per_request > 1:
        raise ValueError("samples_per_request: the protocol has no n: leave it out, or set it to 1")
