"""Checks what an endpoint accepts with a few small requests, and returns the settings of a backbone that follow."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from tasks.backbone.endpoint.client import EndpointBackbone, format_of
from tasks.backbone.endpoint.connection import HttpAnswer
from tasks.backbone.endpoint.failures import Refusal, is_out_of_tokens
from tasks.backbone.endpoint.wire import address_of, parts, public_url
from tasks.backbone.pricing import cost, prices_for
from tasks.backbone.protocol import Message, Reply, Request, json_object
from tasks.backbone.replies.format import read_reply
from tasks.backbone.replies.json_text import reply_schema
from tasks.backbone.replies.thoughts import without_thoughts
from tasks.core.outcome import STANDARD
from tasks.core.wording import counted, shorten
from tasks.settings.backbone import MAX_TOKENS, RESPONSE_MODES, BackboneSettings

Number = TypeVar("Number", int, float)

WAITS_S = (1.0, 4.0)
"""Seconds before each further attempt after a rate limit, unless the endpoint requires a longer wait."""
MAX_WAIT_S = 60.0
"""Longest wait, in seconds, that the endpoint may require; the check gives up where it requires more."""
HELLO = "Reply with the single word: ready."
ROLES = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": HELLO}]}
LIMITS = (96, 8192)
"""Limits of output tokens: the first one, and the one for a model that reasons longer than that."""
LEVELS = (1, 2, 4, 8, 16, 32)
"""Numbers of requests at once, up to the one that is asked for."""
GAIN = 1.15
"""Factor by which more requests at once must be faster."""
MEASURABLE_S = 0.2
"""Seconds from which the time of requests says something."""
CONTEXT_SHARE = 4
"""Divisor of the context length that gives the longest reply: many servers refuse a prompt that exceeds the context
together with the longest reply."""
CONTEXT_FIELDS = (
    "max_model_len", "context_length", "context_window", "max_context_length", "n_ctx", "n_ctx_train",
    "max_input_tokens",
)  # fmt: skip
"""Names of the context length in /models: of vLLM, OpenRouter, Groq, LM Studio, llama.cpp and LiteLLM."""
TOOLS = "tools"
"""Name of the finding whether a reply can be requested as the arguments of a tool."""
MAX_DETAIL = 160
MAX_MODELS = 8
UNSET = dict.fromkeys(("temperature", "seed", "reasoning_effort", "max_tokens", "max_completion_tokens"))
"""Settings that a request has no field for unless it is checked."""


class EndpointFact(BaseModel):
    """One thing that was checked."""

    model_config = ConfigDict(frozen=True)

    name: str
    """What was checked, for example "json_schema"."""
    verdict: Literal["yes", "no", "unknown"]
    """Whether the endpoint has or accepts it; "unknown" if the requests could not tell."""
    detail: str = ""
    """Value or reason in one line, without secrets."""


class EndpointReport(BaseModel):
    """Everything that was found out about an endpoint."""

    url: str
    """Base URL without secrets."""
    model: str
    """Model that was checked."""
    findings: list[EndpointFact] = Field(default_factory=list)
    models: list[str] = Field(default_factory=list)
    """Models that the endpoint lists."""
    context_tokens: int | None = None
    """Context length that the endpoint states; None if it states none."""
    reply_tokens: int | None = None
    """Longest reply of the settings that follow; None: without a limit."""
    parallel: int = 1
    """Requests at once up to which the endpoint became faster and refused none."""
    requests: int = 0
    """Requests that were sent, without GET /models."""
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    """Tokens of all answers; None if one does not state them."""
    cost_usd: float | None = 0.0
    """Cost of all answers; None if the price or the tokens of one are unknown."""

    def add(self, name: str, verdict: bool | None, detail: str = "") -> None:
        """Add a finding; None is "unknown"."""
        word: Literal["yes", "no", "unknown"] = "unknown" if verdict is None else "yes" if verdict else "no"
        short = detail if len(detail) <= MAX_DETAIL else f"{detail[:MAX_DETAIL]}…"
        self.findings.append(EndpointFact(name=name, verdict=word, detail=short))

    def verdict(self, name: str) -> str:
        """Return the verdict on something; "" if it was not checked."""
        return next((finding.verdict for finding in self.findings if finding.name == name), "")

    def has(self, name: str) -> bool:
        """Return whether the endpoint has or accepts something."""
        return self.verdict(name) == "yes"

    def settings(self, before: BackboneSettings) -> dict[str, Any]:
        """Return the settings of a backbone file for this endpoint, as plain YAML values; {} if it is unusable."""
        if not self.has("model"):
            return {}
        limit = self.reply_tokens
        temperature = before.temperature if self.has("temperature") else None
        seed = (before.seed or 0) if self.has("seed") else None
        changes = {
            "model": self.model,
            "base_url": address_of(before),
            "temperature": temperature,
            "seed": seed,
            "max_tokens": limit if self.has("max_tokens") else None,
            "max_completion_tokens": limit if self.has("max_completion_tokens") else None,
            "response_mode": next((mode for mode in RESPONSE_MODES if self.has(mode)), "text"),
            "concurrency": self.parallel,
            "context_tokens": self.context_tokens,
        }
        if before.kind != "openai":
            changes["kind"] = before.kind
        if self.verdict("system role") == "no":
            changes["system_role"] = False
        settings = before.model_copy(update=changes)
        content = settings.model_dump(mode="json", exclude_unset=True, exclude_none=True, exclude={"name"})
        return content | {"temperature": temperature}  # also if it is None, with which no temperature is sent


class EndpointCheck:
    """Check of one endpoint, which fills a report; `step` is called with what is checked next."""

    def __init__(
        self, endpoint: EndpointBackbone, settings: BackboneSettings, step: Callable[[str], object]
    ) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._format = format_of(settings)
        self._step = step
        self._limits: tuple[str, ...] = ()
        self._answers: list[Reply] = []
        self.report = EndpointReport(url=public_url(settings), model=settings.model)

    async def run(self, reply_type: type[BaseModel], max_parallel: int) -> EndpointReport:
        """Send the requests: those for response modes with the schema of a type, and up to `max_parallel` at once.

        Nothing more is sent where the endpoint cannot be reached, no model is known, or the model does not answer.
        """
        self._step("GET /models")
        if await self._check_models():
            self._step("a first request")
            if await self._check_model():
                await self._check_limit()
                self._step("sampling parameters")
                await self._check_sampling()
                self._step("response modes")
                await self._check_modes(reply_type)
                await self._check_parallel(max_parallel)
                self._report_usage()
            self._report_bill()
        return self.report

    async def _check_models(self) -> bool:
        """Check whether the endpoint can be reached, and which models it lists; return whether one is to be checked."""
        report = self.report
        listed: list[Mapping[str, Any]] = []
        try:
            answer = await self._endpoint.models()
            report.add("reachable", True, f"GET /models: HTTP {answer.status}")
            listed = listed_models(answer)
        except Refusal as refusal:
            if refusal.kind in ("connection", "timeout"):
                report.add("reachable", False, refusal.message)
                return False
            status = refusal.message.partition(":")[0]
            report.add("reachable", True, f"GET /models: {status}")
            if status.startswith(("HTTP 401", "HTTP 403")):
                advice = "no key was sent; name its environment variable with --api-key-env"
                if self._settings.key_place:
                    advice = f"the key in {self._settings.key_place} is not accepted"
                report.add("key", False, f"{status}: {advice}")
                return False
            with suppress(Refusal):  # without a refusal there, the models are at /v1
                await self._endpoint.models("v1/models")
                report.add("model", False, f"the base URL lacks /v1: name {report.url}/v1")
                return False
        self._name_model(listed)
        return bool(report.model)

    def _name_model(self, listed: list[Mapping[str, Any]]) -> None:
        """Report the listed models and their context length; check the first one where none is named."""
        report = self.report
        report.models = [str(entry["id"]) for entry in listed]
        names = shorten(report.models, MAX_MODELS) or "none listed"
        if len(listed) > 1 and not report.model:
            names = f"only the first of {len(listed)} is checked, --model names another: {names}"
        report.add("models", True if listed else None, names)
        report.model = report.model or next(iter(report.models), "")
        if not report.model:
            report.add("model", False, "the endpoint lists none: name one with --model")
            return
        tokens = report.context_tokens = stated_context(listed, report.model)
        report.add(
            "context length", True if tokens else None, f"{tokens:,} tokens" if tokens else "not stated"
        )

    async def _check_model(self) -> bool:
        """Check whether the model answers, and by which name the limit of output tokens is accepted."""
        report = self.report
        for name in (*self._format.limits, ""):  # at last without a limit
            self._limits = (name,) if name else ()
            answer = await self._ask(HELLO)
            if isinstance(answer, Reply):
                break
            if answer.kind not in ("request", "settings", "server"):  # the limit's name cannot be the reason
                report.add("key" if answer.message.startswith("HTTP 401") else "model", False, answer.message)
                return False
            if name and answer.kind != "server":
                report.add(name, False, answer.message)
        if isinstance(answer, Refusal):
            report.add("model", False, answer.message)
            return False
        if name:
            report.add(name, True)
        if self._settings.key_place:
            report.add("key", True)
        report.add("model", True, answer.call.model or report.model)
        return True

    async def _check_limit(self) -> None:
        """Check whether the longest reply of the settings may be requested; else the one that the refusal names."""
        limit = self._settings.reply_tokens
        if limit and self.report.context_tokens:
            limit = min(limit, max(1, self.report.context_tokens // CONTEXT_SHARE))
        refused = ""
        while limit and self._limits and limit > LIMITS[0]:
            asked: dict[str, Any] = dict.fromkeys(self._limits, limit)
            answer = await self._ask(HELLO, **asked)
            if isinstance(answer, Reply) or answer.kind not in ("request", "settings"):
                break
            refused = answer.message
            numbers = re.findall(r"\d[\d,]*", refused.partition(": ")[2])
            lower = [
                number for text in numbers if LIMITS[0] <= (number := int(text.replace(",", ""))) < limit
            ]
            limit = max(lower, default=limit // 2)
        if refused:
            self.report.add("longest reply", True, f"{limit:,} tokens: {refused}")
        self.report.reply_tokens = limit

    async def _check_sampling(self) -> None:
        self._add("temperature", await self._ask(HELLO, temperature=0.0))
        if "seed" in self._format.takes:
            self._add("seed", await self._ask(HELLO, seed=7))
        if "system_role" in self._format.takes:
            self._add("system role", await self._ask(HELLO, ROLES))

    def _add(self, name: str, answer: Reply | Refusal) -> None:
        detail = answer.message if isinstance(answer, Refusal) else ""
        self.report.add(name, isinstance(answer, Reply), detail)

    async def _check_modes(self, reply_type: type[BaseModel]) -> None:
        """Check the response modes, and tools, with the schema of a stage's reply."""
        schema = reply_schema(reply_type)
        keys = ", ".join(schema["properties"])
        text = f"List the table customer with its column name, as one JSON object with the keys {keys}."
        for mode in self._format.modes:
            answer = await self._ask(text, schema=schema, response_mode=mode)
            if isinstance(answer, Refusal):
                self._add(mode, answer)
            elif _fits(answer.text, mode, reply_type):
                self.report.add(mode, True)
            elif answer.truncated:
                self.report.add(mode, True, "accepted; the reply was cut off")
            else:
                self.report.add(mode, False, "accepted, but not followed")
        if TOOLS in self._format.takes:
            function = {"name": "reply", "description": "Takes the reply.", "parameters": dict(schema)}
            answer = await self._ask(text, {TOOLS: [{"type": "function", "function": function}]})
            if isinstance(answer, Refusal):
                self._add(TOOLS, answer)
            elif answer.calls and _fits(answer.calls[0].arguments, TOOLS, reply_type):
                self.report.add(TOOLS, True)
            else:
                self.report.add(TOOLS, None, "accepted, but not called")

    async def _check_parallel(self, max_parallel: int) -> None:
        """Send 1, 2, 4, ... requests at once, until more are no faster or are refused."""
        report = self.report
        best_rate = 0.0
        reason = ""
        levels = [level for level in LEVELS if level <= max_parallel]
        for level in levels:
            self._step(f"{counted(level, 'request')} at once")
            began = time.monotonic()
            texts = [f"{HELLO} ({level}-{number})" for number in range(level)]  # no two are the same request
            answers = await asyncio.gather(*(self._ask(text, waits=()) for text in texts))
            seconds = time.monotonic() - began
            refusals = [answer.message for answer in answers if isinstance(answer, Refusal)]
            if refusals:
                reason = refusals[0]
                break
            if level / seconds < best_rate * GAIN and seconds >= MEASURABLE_S:
                reason = f"{level} are no faster"
                break
            best_rate = max(best_rate, level / seconds)
            report.parallel = level
        reason = reason or f"{report.parallel} were the most tried"
        report.add("requests at once", True, f"{report.parallel}; {reason}")

    def _report_usage(self) -> None:
        """Report which token counts the endpoint states, and whether its price is known."""
        calls = [answer.call for answer in self._answers]
        numbers: dict[str, list[float | None]] = {}
        for name in ("input", "output", "cached_input", "cache_write", "reasoning"):
            numbers[name.replace("_", " ")] = [getattr(call.usage, name) for call in calls]
        numbers["cost"] = [call.cost_usd for call in calls]
        stated = [name for name, values in numbers.items() if any(value is not None for value in values)]
        missing = [name for name in numbers if name not in stated]
        missing_note = f"; not stated: {', '.join(missing)}" if missing else ""
        self.report.add("usage", bool(stated), (", ".join(stated) or "none") + missing_note)
        priced = prices_for(self._settings) is not None
        self.report.add("price", priced, "" if priced else "set prices to know what a run costs")

    def _report_bill(self) -> None:
        report = self.report
        prices = prices_for(self._settings)
        calls = [answer.call for answer in self._answers]
        report.input_tokens = _total(call.usage.input for call in calls)
        report.output_tokens = _total(call.usage.output for call in calls)
        report.cost_usd = _total(
            cost(call.usage, prices, call.tier or STANDARD) if call.cost_usd is None else call.cost_usd
            for call in calls
        )

    async def _ask(
        self,
        text: str,
        extra_body: Mapping[str, Any] | None = None,
        schema: Mapping[str, Any] | None = None,
        waits: Sequence[float] = WAITS_S,
        **changed_settings: Any,
    ) -> Reply | Refusal:
        """Send a request with changed settings and further fields in its body; return its reply, or why it is refused.

        After a rate limit it is sent again once for each of the `waits`.
        """
        for tokens in LIMITS:  # a reasoning model may use up the first limit before it answers
            limits = dict.fromkeys(self._limits, tokens)
            update = {**UNSET, "model": self.report.model, **limits, **changed_settings}
            settings = self._settings.model_copy(update=update)
            body = self._format.body(Request((Message("user", text),), schema), settings)
            self.report.requests += 1
            answer: Reply | Refusal
            try:
                answer = await self._ask_patiently(body | dict(extra_body or {}), waits)
                self._answers.append(answer)
                lacks_tokens = answer.truncated and not without_thoughts(answer.text)
            except Refusal as refusal:
                answer = refusal
                lacks_tokens = is_out_of_tokens(refusal)
            if not lacks_tokens:
                break
        return answer

    async def _ask_patiently(self, body: Mapping[str, Any], waits: Sequence[float]) -> Reply:
        for wait_s in waits:
            try:
                return await self._endpoint.ask_once(body)
            except Refusal as refusal:
                if refusal.kind != "rate_limit" or (refusal.retry_after_s or 0.0) > MAX_WAIT_S:
                    raise
                self._step("waiting for the rate limit")
                await asyncio.sleep(max(wait_s, refusal.retry_after_s or 0.0))
                self.report.requests += 1
        return await self._endpoint.ask_once(body)


