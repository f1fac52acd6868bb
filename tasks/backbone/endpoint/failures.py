"""Classification of failed HTTP responses: retryable, specific to one request, or fatal for the run."""

import email.utils
import json
import math
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from tasks.backbone.endpoint.wire import part

Kind = Literal[
    "rate_limit", "capacity", "server", "connection", "timeout", "garbled", "quota", "access", "settings", "request",
]  # fmt: skip

TRANSIENT: frozenset[Kind] = frozenset(
    {"rate_limit", "capacity", "server", "connection", "timeout", "garbled"}
)
FATAL: frozenset[Kind] = frozenset({"quota", "access", "settings"})

_QUOTA_CODES = frozenset({
    "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "credit_balance_exhausted",
    "organization_spend_limit_exceeded", "project_spend_limit_exceeded", "organization_usage_limit_exceeded",
    "enforced_spend_limit_reached", "blocked_api_access",
})  # fmt: skip
"""Codes of OpenAI; of Anthropic, in the error's details; and of Groq, for a spend limit."""
_KEY_CODES = frozenset({"no_db_connection"})
"""Codes of a wrong key with another status than 401: of LiteLLM's proxy, which looks for the key in a database."""
_NO_KEY = re.compile(r"api.?key.{0,20}(?:not valid|invalid|expired)|incorrect api.?key", re.IGNORECASE)
"""Messages of a wrong key with another status than 401: Gemini's and xAI's, with 400."""
_QUOTA_WORDS = re.compile(
    r"exceeded your current quota|insufficient.{0,12}(balance|funds|credit|quota)|billing|"
    r"(credit|balance).{0,20}(too low|exhausted|depleted)|out of credits|payment required|"
    r"(?:tokens|requests) per day|\bTPD\b|\bRPD\b|daily (?:free )?allocation",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(
    r"credit balance is too low|insufficient balance|(?:account )?balance is insufficient|not enough balance|"
    r"overdue balance|in good standing|budget (?:has been|limit) exceeded|ExceededBudget|"
    r"specified (?:workspace )?API usage limits|(?:session|weekly) usage limit|monthly spending limit|any credits yet|"
    r"key limit exceeded|token.quota.{0,30}reached|free tier.{0,40}exhausted|api calls / month",
    re.IGNORECASE,
)
"""Messages about money whatever the status: of Anthropic, DeepSeek, SiliconFlow, Novita, Volcengine, DashScope,
LiteLLM, Fireworks, xAI, OpenRouter, watsonx, Cohere and Ollama Cloud."""
_NO_MODEL = re.compile(
    r"model.{0,80}(not exist|not found|not loaded|not supported by any provider)|unknown model|"
    r"invalid model(?: name|:)|model identifier is invalid|model id \S+ with on-demand|no models loaded|"
    r"pinned to .{0,200}requested",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context.{0,20}(?:length|window|size|limit)|maximum.{0,20}(?:context|tokens)|(?:prompt|input) is too long|"
    r"too many (?:input )?tokens|inputs?\W.{0,40}tokens?.{0,40}must|inputs?\W.{0,20}must have less than \d+ tokens|"
    r"too long for (?:the )?requested model|input (?:length|tokens).{0,60}exceed|"
    r"longer than the maximum model length|maximum prompt length|model token limit|exceeds max length|"
    r"range of input length|max_seq_len|too large to process|reduce the length of|payload size exceeds|"
    r"prompt (?:length|token count)\D{0,9}\d+\)? exceeds|exceed max message tokens",
    re.IGNORECASE,
)
"""Messages about a prompt that is too long: of OpenAI, vLLM, Anthropic, llama.cpp, TGI, TensorRT-LLM, TabbyAPI, Amazon
Bedrock, xAI, Kimi, Z.AI, DashScope, SiliconFlow, Groq, Gemini, OpenVINO and GitHub."""
_LIMIT_TOO_LARGE = re.compile(r"too large: (\d+)\D.{0,80}?context length is (\d+)", re.IGNORECASE)
"""vLLM's message about an output limit beside the context length."""
_NO_GRAMMAR = re.compile(r"grammar error|parse grammar|grammar is not supported", re.IGNORECASE)
"""Messages of vLLM, llama.cpp and TGI about a schema that they cannot enforce."""
_CRASHED = re.compile(r"model has crashed|model unloaded", re.IGNORECASE)
"""Messages of LM Studio with 400; it loads the model again for the next request."""
_NO_SYSTEM_ROLE = re.compile(
    r"system.{0,20}(role|message|prompt).{0,30}not supported|only user and assistant roles|"
    r"developer instruction is not enabled|does not support 'system'",
    re.IGNORECASE,
)
"""Messages about models without the role: Gemma 2, Mistral 7B Instruct 0.2, Gemma 3 at Google, o1-mini."""
_NO_THOUGHTS = re.compile(
    r"missing a thought_signature|reasoning_content.{0,60}(?:missing|passed back|include)|include reasoning_content|"
    r"must start with a thinking block"
)
"""Messages of endpoints that demand the thoughts of earlier turns with tool calls: of Gemini, Kimi, DeepSeek, LiteLLM
and Anthropic."""
_MODERATED = re.compile(
    r"content.{0,4}(filter|policy|management)|moderat|flagged|guardrail|prompt injection|"
    r"(?:request|prompt|response) (?:was )?blocked",
    re.IGNORECASE,
)
_COME_BACK = re.compile(
    r"(?:(?:try again|retry) (?:in|after)|please wait|retryDelay\W{2,8}?) ?(?P<spans>(?:[\d.]+\s*(?:ms|h|m|s)\s*)+)",
    re.IGNORECASE,
)
"""When to come back: in messages of OpenAI, Azure and GitHub, and in `google.rpc.RetryInfo`, which gateways quote."""
_SPAN = re.compile(r"(?<![\d.])([\d.]++)\s*+(ms|h|m|s)", re.IGNORECASE)
MAX_PLAUSIBLE_WAIT_S = 7 * 24 * 3600.0
"""A longer `Retry-After` is taken for an error of the endpoint and ignored."""
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
MAX_MESSAGE = 8000
"""Characters of an error's message that are read."""
_RATE_LIMITS = frozenset({402, 420, 429, 498})
"""Statuses of rate limits; 498 is Groq's for a tier without free capacity, and 402 OpenRouter's, with a time to wait,
while the estimated cost of all requests under way exceeds the balance."""
_PASSING = frozenset({408, 409, 424, 425, 449, 499, 503, 504, *range(520, 531)})
"""Further statuses of transient failures; 424: a model failed (Amazon Bedrock, TGI)."""
_LOCATION = re.compile(r"\bloc['\"]?: ?[\[(]([^\])]{0,200})")
"""Location in a validation error of pydantic, in JSON or in Python notation."""
_REFUSED = re.compile(
    r"unsupported|not (?:supported|permitted|allowed|accepted|valid)|(?:does|do) not (?:support|accept|allow)|unknown|"
    r"unrecogni[sz]ed|unexpected|extra inputs|invalid|deprecated|must|should|only|too (?:large|small|high|low)|"
    r"greater|less than|maximum allowed|out of range|exceed|unavailable|cannot|requires",
    re.IGNORECASE,
)


@dataclass(eq=False)
class Refusal(Exception):  # noqa: N818 - it is also the finding of a check
    """Failure of one attempt."""

    kind: Kind  # class of the failure; retryable if in `TRANSIENT`, fatal for the run if in `FATAL`
    message: str  # error message of the endpoint or the network, one line
    advice: str = ""  # what the user can do, "" when only waiting helps
    retry_after_s: float | None = None  # seconds that the endpoint asks to wait; None if it gives none

    @property
    def transient(self) -> bool:
        """Whether a retry can succeed."""
        return self.kind in TRANSIENT

    @property
    def fatal(self) -> bool:
        """Whether every other request would fail too."""
        return self.kind in FATAL

    @property
    def gone(self) -> bool:
        """Whether the endpoint says that the resource does not exist."""
        return self.message.startswith(("HTTP 404", "HTTP 410"))

    @property
    def too_large(self) -> bool:
        """Whether the endpoint says that the body of the request is too large."""
        return self.message.startswith("HTTP 413")


_TITLE = re.compile(r"\A\s*+<.{0,2000}<title>([^<]{1,300})</title>", re.IGNORECASE | re.DOTALL)
"""Title of a page in HTML, which stands for the page in messages."""
_LIMIT_REACHED = re.compile(r"output limit was reached|could not finish the message", re.IGNORECASE)


def is_out_of_tokens(refusal: Refusal) -> bool:
    """Return whether the request was accepted, and the model used up its limit of tokens before it answered.

    OpenAI refuses the reply of a reasoning model then.
    """
    return bool(_LIMIT_REACHED.search(refusal.message))


def refusal_of(
    status: int, headers: Mapping[str, str], body: str, key_place: str | None, changes: Mapping[str, str]
) -> Refusal:
    """Classify an HTTP response that holds no reply, or the error in the body of one with status 200.

    The advice names where the key is, `key_place`, and how the user changes a refused parameter, from `changes`.
    """
    error = _error_of(body)
    code = str(error.get("code") or error.get("type") or "")
    reason = part(error, "details").get("error_code")
    codes = {str(error.get("code")), str(error.get("type")), str(reason)}
    text = " ".join(_full_message(error, body)[:MAX_MESSAGE].split())
    short_text = text if len(text) <= 300 else f"{text[:297]}..."
    shown_status = f"{status}" if code in ("", str(status)) else f"{status} {code}"
    message = f"HTTP {shown_status}: {short_text}"
    wait_s = retry_after({**headers, **_quoted_headers(error)}, body[:MAX_MESSAGE])
    key = f"the key in {key_place}" if key_place else "the key (no api_key_env is set for this backbone)"

    # Some endpoints call every rate limit a quota; one that says when to come back is not exhausted.
    is_exhausted = status in (403, 429) and wait_s is None and _QUOTA_WORDS.search(message)
    is_without_credit = wait_s is None and _NO_CREDIT.search(message)
    is_unpaid = status == 402 and wait_s is None
    if is_unpaid or codes & _QUOTA_CODES or is_exhausted or is_without_credit:
        advice = f"The quota of {key} is used up: add credit or raise it at the provider."
        return Refusal("quota", message, advice)
    is_too_long = "context_length_exceeded" in codes or status == 413 or _is_prompt_too_long(text)
    is_prompt_refused = is_too_long or _MODERATED.search(message)
    is_key_refused = status == 401 or codes & _KEY_CODES or (status == 400 and _NO_KEY.search(message))
    if is_key_refused or (status == 403 and not is_prompt_refused):
        advice = f"{key[0].upper()}{key[1:]} is not accepted, or not for this model: check it."
        if status == 403 and _TITLE.search(body):
            advice = "This is the page of a firewall or proxy in front of the endpoint, not its own answer."
        return Refusal("access", message, advice)
    if 300 <= status < 400:
        moved = f"HTTP {status}: the endpoint redirects to {scrub(headers.get('location') or 'nowhere')}"
        return Refusal("access", moved, "Set backbone.base_url to where it is (it usually ends in /v1).")
    # A failure that may pass has the same words in its message as a refusal for good: the message decides nothing then.
    may_pass = status in _RATE_LIMITS or status in _PASSING
    # OpenAI answers 429 to a prompt that exceeds the tokens of a minute by itself, too.
    if (is_too_long and not may_pass) or text.startswith("Request too large for"):
        return Refusal("request", message, _SHORTER)
    # A parameter that the body names decides, whatever the status: some servers refuse it with 500.
    refused = _refused_parameter(error, text, changes, reads_message=not may_pass)
    if refused is not None:
        advice = f"The endpoint does not take {refused} as it is sent: {changes[refused]}."
        return Refusal("settings", message, advice)
    if _NO_SYSTEM_ROLE.search(message):
        advice = "The model's chat template has no system role: set backbone.system_role=false."
        return Refusal("settings", message, advice)
    if _NO_THOUGHTS.search(message):
        advice = "It demands the thoughts of earlier turns, which are not sent back: set pipeline.tools=text."
        return Refusal("settings", message, advice)
    if may_pass:
        return Refusal("rate_limit" if status in _RATE_LIMITS else "server", message, retry_after_s=wait_s)
    if status in (404, 405) or "model_not_found" in codes or _NO_MODEL.search(message):
        advice = "Check backbone.model and backbone.base_url (it usually ends in /v1)."
        return Refusal("access", message, advice)
    if status >= 500 or _CRASHED.search(message):
        return Refusal("server", message, retry_after_s=wait_s)
    if _MODERATED.search(message):
        return Refusal("request", message, "The endpoint's content filter refused this prompt.")
    return Refusal("request", message, "The endpoint does not accept this request as it is.")


_FAILED_CODES = frozenset({"json_validate_failed", "tool_use_failed"})
_GENERATION = re.compile(r'"failed_generation"\s*:\s*("(?:[^"\\]|\\.)*")', re.DOTALL)
"""What a model wrote, in a body of Groq that a gateway quotes."""
_UNPARSED = re.compile(r"error parsing tool call: raw='|Failed to parse input at pos \d{1,9}: ")
"""What stands before the text of a model in messages of Ollama, which ends it with `', err=`, and of llama.cpp."""
REACHED_LIMIT = re.compile(r"max completion tokens reached", re.IGNORECASE)
"""Groq's message about a document that the output limit cut off."""


def failed_generation(status: int, body: str) -> str | None:
    """Return what a model wrote where the endpoint refuses to pass it on as JSON or as a tool call; None otherwise.

    Groq answers 400 with the code "json_validate_failed" or "tool_use_failed", and the text as `failed_generation`, or
    none; Ollama and llama.cpp answer 500 with the text in the message.
    """
    if status not in (400, 500):
        return None
    error = _error_of(body)
    message = _full_message(error, body)
    if isinstance(text := error.get("failed_generation"), str):
        return text
    if quoted := _GENERATION.search(message):
        try:
            return str(json.loads(quoted[1], strict=False))
        except ValueError:  # an escape that JSON does not know
            return quoted[1].strip('"')
    if unparsed := _UNPARSED.search(message):
        text = message[unparsed.end() :]
        return text.rpartition("', err=")[0] or text
    return "" if error.get("code") in _FAILED_CODES else None


_SHORTER = (
    "The prompt exceeds the model's context: show fewer rows or examples, or set backbone.context_tokens, with which "
    "large schemas are pruned."
)


def _is_prompt_too_long(text: str) -> bool:
    """Return whether a message is about a prompt, and not about an output limit that exceeds the context by itself."""
    numbers = _LIMIT_TOO_LARGE.search(text)
    if numbers and int(numbers[1]) >= int(numbers[2]):
        return False
    return bool(_TOO_LONG.search(text))


_NO_CAPACITY = re.compile(r"resource.{0,3}unavailable|capacity", re.IGNORECASE)


def lacks_capacity(refusal: Refusal) -> bool:
    """Return whether a request of a cheaper tier was refused because the tier has no free capacity.

    OpenAI answers 429 "Resource Unavailable" (guide "Flex processing"), Groq 498 "capacity_exceeded".
    """
    return refusal.kind in ("rate_limit", "server") and bool(_NO_CAPACITY.search(refusal.message))


def retry_after(headers: Mapping[str, str], message: str = "", now: float | None = None) -> float | None:
    """Return the seconds to wait that the headers, or else the message, ask for; None without a plausible number.

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
        with suppress(ValueError):
            return _plausible(float(value) * unit)
        with suppress(ValueError, OverflowError, OSError):  # no number, but a date
            at = email.utils.parsedate_to_datetime(value).timestamp()
            return _plausible(at - (time.time() if now is None else now))
    if headers.get("x-ratelimit-remaining") == "0":
        with suppress(ValueError):  # OpenRouter's, in milliseconds since 1970
            at = float(headers.get("x-ratelimit-reset", "")) / 1000
            return _plausible(at - (time.time() if now is None else now))
    come_back = _COME_BACK.search(message)
    if come_back is None:
        return None
    spans = _SPAN.findall(come_back["spans"])  # such as "1m30s"
    try:
        return _plausible(sum(float(number) * _SECONDS[unit.lower()] for number, unit in spans))
    except ValueError:
        return None


def _plausible(seconds: float) -> float | None:
    """Return a wait, 0.0 for a time that has passed; None if it is implausibly long."""
    if not math.isfinite(seconds) or seconds > MAX_PLAUSIBLE_WAIT_S:
        return None
    return max(0.0, seconds)


def scrub(text: str) -> str:
    """Return the text without anything that looks like a secret.

    >>> scrub("Incorrect API key provided: sk-proj-abc123. You can")
    'Incorrect API key provided: ***. You can'
    """
    text = re.sub(r"(?i)\bbearer\s+[^\s\"',]+", "Bearer ***", text)
    text = re.sub(r"\b(sk|pk|gsk|hf|xai)[-_][\w*-]{4,}", "***", text)
    return re.sub(r"(?<=://)[^\s/@]+@", "***@", text)


def _refused_parameter(
    error: Mapping[str, Any], text: str, sent: Iterable[str], *, reads_message: bool
) -> str | None:
    """Return which of the `sent` parameters an error refuses, by its "param", a location, else its message; or None."""
    parameter = error.get("param")
    if isinstance(parameter, str) and parameter:
        first = re.split(r"[.\[]", parameter)[0]
        return first if first in sent else None
    located = re.findall(r"\w+", " ".join(_LOCATION.findall(text)))
    if located or not reads_message:
        return next((name for name in sent if name in located), None)
    if "response_format" in text or _NO_GRAMMAR.search(text):
        return "response_format" if "response_format" in sent else None
    if not _REFUSED.search(text):
        return None
    return next((name for name in sent if _names(text, name)), None)


def _names(message: str, parameter: str) -> bool:
    """Return whether a message names a parameter: the name alone may be a word of the prompt that it quotes."""
    name = re.escape(parameter)
    match = re.search(
        rf"[`'\"]{name}[`'\"]"
        rf"|\b(?:parameters?|arguments?|fields?|options?|propert(?:y|ies))\W{{1,3}}{name}\b"
        rf"|\b{name} (?:param|parameter|argument|field|option|is|are|must|should|cannot|does|has|requires)\b"
        rf"|(?:^|[:,] |\bnot support ){name}\b",
        message,
    )
    return match is not None


def _error_of(body: str) -> dict[str, Any]:
    """Return the error object of a body, in whichever of the known places it is; {} where there is none."""
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


def _quoted_headers(error: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that OpenRouter quotes in an error, by their names in small letters."""
    headers = part(part(error, "metadata"), "headers")
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _full_message(error: Mapping[str, Any], body: str) -> str:
    """Return the message of an error; a gateway's, and that of the endpoint behind it."""
    title = _TITLE.search(body) if not error else None
    text = str(error.get("message") or error.get("detail") or (title and title[1]) or body)
    quoted = part(error, "metadata").get("raw")
    return f"{text}: {quoted}" if quoted else text
