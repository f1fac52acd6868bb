"""Decision after each failed request: another one, and after which pause, or none."""

import random
from dataclasses import dataclass

from tasks.backbone.endpoint.failures import Refusal
from tasks.core.outcome import STANDARD
from tasks.core.wording import counted, duration
from tasks.settings.backbone import BackboneSettings

FIRST_PAUSE_S = 1.0
"""Pause before the first retry; it doubles with each further one, up to the settings' `max_wait_s`."""
MAX_RETRY_AFTER_S = 900.0
"""A longer `Retry-After` ends the run, which can be continued later at no cost."""
CONNECT_S = 10.0
"""Timeout of one connection."""
UNREACHABLE_S = 20.0
"""An endpoint that could not be reached for as long as this since the first request, and never before, ends the run.
With the timeout of the last connection that is 30 seconds. One that accepts connections is probed first (`Probe`)."""
PROMPTS_OF_EVIDENCE = 3
"""Once a request has been answered, this many prompts must be refused for the same reason, with no answer to a later
request, before the run ends. One refusal then concerns its prompt."""
GARBLED_REQUESTS = 3
"""Answers in a row that cannot be read for the same reason, before any that can, after which the run ends."""
SILENT_REQUESTS = 2
"""An endpoint that accepts connections ends the run after this many timeouts of one call, if it never answered any."""

KEPT = "Everything answered so far is kept: run the same command again once that is fixed."


def longest_call_s(settings: BackboneSettings, *, asked_to_wait: bool) -> float:
    """Return the seconds after which a call has ended at the latest, without its wait for a slot (`AdaptiveLimit`).

    The time of a request counts from the last answer to a request that was sent before it (`limiter.Queue`).
    """
    least_pause_s = MAX_RETRY_AFTER_S if asked_to_wait else 0.0
    usual_pauses_s = [min(settings.max_wait_s, FIRST_PAUSE_S * 2.0**n) for n in range(settings.retries)]
    pauses_s = sum(max(least_pause_s, pause_s) for pause_s in usual_pauses_s)
    capacity_wait_s = 0.0 if settings.tier == STANDARD else settings.flex_wait_s
    return (settings.retries + 1) * settings.timeout_s + pauses_s + capacity_wait_s


def longest_call(settings: BackboneSettings) -> str:
    """Return a sentence on how long a call can take."""
    usual, asked = (longest_call_s(settings, asked_to_wait=asked) for asked in (False, True))
    return (
        f"A model call is at most {counted(settings.retries + 1, 'request')} and ends within {duration(usual)}, "
        f"{duration(asked)} if the endpoint asks to wait each time."
    )


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """What follows a failed request."""

    pause_s: float | None = None  # seconds until the next request of the call; None: there is none
    advice: str = ""  # what the user can do; only without another request
    fatal: bool = False  # whether the run ends


class RetryPolicy:
    """The owner of retries: it decides for all calls of a client, each of at most `retries` + 1 requests."""

    def __init__(self, settings: BackboneSettings) -> None:
        self._retries = settings.retries
        self._max_wait_s = settings.max_wait_s
        # when the first request was sent, by the loop's clock; None before it
        self._began: float | None = None
        self._answered = False  # whether a request had any answer, a refusal included
        self._worked = False  # whether a request had an answer that is no refusal
        self._garbled: list[str] = []  # equal reasons: why the last answers could not be read
        self._refused: dict[str, set[str]] = {}  # prompts by the kind of their refusal
        self._refused_at = 0.0  # when the last of them came, by the loop's clock

    def sent(self, now: float) -> None:
        """Note that a request is being sent, at a time of the loop's clock."""
        self._began = now if self._began is None else self._began

    def answered(self, sent_at: float) -> None:
        """Record an answer to a request that was sent at a time of the loop's clock."""
        self._answered = self._worked = True
        if sent_at > self._refused_at:
            self._refused.clear()

    def decide(self, refusal: Refusal, prompt: str, requests: int, now: float) -> RetryDecision:
        """Record a refused request; return whether and when the call sends another one, and whether the run ends.

        `prompt` is the key of the request, `requests` how many the call has sent, `now` a time of the loop's clock.
        """
        is_answer = refusal.kind not in ("connection", "timeout")
        self._answered = self._answered or is_answer
        is_garbled = refusal.kind == "garbled"
        if not is_garbled or refusal.message not in self._garbled:
            self._garbled.clear()
        if is_garbled:
            self._garbled.append(refusal.message)
        if refusal.fatal:
            self._refused.setdefault(refusal.kind, set()).add(prompt)
            self._refused_at = now
            # Once a request was answered, a refusal may concern its prompt alone: only several end the run.
            ends_run = not self._worked or len(self._refused[refusal.kind]) >= PROMPTS_OF_EVIDENCE
            advice = _sentences(refusal.advice, KEPT) if ends_run else refusal.advice
            return RetryDecision(advice=advice, fatal=ends_run)
        if not self._worked and len(self._garbled) >= GARBLED_REQUESTS:
            reason = f"{counted(len(self._garbled), 'answer')} in a row could not be read, and none before."
            return RetryDecision(advice=_sentences(reason, refusal.advice, KEPT), fatal=True)
        if refusal.retry_after_s is not None and refusal.retry_after_s > MAX_RETRY_AFTER_S:
            wait = counted(round(refusal.retry_after_s / 60), "minute")
            advice = f"It asks to wait {wait}: run the same command again then."
            return RetryDecision(advice=advice, fatal=True)
        if not refusal.transient:
            return RetryDecision(advice=refusal.advice)
        was_last_try = requests > self._retries
        if not self._answered:
            silent_s = 0.0 if self._began is None else now - self._began
            given_up = was_last_try and requests > 1  # one lost connection says little of the endpoint
            unreachable = refusal.kind == "connection" and (given_up or silent_s >= UNREACHABLE_S)
            if unreachable or (refusal.kind == "timeout" and requests >= SILENT_REQUESTS):
                reason = f"It has not answered one request in {silent_s:.0f} s."
                return RetryDecision(advice=_sentences(reason, refusal.advice, KEPT), fatal=True)
        if was_last_try:
            reason = f"Given up after {counted(requests, 'attempt')}; run the same command again later."
            return RetryDecision(advice=_sentences(reason, refusal.advice))
        return RetryDecision(self._pause(refusal, requests, now))

    def _pause(self, refusal: Refusal, requests: int, now: float) -> float:
        """Return the seconds to wait before a retry: they grow with each attempt, and respect Retry-After."""
        jitter = random.uniform(0.5, 1.0)
        pause = min(self._max_wait_s, FIRST_PAUSE_S * 2.0 ** (requests - 1)) * jitter
        if refusal.retry_after_s is not None:
            # After a second refusal the wait that the endpoint asks for may be too short, such as milliseconds.
            return refusal.retry_after_s if requests == 1 else max(refusal.retry_after_s, pause)
        if self._answered or self._began is None or refusal.kind != "connection":
            return pause
        # No connection yet: try again at the latest when the endpoint begins to count as unreachable.
        return min(pause, max(self._began + UNREACHABLE_S - now, 0.0))


def _sentences(*parts: str) -> str:
    return " ".join(part for part in parts if part)
