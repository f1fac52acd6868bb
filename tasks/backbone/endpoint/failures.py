"""Classification of failed HTTP responses: retryable, specific to one request, or fatal for the run."""

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal[
    "rate_limit", "server", "connection", "timeout", "garbled", "quota", "access", "settings", "request"
]

TRANSIENT: frozenset[Kind] = frozenset({"rate_limit", "server", "connection", "timeout", "garbled"})
FATAL: frozenset[Kind] = frozenset({"quota", "access", "settings"})

_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_QUOTA_WORDS = re.compile(
    r"exceeded your current quota|insufficient.{0,12}(balance|funds|credit|quota)|billing|"
    r"(credit|balance).{0,20}(too low|exhausted|depleted)|out of credits|payment required",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(r"credit balance is too low|insufficient balance", re.IGNORECASE)
_NO_MODEL = re.compile(r"model.{0,80}(not exist|not found)|unknown model", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size)|maximum.{0,20}(context|tokens)|prompt is too long|too many tokens",
    re.IGNORECASE,
)
_MODERATED = re.compile(r"content.{0,4}(filter|policy|management)|moderat|flagged", re.IGNORECASE)
_COME_BACK = re.compile(r"(?:try again|retry) in ((?:[\d.]+\s*(?:ms|h|m|s)\s*)+)", re.IGNORECASE)
_SPAN = re.compile(r"([\d.]+)\s*(ms|h|m|s)", re.IGNORECASE)
LONGEST_PLAUSIBLE_WAIT_S = 7 * 24 * 3600.0
"""A longer `Retry-After` is taken for an error of the endpoint and ignored."""
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
# Request parameters that a model may reject, and the setting to change.
_SETTING_OF = {
    "temperature": "temperature: null",
    "max_tokens": "max_tokens_field: max_completion_tokens",
    "max_completion_tokens": "max_tokens_field: max_tokens",
    "response_format": "response_mode: json_object (or text)",
    "seed": "seed: null",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Failure of one attempt.

    Attributes:
        kind: class of the failure; retryable if in `TRANSIENT`, fatal for the run if in `FATAL`.
        message: error message of the endpoint or the network, one line.
        advice: what the user can do, "" when only waiting helps.
        retry_after_s: seconds that the endpoint asks to wait; None if it gives none.
    """

    kind: Kind
    message: str
    advice: str = ""
    retry_after_s: float | None = None

    @property
    def transient(self) -> bool:
        """Whether a retry can succeed."""
        return self.kind in TRANSIENT

    @property
    def fatal(self) -> bool:
        """Whether every other request would fail too."""
        return self.kind in FATAL


def refusal_of(status: int, headers: Mapping[str, str], body: str, api_key_env: str | None = None) -> Refusal:
    """Classify an HTTP response that holds no reply.

    Args:
        status: the HTTP status, or the one that a 200's `error` object names.
        headers: the answer's headers, names in lower case.
        body: the answer's text, JSON or not.
        api_key_env: name of the variable with the key, for the advice.
    """
    error = _error_of(body)
    code = str(error.get("code") or error.get("type") or "")
    message = f"HTTP {status}{f' {code}' if code and code != str(status) else ''}: {_one_line(error, body)}"
    wait = retry_after(headers, message)
    codes = {str(error.get("code")), str(error.get("type"))}
    key = f"the key in {api_key_env}" if api_key_env else "the key (no api_key_env is set for this backbone)"

    # Some endpoints call every rate limit a quota; one that says when to come back is not exhausted.
    broke = status in (403, 429) and wait is None and _QUOTA_WORDS.search(message)
    if status == 402 or codes & _QUOTA_CODES or broke or (status == 400 and _NO_CREDIT.search(message)):
        return Refusal(
            "quota", message, f"The quota of {key} is used up: add credit or raise it at the provider."
        )
    if status == 401 or (status == 403 and not _MODERATED.search(message)):
        return Refusal(
            "access", message, f"{key[0].upper()}{key[1:]} is not accepted, or not for this model: check it."
        )
    refused = _refused_parameter(codes, error, message) if status in (400, 422) else None
    if refused is not None:
        return Refusal("settings", message, f"The model does not take {refused}: set {_SETTING_OF[refused]}.")
    unknown_model = "model_not_found" in codes or (status in (400, 422) and _NO_MODEL.search(message))
    if status in (404, 405) or unknown_model:
        return Refusal("access", message, "Check the backbone's model and base_url (it usually ends in /v1).")
    if status == 429:
        return Refusal("rate_limit", message, retry_after_s=wait)
    if status >= 500 or status in (408, 409, 425):
        return Refusal("server", message, retry_after_s=wait)
    if "context_length_exceeded" in codes or status == 413 or _TOO_LONG.search(message):
        return Refusal(
            "request", message, "The prompt exceeds the model's context: show fewer tables, rows, examples."
        )
    if _MODERATED.search(message):
        return Refusal("request", message, "The endpoint's content filter refused this prompt.")
    return Refusal("request", message, "The endpoint does not accept this request as it is.")


def retry_after(headers: Mapping[str, str], message: str = "", now: float | None = None) -> float | None:
    """Return the seconds to wait that the headers, or else the message, ask for.

    None if there is no such number or it exceeds `LONGEST_PLAUSIBLE_WAIT_S`.

    >>> retry_after({"retry-after-ms": "1500"})
    1.5
    >>> retry_after({"retry-after": "20"})
    20.0
    >>> retry_after({}, "Rate limit reached. Please try again in 1m30s.")
    90.0
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            return _plausible(float(value) * unit)
        except ValueError:
            pass
        try:
            at = email.utils.parsedate_to_datetime(value).timestamp()
        except (ValueError, OverflowError, OSError):
            continue
        return _plausible(at - (time.time() if now is None else now))
    found = _COME_BACK.search(message)
    if found is None:
        return None
    spans = _SPAN.findall(found[1])
    try:
        return _plausible(sum(float(number) * _SECONDS[unit.lower()] for number, unit in spans))
    except ValueError:
        return None


def _plausible(seconds: float) -> float | None:
    if not math.isfinite(seconds) or seconds > LONGEST_PLAUSIBLE_WAIT_S:
        return None
    return max(0.0, seconds)


def scrub(text: str, secret: str | None) -> str:
    """Return the text without the key, and without anything that looks like one.

    >>> scrub("Incorrect API key provided: sk-proj-abc123. You can", None)
    'Incorrect API key provided: ***. You can'
    """
    if secret:
        text = text.replace(secret, "***")
    text = re.sub(r"(?i)\bbearer\s+[^\s\"',]+", "Bearer ***", text)
    text = re.sub(r"\b(sk|pk|gsk|hf|xai)[-_][\w*-]{4,}", "***", text)
    return re.sub(r"(?<=://)[^\s/@]+@", "***@", text)


def _refused_parameter(codes: set[str], error: Mapping[str, Any], message: str) -> str | None:
    if codes & {"unsupported_parameter", "unsupported_value"} and error.get("param") in _SETTING_OF:
        return str(error["param"])
    return "response_format" if "response_format" in message else None


def _error_of(body: str) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if isinstance(content, list) and content:
        content = content[0]
    if not isinstance(content, dict):
        return {}
    error = content.get("error", content)
    return error if isinstance(error, dict) else {"message": str(error)}


def _one_line(error: Mapping[str, Any], body: str) -> str:
    message = error.get("message") or error.get("detail") or body
    text = " ".join(str(message).split())
    return text if len(text) <= 300 else f"{text[:297]}..."
