"""Client of OpenAI-compatible endpoints: retries, rate limits and timeouts."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tasks.backbone.endpoint.chat import (
    OPENAI_URL,
    Answer,
    GarbledAnswerError,
    RefusedInBodyError,
    answer_of,
    body_of,
    changes_of,
    identity_of,
    public_url,
)
from tasks.backbone.endpoint.deadline import deadline
from tasks.backbone.endpoint.failures import Refusal, refusal_of, scrub
from tasks.backbone.endpoint.limiter import AdaptiveLimit
from tasks.backbone.endpoint.redirects import Target
from tasks.backbone.endpoint.retry_policy import CONNECT_S, KEPT, LONGEST_RETRY_AFTER_S, RetryPolicy
from tasks.backbone.endpoint.silence import SilenceWatch
from tasks.backbone.pricing import cost, prices_for
from tasks.backbone.protocol import Reply, Request, request_key
from tasks.errors import BackboneError, ConfigurationError
from tasks.records import Call
from tasks.settings.backbone import BackboneSettings

if TYPE_CHECKING:
    from openai import AsyncOpenAI

log = logging.getLogger(__name__)

_UP = "Is the endpoint up, and backbone.base_url right?"


class OpenAIBackbone:
    """Model behind an OpenAI-compatible endpoint, for one run in one event loop.

    Use it as `async with OpenAIBackbone(settings) as backbone`; it opens its connections on entry. Replies
    are not cached here, see `tasks.backbone.cache.backbone`.

    Rate limits, server errors, timeouts, lost connections and truncated bodies are retried with jittered
    exponential backoff; `Retry-After` and `retry-after-ms` are respected. At most `settings.concurrency` requests
    are in flight, fewer after a 429 (see `AdaptiveLimit`); a request that waits for its retry is not in flight.
    After a fatal failure (bad key, unknown model, exhausted quota, an endpoint that never answers) all other requests
    fail without being sent. Nothing else retries (see `RetryPolicy`).
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
        self._retry_policy = RetryPolicy(settings)
        self._target = Target(f"{(settings.base_url or OPENAI_URL).rstrip('/')}/chat/completions")
        self._over: BackboneError | None = None
        self._stop = asyncio.Event()
        self._silence = SilenceWatch(self._probe, self._silent)

    @property
    def identity(self) -> Mapping[str, Any]:
        """Model, endpoint and sampling, without secrets."""
        return self._identity

    async def __aenter__(self) -> Self:
        from openai import DEFAULT_CONNECTION_LIMITS, AsyncOpenAI, DefaultAioHttpClient, Timeout

        # The default keeps at most 100 connections open; beyond that, each request would open its own. One more than
        # requests, for the probe of `silence`.
        most = self._settings.concurrency + 1
        limits = type(DEFAULT_CONNECTION_LIMITS)(max_connections=most, max_keepalive_connections=most)
        # Pass base_url always, so that OPENAI_BASE_URL cannot differ from the recorded endpoint.
        self._client = AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self._settings.base_url or OPENAI_URL,
            timeout=Timeout(self._settings.timeout_s, connect=min(self._settings.timeout_s, CONNECT_S)),
            max_retries=0,
            # aiohttp takes half the processor time of the SDK's default transport.
            http_client=DefaultAioHttpClient(limits=limits, follow_redirects=False),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. Requests in flight fail."""
        self.wind_down()
        self._silence.close()
        if self._client is not None:
            await self._client.close()
            self._client = None

    def wind_down(self) -> None:
        """Send no further requests: those in flight may finish, those that wait fail."""
        if self._over is None:
            closing = self._message("it is closing, no further request is sent.")
            self._end(BackboneError(closing, transient=True, retried=True))

    async def complete(self, request: Request) -> Reply:
        """Answer one request, with the retries that the settings allow.

        Raises:
            BackboneError: every attempt failed; `fatal` if every other request would fail too.
        """
        loop = asyncio.get_running_loop()
        body = body_of(request, self._settings)
        key = request_key(self._identity, request)
        sent_at: float | None = None
        requests, target = 0, self._target
        while True:
            async with self._limit.slot(ahead=requests > 0) as granted_at:
                self._raise_if_over()
                sent_at = granted_at if sent_at is None else sent_at
                requests += 1
                self._retry_policy.sent(loop.time())
                outcome: Answer | Refusal
                try:
                    async with deadline(self._settings.timeout_s) as limit:
                        with self._silence.request(limit):
                            outcome = self._answer_of(await self._send(target, body))
                except Exception as error:
                    outcome = self._refusal_of(error, target)
                if self._retry_policy.record(outcome if isinstance(outcome, Refusal) else None):
                    self._silence.answered()
                if isinstance(outcome, Answer):
                    self._limit.succeeded()
                    return self._reply(outcome, key, loop.time() - sent_at, requests - 1)
                if outcome.kind == "rate_limit":
                    self._limit.rate_limited(granted_at, self._bearable(outcome))
            pause = self._pause_or_raise(outcome, requests)
            target = outcome.target or self._target
            log.info(
                "%s: %s; attempt %d in %.1f s", self._settings.name, outcome.message, requests + 1, pause
            )
            await self._sleep(pause)

    def _send(self, target: Target, body: Mapping[str, Any]) -> Awaitable[str]:
        assert self._client is not None, "used outside of `async with`"
        # Untyped, because the typed method spends a quarter of its time on validation that is not needed here.
        if target.method == "get":
            return self._client.get(target.url, cast_to=str)
        return self._client.post(target.url, cast_to=str, body=body)

    def _probe(self) -> Awaitable[str]:
        return self._send(Target(f"{(self._settings.base_url or OPENAI_URL).rstrip('/')}/models", "get"), {})

    def _silent(self, seconds: float) -> None:
        said = f"it takes connections, but has answered nothing in {seconds:.0f} s, not even GET /models. {_UP} {KEPT}"
        self._end(BackboneError(self._message(said), transient=True, fatal=True, retried=True))

    def _answer_of(self, text: str) -> Answer | Refusal:
        try:
            return answer_of(text)
        except RefusedInBodyError as error:
            return self._refusal(error.status, {}, error.body)

    def _refusal_of(self, error: Exception, target: Target) -> Refusal:
        """Classify an error of the endpoint or the network; raise any other error again."""
        import aiohttp
        import openai

        match error:
            case GarbledAnswerError():
                hint = "If every answer is like that, check base_url: it usually ends in /v1."
                return Refusal("garbled", self._clean(str(error)), hint)
            case openai.APITimeoutError() if (
                _is_timeout(error) and "Connect" in type(error.__cause__).__name__
            ):
                seconds = min(self._settings.timeout_s, CONNECT_S)
                return Refusal("connection", f"no connection within {seconds:g} s", _UP)
            case TimeoutError() | openai.APITimeoutError() if _is_timeout(error):
                message = f"no reply within {self._settings.timeout_s:g} s"
                return Refusal("timeout", message, "Raise backbone.timeout_s if that is usual.")
            case openai.APIStatusError():
                status, headers = error.status_code, error.response.headers
                refusal = self._refusal(status, headers, error.response.text)
                if refusal.kind != "redirect":
                    return refusal
                further = target.redirected(status, headers.get("location"))
                return replace(refusal, target=further) if further else replace(refusal, kind="access")
            case openai.APIConnectionError():
                reason = self._clean(str(error.__cause__ or error)) or type(error.__cause__).__name__
                message = f"connection failed ({reason})"
                return Refusal("connection", message, _UP)
            case aiohttp.ClientError():  # the SDK's transport passes some on, e.g. of an answer that is no HTTP
                return Refusal(
                    "garbled", f"the answer is no HTTP ({self._clean(' '.join(str(error).split()))[:200]})"
                )
        raise error

    def _refusal(self, status: int, headers: Mapping[str, str], text: str) -> Refusal:
        changes = changes_of(self._settings)
        return refusal_of(status, headers, self._clean(text), self._settings.api_key_env, changes)

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

    def _pause_or_raise(self, refusal: Refusal, requests: int) -> float:
        """Return the seconds until the next request; raise where there is none."""
        self._raise_if_over()
        decision = self._retry_policy.decide(refusal, requests, asyncio.get_running_loop().time())
        if decision.pause_s is not None:
            return decision.pause_s
        message = self._message(f"{self._clean(refusal.message).rstrip('.')}. {decision.advice}")
        error = BackboneError(message, transient=refusal.transient, fatal=decision.fatal, retried=True)
        if decision.fatal:
            self._end(error)
        raise error

    def _message(self, text: str) -> str:
        endpoint = public_url(self._settings.base_url or OPENAI_URL)
        return f'Backbone "{self._settings.name}" ({self._settings.model} at {endpoint}): {text}'

    def _end(self, error: BackboneError) -> None:
        self._over = self._over or error
        self._stop.set()
        self._limit.open_up()

    def _raise_if_over(self) -> None:
        if self._over is not None:
            # A new exception each time: one instance raised in many tasks would collect all their tracebacks.
            over = self._over
            raise BackboneError(str(over), transient=over.transient, fatal=over.fatal, retried=True)

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
        ConfigurationError: the variable is not set, empty, or no key; or the base_url holds a password or a query,
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
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(
            f'Backbone "{settings.name}" needs an API key in the environment variable {name}, and what it holds has a '
            "character that no key has, such as a curly quotation mark or a line break. Set it again, without quotes."
        )
    return key


def _is_timeout(error: BaseException) -> bool:
    """Return whether a timeout is behind an error: the aiohttp transport reports lost connections as timeouts, too."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TimeoutError):
            return True
        cause = cause.__cause__
    return False
