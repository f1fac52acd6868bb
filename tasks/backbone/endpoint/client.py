"""Client of OpenAI-compatible endpoints: retries, rate limits and timeouts."""

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tasks.backbone.endpoint.chat import (
    OPENAI_URL,
    Answer,
    GarbledAnswerError,
    RefusedInBodyError,
    answer_of,
    body_of,
    identity_of,
    public_url,
)
from tasks.backbone.endpoint.failures import Refusal, refusal_of, scrub
from tasks.backbone.endpoint.limiter import AdaptiveLimit
from tasks.backbone.pricing import cost, prices_for
from tasks.backbone.protocol import Reply, Request, request_key
from tasks.errors import BackboneError, ConfigurationError
from tasks.records import Call
from tasks.settings.backbone import BackboneSettings

if TYPE_CHECKING:
    from openai import AsyncOpenAI

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 1.0
"""Pause before the first retry; it doubles with each further one, up to the settings' `max_wait_s`."""
LONGEST_RETRY_AFTER_S = 900.0
"""A longer `Retry-After` ends the run, which can be continued later at no cost."""


class OpenAIBackbone:
    """Model behind an OpenAI-compatible endpoint, for one run in one event loop.

    Use it as `async with OpenAIBackbone(settings) as backbone`; it opens its connections on entry. Replies
    are not cached here, see `tasks.backbone.cache.backbone`.

    Rate limits, server errors, timeouts, lost connections and truncated bodies are retried with jittered
    exponential backoff; `Retry-After` and `retry-after-ms` are respected. At most `settings.concurrency` requests
    are in flight, fewer after a 429 (see `AdaptiveLimit`); a request that waits for its retry is not in flight.
    After a fatal failure (bad key, unknown model, exhausted quota) all other requests fail without being sent.
    """

    def __init__(self, settings: BackboneSettings) -> None:
        """Read the key from the environment.

        Raises:
            ConfigurationError: as `api_key`.
        """
        self._settings = settings
        self._key = api_key(settings)
        self._identity = identity_of(settings)
        self._prices = prices_for(settings)
        self._client: AsyncOpenAI | None = None
        self._limit = AdaptiveLimit(settings.concurrency, settings.name)
        self._over: BackboneError | None = None
        self._stop = asyncio.Event()

    @property
    def identity(self) -> Mapping[str, Any]:
        """Model, endpoint and sampling, without secrets."""
        return self._identity

    async def __aenter__(self) -> Self:
        from openai import DEFAULT_CONNECTION_LIMITS, AsyncOpenAI, DefaultAsyncHttpxClient

        # The default keeps at most 100 connections open; beyond that, each request would open its own.
        limits = type(DEFAULT_CONNECTION_LIMITS)(max_keepalive_connections=self._settings.concurrency)
        # Pass base_url always, so that OPENAI_BASE_URL cannot differ from the recorded endpoint.
        self._client = AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self._settings.base_url or OPENAI_URL,
            timeout=self._settings.timeout_s,
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(limits=limits),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. Requests in flight fail."""
        self.wind_down()
        if self._client is not None:
            await self._client.close()
            self._client = None

    def wind_down(self) -> None:
        """Send no further requests: those in flight may finish, those that wait fail."""
        if self._over is None:
            closing = self._message("it is closing, no further request is sent.")
            self._end(BackboneError(closing, transient=True))

    async def complete(self, request: Request) -> Reply:
        """Answer one request, with the retries that the settings allow.

        Raises:
            BackboneError: every attempt failed; `fatal` if every other request would fail too.
        """
        loop = asyncio.get_running_loop()
        body = body_of(request, self._settings)
        key = request_key(self._identity, request)
        sent_at: float | None = None
        attempt = 0
        while True:
            async with self._limit.slot(ahead=attempt > 0) as granted_at:
                self._raise_if_over()
                sent_at = granted_at if sent_at is None else sent_at
                try:
                    async with asyncio.timeout(self._settings.timeout_s):
                        outcome = self._answer_of(await self._post(body))
                except Exception as error:
                    outcome = self._refusal_of(error)
                if isinstance(outcome, Answer):
                    self._limit.succeeded()
                    return self._reply(outcome, key, loop.time() - sent_at, attempt)
                if outcome.kind == "rate_limit":
                    self._limit.rate_limited(granted_at, self._bearable(outcome))
            self._raise_unless_worth_repeating(outcome, attempt)
            pause = self._pause(outcome, attempt)
            attempt += 1
            log.info("%s: %s; attempt %d in %.1f s", self._settings.name, outcome.message, attempt + 1, pause)
            await self._sleep(pause)

    def _post(self, body: Mapping[str, Any]) -> Awaitable[str]:
        assert self._client is not None, "used outside of `async with`"
        # `post`, because the typed method spends a quarter of its time on validation that is not needed here.
        return self._client.post("/chat/completions", cast_to=str, body=body)

    def _answer_of(self, text: str) -> Answer | Refusal:
        try:
            return answer_of(text)
        except RefusedInBodyError as error:
            return self._refusal(error.status, {}, text)

    def _refusal_of(self, error: Exception) -> Refusal:
        """Classify an error of the endpoint or the network; raise any other error again."""
        import openai

        match error:
            case GarbledAnswerError():
                hint = "If every answer is like that, check base_url: it usually ends in /v1."
                return Refusal("garbled", self._clean(str(error)), hint)
            case TimeoutError() | openai.APITimeoutError():
                message = f"no reply within {self._settings.timeout_s:g} s"
                return Refusal("timeout", message, "Raise timeout_s if that is usual.")
            case openai.APIStatusError():
                return self._refusal(error.status_code, error.response.headers, error.response.text)
            case openai.APIConnectionError():
                reason = self._clean(str(error.__cause__ or error)) or type(error.__cause__).__name__
                message = f"connection failed ({reason})"
                return Refusal("connection", message, "Is the endpoint up, and base_url right?")
        raise error

    def _refusal(self, status: int, headers: Mapping[str, str], text: str) -> Refusal:
        return refusal_of(status, headers, self._clean(text), self._settings.api_key_env)

    def _reply(self, answer: Answer, key: str, seconds: float, retries: int) -> Reply:
        call = Call(
            request=key,
            model=answer.model or self._settings.model,
            usage=answer.usage,
            cached=False,
            seconds=seconds,
            retries=retries,
            cost_usd=cost(answer.usage, self._prices),
        )
        log.debug("%s: replied after %.2f s, %d retries", self._settings.name, seconds, retries)
        return Reply(answer.text, call, answer.truncated)

    def _raise_unless_worth_repeating(self, refusal: Refusal, attempt: int) -> None:
        self._raise_if_over()
        if refusal.fatal:
            kept = "Everything answered so far is kept: run the same command again once that is fixed."
            self._end(self._error(refusal, f"{refusal.advice} {kept}", fatal=True))
        elif refusal.retry_after_s is not None and refusal.retry_after_s > LONGEST_RETRY_AFTER_S:
            minutes = f"{refusal.retry_after_s / 60:.0f}"
            wait = f"It asks to wait {minutes} minutes: run the same command again then."
            self._end(self._error(refusal, wait, fatal=True))
        elif refusal.transient and attempt < self._settings.retries:
            return
        elif refusal.transient:
            tried = f"Given up after {attempt + 1} attempts; run the same command again later."
            raise self._error(refusal, f"{tried} {refusal.advice}".strip())
        else:
            raise self._error(refusal, refusal.advice)
        self._raise_if_over()

    def _error(self, refusal: Refusal, advice: str, *, fatal: bool = False) -> BackboneError:
        message = self._clean(refusal.message).rstrip(".")
        return BackboneError(self._message(f"{message}. {advice}"), transient=refusal.transient, fatal=fatal)

    def _message(self, text: str) -> str:
        endpoint = public_url(self._settings.base_url or OPENAI_URL)
        return f'Backbone "{self._settings.name}" ({self._settings.model} at {endpoint}): {text}'

    def _end(self, error: BackboneError) -> None:
        self._over = error
        self._stop.set()
        self._limit.open_up()

    def _raise_if_over(self) -> None:
        if self._over is not None:
            # A new exception each time: one instance raised in many tasks would collect all their tracebacks.
            raise BackboneError(str(self._over), transient=self._over.transient, fatal=self._over.fatal)

    def _pause(self, refusal: Refusal, attempt: int) -> float:
        jitter = random.uniform(0.5, 1.0)
        pause = min(self._settings.max_wait_s, FIRST_PAUSE_S * 2.0**attempt) * jitter
        return pause if refusal.retry_after_s is None else max(refusal.retry_after_s, 0.0)

    def _bearable(self, refusal: Refusal) -> float | None:
        wait = refusal.retry_after_s
        return wait if wait is not None and wait <= LONGEST_RETRY_AFTER_S else None

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return

    def _clean(self, text: str) -> str:
        return scrub(text, self._key)


def api_key(settings: BackboneSettings) -> str | None:
    """Return the key from the environment; None where the endpoint needs none.

    Raises:
        ConfigurationError: the variable is not set, or empty; or the base_url holds a password or a query,
            which would end up in logs.
    """
    if settings.base_url and public_url(settings.base_url) != settings.base_url.rstrip("/"):
        raise ConfigurationError(
            f'Backbone "{settings.name}": base_url must hold no user, password or query. Put the key into an '
            "environment variable, and its name into api_key_env."
        )
    name = settings.api_key_env
    if name is None:
        return None
    key = os.environ.get(name, "").strip()
    if not key:
        raise ConfigurationError(
            f'Backbone "{settings.name}" needs an API key in the environment variable {name}, which is not '
            f"set. Set it (export {name}=...), or choose a backbone that needs none: --backbone offline."
        )
    return key
