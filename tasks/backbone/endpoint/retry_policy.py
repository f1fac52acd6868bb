"""Decision after each failed request: another one, and after which pause, or none."""

import random
from dataclasses import dataclass

from tasks.backbone.endpoint.failures import Refusal
from tasks.core.outcome import STANDARD
from tasks.core.wording import counted, duration
from tasks.settings.backbone import BackboneSettings

FIRST_PAUSE_S = 1.0
"""Pause before the first retry; it doubles with each further one, up to the settings' `max_wait_s`."""
LONGEST_RETRY_AFTER_S = 900.0
"""A longer `Retry-After` ends the run, which can be continued later at no cost."""
CONNECT_S = 10.0
"""Timeout of one connection."""
UNREACHABLE_S = 20.0
"""An endpoint that could not be reached for as long as this since the first request, and never before, ends the run.
With the timeout of the last connection that is 30 seconds. One that accepts connections is probed first (`probe`)."""
SILENT_REQUESTS = 2
"""An endpoint that accepts connections ends the run after this many timeouts of one call, if it never answered any."""

KEPT = "Everything answered so far is kept: run the same command again once that is fixed."


def longest_call_s(settings: BackboneSettings, *, asked_to_wait: bool) -> float:
    """Return the seconds after which a call has ended, whatever the endpoint does; its turn is not waited for.

    The time of a request counts from the last answer to a request that was sent before it (`limiter.Queue`).

    `asked_to_wait`: the endpoint asks for the longest accepted pause after each request.
    """
    asked = LONGEST_RETRY_AFTER_S if asked_to_wait else 0.0
    pauses = (max(asked, min(settings.max_wait_s, FIRST_PAUSE_S * 2.0**n)) for n in range(settings.retries))
    waits = 0.0 if settings.tier == STANDARD else settings.flex_wait_s
    return (settings.retries + 1) * settings.timeout_s + sum(pauses) + waits


def longest_call(settings: BackboneSettings) -> str:
    """Return a sentence on how long a call can take."""
    usual, asked = (longest_call_s(settings, asked_to_wait=asked) for asked in (False, True))
    return (
        f"A model call is at most {counted(settings.retries + 1, 'request')} and ends within {duration(usual)}, "
        f"{duration(asked)} if the endpoint asks to wait each time."
    )


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows a failed request."""

    pause_s: float | None  # seconds until the next request of the call; None: there is none
    advice: str = ""  # what the user can do; only without another request
    fatal: bool = False  # whether the run ends


class RetryPolicy:
    """The one owner of retries: it decides for all calls of a backbone's client.

    A call is at most `retries` + 1 requests, redirects included.
    """

    def __init__(self, settings: BackboneSettings) -> None:
        self._retries = settings.retries
        self._max_wait_s = settings.max_wait_s
        self._began: float | None = None
        self._answered = False

    def sent(self, now: float) -> None:
        """Note that a request is being sent, at a time of the loop's clock."""
        self._began = now if self._began is None else self._began

    def record(self, refusal: Refusal | None) -> None:
        """Record how a request ended (None: with an answer)."""
        self._answered = self._answered or refusal is None or refusal.kind not in ("connection", "timeout")

    def decide(self, refusal: Refusal, requests: int, now: float) -> Decision:
        """Return what follows a failed request of a call that has sent so many, at a time of the loop's clock."""
        if refusal.fatal:
            return Decision(None, f"{refusal.advice} {KEPT}", fatal=True)
        if refusal.retry_after_s is not None and refusal.retry_after_s > LONGEST_RETRY_AFTER_S:
            minutes = f"{refusal.retry_after_s / 60:.0f}"
            return Decision(
                None, f"It asks to wait {minutes} minutes: run the same command again then.", fatal=True
            )
        if not refusal.transient:
            return Decision(None, refusal.advice)
        over = requests > self._retries
        if not self._answered:
            silent_s = now - (now if self._began is None else self._began)
            given_up = over and requests > 1  # one lost connection says little of the endpoint
            unreachable = refusal.kind == "connection" and (given_up or silent_s >= UNREACHABLE_S)
            if unreachable or (refusal.kind == "timeout" and requests >= SILENT_REQUESTS):
                never = f"It has not answered one request in {silent_s:.0f} s."
                return Decision(None, f"{never} {refusal.advice} {KEPT}", fatal=True)
        if over and refusal.kind == "redirect":
            return Decision(None, f"It redirects without end. {refusal.advice} {KEPT}", fatal=True)
        if over:
            tried = f"Given up after {counted(requests, 'attempt')}; run the same command again later."
            return Decision(None, f"{tried} {refusal.advice}".strip())
        return Decision(self._pause(refusal, requests, now))

    def _pause(self, refusal: Refusal, requests: int, now: float) -> float:
        if refusal.kind == "redirect":
            return 0.0
        jitter = random.uniform(0.5, 1.0)
        pause = min(self._max_wait_s, FIRST_PAUSE_S * 2.0 ** (requests - 1)) * jitter
        if refusal.retry_after_s is not None:
            # Refused again, it has asked for too little: nothing, or milliseconds, while others take the quota.
            return refusal.retry_after_s if requests == 1 else max(refusal.retry_after_s, pause)
        if self._answered or self._began is None or refusal.kind != "connection":
            return pause
        return min(pause, max(self._began + UNREACHABLE_S - now, 0.0))