def listed_models(answer: HttpAnswer) -> list[Mapping[str, Any]]:
    """Return the entries of an answer to GET /models that have an id."""
    try:
        content = json.loads(answer.text)
    except (ValueError, RecursionError):
        return []
    entries = parts(content if isinstance(content, dict) else {"data": content}, "data")
    return [entry for entry in entries if entry.get("id")]


def stated_context(listed: list[Mapping[str, Any]], model: str) -> int | None:
    """Return the context length in a model's entry of /models, or in its "meta"; None if there is none."""
    entry = next((entry for entry in listed if entry["id"] == model), {})
    meta = entry.get("meta")
    for content in (entry, meta if isinstance(meta, dict) else {}):
        for name in CONTEXT_FIELDS:
            value = content.get(name)
            if isinstance(value, int) and 0 < value <= MAX_TOKENS:
                return value
    return None


def _total(numbers: Iterable[Number | None]) -> Number | None:
    """Return the sum; None if a number is unknown."""
    values = list(numbers)
    return None if None in values else sum(value for value in values if value is not None)


def _fits(text: str, mode: str, reply_type: type[BaseModel]) -> bool:
    """Return whether a reply has the form that its mode requests."""
    if mode != "text" and json_object(without_thoughts(text)) is None:
        return False
    return mode == "json_object" or read_reply(text, reply_type).value is not None
