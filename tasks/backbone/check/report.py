"""What the probes of an endpoint found, and the settings of a backbone that follow."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tasks.core.outcome import Usage
from tasks.settings.backbone import BackboneSettings

Verdict = Literal["yes", "no", "unknown"]
MODES = ("json_schema", "json_object", "text")
"""Response modes, the strictest first."""
SHORTEST_TIMEOUT_S, LONGEST_TIMEOUT_S = 60.0, 1800.0
PROMPT_TOKENS, REPLY_TOKENS, READING = 4000, 2048, 4
"""Tokens of a long prompt and of a long reply, for which the time limit is computed, and the number of prompt tokens
that a server reads while it writes one."""
REPLY_SHARE = 4
"""Share of the context that a reply may take: many servers refuse a prompt that exceeds it with the longest reply."""
LONGEST_DETAIL = 160


class Finding(BaseModel):
    """One thing that was probed."""

    model_config = ConfigDict(frozen=True)

    name: str
    """What was probed, for example "json_schema"."""
    verdict: Verdict
    """Whether the endpoint has or accepts it; "unknown" if the probes could not tell."""
    detail: str = ""
    """Value or reason in one line, without secrets."""


class EndpointReport(BaseModel):
    """Everything that the probes found."""

    url: str
    """Base URL without secrets."""
    model: str
    """Model that was probed."""
    findings: list[Finding] = Field(default_factory=list)
    models: list[str] = Field(default_factory=list)
    """Models that the endpoint lists."""
    context_tokens: int | None = None
    """Context length that the endpoint states; None if it states none."""
    first_byte_s: float | None = None
    """Seconds to the first part of a streamed reply; None if it does not stream."""
    tokens_per_s: float | None = None
    """Output tokens per second of one request; None if unknown."""
    parallel: int = 1
    """Requests at once up to which the endpoint became faster and refused none."""
    requests: int = 0
    """Requests that were sent, without GET /models."""
    unreported: int = 0
    """Requests for which the endpoint did not report the tokens."""
    input_tokens: int = 0
    output_tokens: int = 0
    """Tokens of the other requests."""
    cost_usd: float | None = None
    """Cost of all requests; None if the price or the tokens of one are unknown."""

    def add(self, name: str, verdict: Verdict | bool, detail: str = "") -> None:
        """Add a finding; True is "yes" and False is "no"."""
        if isinstance(verdict, bool):
            verdict = "yes" if verdict else "no"
        short = detail if len(detail) <= LONGEST_DETAIL else f"{detail[:LONGEST_DETAIL]}…"
        self.findings.append(Finding(name=name, verdict=verdict, detail=short))

    def verdict(self, name: str) -> Verdict:
        """Return the verdict on something; "unknown" if it was not probed."""
        return next((each.verdict for each in self.findings if each.name == name), "unknown")

    def count(self, usage: Usage | None) -> None:
        """Count the tokens of a request."""
        self.requests += 1
        if usage is None or usage.input is None or usage.output is None:
            self.unreported += 1
            return
        self.input_tokens += usage.input
        self.output_tokens += usage.output

    @property
    def usable(self) -> bool:
        """Whether the endpoint answered a request for the model."""
        return self.verdict("model") == "yes"

    @property
    def response_mode(self) -> str:
        """The strictest response mode that works."""
        return next((mode for mode in MODES if self.verdict(mode) == "yes"), "text")

    @property
    def timeout_s(self) -> float:
        """Time limit of a request: three times what a long prompt and reply take at the measured speed."""
        if not self.tokens_per_s:
            return 300.0
        seconds = (
            3 * (PROMPT_TOKENS / READING + REPLY_TOKENS) / self.tokens_per_s * max(1, self.parallel // 2)
        )
        return float(round(min(max(seconds, SHORTEST_TIMEOUT_S), LONGEST_TIMEOUT_S)))

    def settings(self, before: BackboneSettings, reply: str = "json") -> dict[str, Any]:
        """Return the settings of a backbone file for this endpoint, as plain YAML values."""
        limit = before.reply_tokens or REPLY_TOKENS
        if self.context_tokens:
            limit = min(limit, max(1, self.context_tokens // REPLY_SHARE))
        kind = {} if before.kind == "openai" else {"kind": before.kind}
        settings: dict[str, Any] = {**kind, "model": self.model, "base_url": self.url}
        for name in ("api_key_env", "api_key_command", "headers_env"):
            if value := getattr(before, name):
                settings[name] = value
        settings["temperature"] = None if self.verdict("temperature") == "no" else before.temperature
        if self.verdict("seed") == "yes":
            settings["seed"] = before.seed or 0
        if self.verdict("system role") == "no":
            settings["system_role"] = False
        if self.verdict("max_tokens") == "yes":
            settings["max_tokens"] = limit
        elif self.verdict("max_completion_tokens") == "yes":
            settings["max_completion_tokens"] = limit
        settings |= {"response_mode": self.response_mode, "reply": reply}
        settings |= {"concurrency": max(1, self.parallel), "timeout_s": self.timeout_s}
        if self.context_tokens:
            settings["context_tokens"] = self.context_tokens
        if before.prices:
            settings["prices"] = before.prices.model_dump(mode="json", exclude_defaults=True)
        return settings
