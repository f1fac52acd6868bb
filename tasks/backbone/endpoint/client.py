"""Client of endpoints: retries, rate limits and timeouts, whatever the protocol."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from tasks.backbone.endpoint import connection
from tasks.backbone.endpoint.access import Access
from tasks.backbone.endpoint.chat import CHAT
from tasks.backbone.endpoint.connection import Connections, HttpAnswer, TooLongAnswerError, Upload, answer_in
from tasks.backbone.endpoint.failures import (
    REACHED_LIMIT,
    Refusal,
    failed_generation,
    lacks_capacity,
    refusal_of,
)
from tasks.backbone.endpoint.limiter import PROBE_S, AdaptiveLimit, Pilot, Probe, Queue, SilentError
from tasks.backbone.endpoint.messages import MESSAGES
from tasks.backbone.endpoint.responses import RESPONSES
from tasks.backbone.endpoint.retry_policy import CONNECT_S, KEPT, RetryPolicy
from tasks.backbone.endpoint.wire import (
    GarbledAnswerError,
    RefusedInBodyError,
    WireFormat,
    bill_of,
    identity_of,
    public_url,
    with_shares,
)
from tasks.backbone.pricing import priced
from tasks.backbone.protocol import Reply, Request, request_digest, request_key
from tasks.backbone.tiers import FLEX, FlexWait, Pace, is_set_within
from tasks.core.deadline import deadline
from tasks.core.errors import BackboneError
from tasks.core.outcome import STANDARD, Usage
from tasks.core.wording import storable
from tasks.settings.backbone import BackboneSettings

UP = "Is the endpoint up, and backbone.base_url right?"
_FORMATS = {"openai-responses": RESPONSES, "anthropic": MESSAGES}


def format_of(settings: BackboneSettings) -> WireFormat:
    """Return the wire format of a kind of backbones; of every other kind that has an endpoint, OpenAI's chat."""
    return _FORMATS.get(settings.kind, CHAT)


def loss_of(error: Exception, clean: Callable[[str], str], timeout_s: float) -> Refusal:
    """Return the refusal that stands for an error of the network; raise any other error again.

    `clean` removes the secrets from its message. The HTTP client reports a lost connection as a timeout: what counts is
    the error of aiohttp, or of the system, that caused it.
    """
    import aiohttp
    import httpx2

    cause: BaseException | None = error
    if isinstance(error, httpx2.HTTPError):
        while cause is not None and not isinstance(cause, aiohttp.ClientError | OSError):
            cause = cause.__cause__
        cause = cause or aiohttp.ClientConnectionError(str(error.__cause__ or error))
    message = clean(" ".join(str(cause).split()))[:200] or type(cause).__name__
    match cause:
        case TooLongAnswerError():
            return Refusal("request", message, "Set backbone.max_tokens to limit replies.")
        case aiohttp.ConnectionTimeoutError():
            return Refusal("connection", f"no connection within {min(timeout_s, CONNECT_S):g} s", UP)
        case TimeoutError():
            message = f"no reply within {timeout_s:g} s"
            return Refusal("timeout", message, "Raise backbone.timeout_s if that is usual.")
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            return Refusal("connection", f"nothing listens at {cause.host}:{cause.port}", UP)
        case aiohttp.ClientPayloadError():
            return Refusal("garbled", f"the answer is cut off or damaged ({message})")
        case aiohttp.ClientResponseError():
            return Refusal("garbled", f"the answer is not HTTP ({message})")
        case aiohttp.ClientError() | OSError():
            return Refusal("connection", f"connection failed ({message})", UP)
    raise error


log = logging.getLogger(__name__)

WINDOW_S = 0.02
"""Seconds that the first of a request's samples waits for others."""


@dataclass(eq=False)
class _Group:
    """Samples of one request that are sent together."""

    requests: list[Request] = field(default_factory=list)
    is_full: asyncio.Event = field(default_factory=asyncio.Event)
    sending: "asyncio.Task[None] | None" = None
    replies: Sequence[Reply] = ()  # once they are there, fewer than requests if the endpoint leaves some out


@dataclass
class _Call:
    """A call of the model, which sends one request or several."""

    samples: Sequence[Request]  # of one request, the first of which is sent
    request: Request  # as it is sent next, in its tier
    flex: FlexWait | None  # its wait for capacity; None in any other tier
    requests: int = 0  # that were sent
    granted_at: float = 0.0  # loop time at which the last one got its slot
    sent_at: float = 0.0  # loop time at which the first one was sent; 0.0: none was


class EndpointBackbone:
    """Model behind an endpoint, for one run in one event loop; the settings' kind is its protocol.

    Use it as `async with EndpointBackbone(settings) as backbone`; it closes its connections at the end. `RetryPolicy`
    decides what is retried, and after which failures all other requests fail without being sent; nothing else retries.
    At most `settings.concurrency` requests are in flight, fewer after a 429 (`AdaptiveLimit`), without those that wait
    for their retry. In the tier "flex", a request waits for capacity (`FlexWait`), which counts as retries, too.
    """

    def __init__(self, settings: BackboneSettings) -> None:
        """Read the key and the headers from the environment."""
        self.pace = Pace(None)  # whether the run is late, which ends the waits of the tier "flex"
        self.report: Callable[[str], object] = bool  # shows what the run waits for; `bool` nothing
        self._reported: set[str] = set()  # kinds of refusals after which requests are repeated
        self._settings = settings
        self._format = format_of(settings)
        self._access = Access.of(settings)
        self.identity: Mapping[str, Any] = identity_of(settings)
        self._limit = AdaptiveLimit(settings.concurrency, settings.name)
        self._retry_policy = RetryPolicy(settings)
        self._over: BackboneError | None = None  # the error of every further request; None: requests are sent
        self._stop = asyncio.Event()  # set with `_over`: calls that pause before a retry go on, and fail
        self._probe = Probe(self._access.base.netloc, self._ask_for_models, settings.timeout_s)
        self._pilot = Pilot()  # sends single requests until the first answer
        self._queue = Queue(settings.timeout_s)  # limits the time of each request
        self._max_samples = settings.samples_per_request
        self._groups: dict[str, _Group] = {}  # samples that wait to be sent together, by their request

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections. Requests in flight fail."""
        self.wind_down()
        self._probe.close()
        if "_connections" in vars(self):
            await self._connections.close()

    @cached_property
    def _connections(self) -> Connections:
        """Connections, opened for the first request: an evaluation that is restored imports no provider's client."""
        connect_s = min(self._settings.timeout_s, CONNECT_S)
        # One more than requests, for the probe.
        return Connections(self._access, self._settings.concurrency + 1, connect_s, self._format.sdk)

    def wind_down(self) -> None:
        """Send no further requests: those in flight may finish, those that wait fail."""
        if self._over is None:
            closing = self.message("it is closing, no further request is sent.")
            self._end(BackboneError(closing, transient=True, retried=True))

    async def complete(self, request: Request, group: _Group | None = None) -> Reply:
        """Answer one request, with the retries that the settings allow.

        With a `group` of samples, `request` is the first of them: all are sent together, with the parameter `n` and the
        seed of the first, and the group gets their replies. None: the request joins a group if the settings allow it.
        """
        if group is None and self._max_samples > 1:
            return await self._complete_in_group(request)
        samples = group.requests if group else [request]
        flex = FlexWait(self._settings.flex_wait_s, self.pace) if self._settings.tier == FLEX else None
        call = _Call(samples, request, flex)
        while True:
            call.request = replace(request, tier=flex.tier) if flex else request
            body = self._format.body(call.request, self._settings)
            if len(samples) > 1:
                body["n"] = len(samples)
            async with self._limit.slot(ahead=call.requests > 0) as call.granted_at:
                try:
                    async with (
                        self._turn(call),
                        self._queue.turn(),
                        await self._connections.post(self._format.path, body) as response,
                    ):
                        answer = await answer_in(response, connection.MAX_BYTES)
                    replies = self._replied(call, self.read(answer))
                    if group:
                        group.replies = replies
                    return replies[0]
                except Exception as error:
                    refusal = self._refusal_of(error)
                    pause = self._pause_or_raise(call, refusal)
            log.info(
                "%s: %s; attempt %d in %.1f s", self._settings.name, refusal.message, call.requests + 1, pause
            )
            await is_set_within(pause, self._stop)  # the pause, unless the run ends before

    async def _complete_in_group(self, request: Request) -> Reply:
        """Answer one of the samples that are sent together; one that the endpoint leaves out is sent by itself."""
        key = request_digest(replace(request, sample=0))  # the same for all samples of a request
        group = self._groups.setdefault(key, _Group())
        index = len(group.requests)
        group.requests.append(request)
        if group.sending is None:
            group.sending = asyncio.create_task(self._send(key, group))
        if len(group.requests) == self._max_samples:
            del self._groups[key]
            group.is_full.set()
        await asyncio.shield(group.sending)  # if this sample is cancelled, the others are sent nevertheless
        if index < len(group.replies):
            return group.replies[index]
        return await self.complete(request, _Group([request]))

    async def _send(self, key: str, group: _Group) -> None:
        """Send the samples that are requested within a moment; an endpoint that answers one only gets no more `n`."""
        if not await is_set_within(WINDOW_S, group.is_full) and self._groups.get(key) is group:
            del self._groups[key]
        await self.complete(group.requests[0], group)
        if len(group.replies) == 1 < len(group.requests) and self._max_samples > 1:
            log.info("the endpoint ignores n: each sample is requested by itself")
            self._max_samples = 1

    @asynccontextmanager
    async def _turn(self, call: _Call) -> AsyncIterator[None]:
        """Wait until a request may be sent: not before GET /models and one single request (`Pilot`) were answered."""
        self._raise_if_over()
        call.requests += 1
        loop = asyncio.get_running_loop()
        self._retry_policy.sent(loop.time())
        await self._require_responsive()
        async with self._pilot.turn():
            self._raise_if_over()
            call.sent_at = call.sent_at or loop.time()  # of the call's first request
            yield

    def _replied(self, call: _Call, replies: Sequence[Reply]) -> list[Reply]:
        """Record that a call was answered; return a reply for each of its samples, with its share of the cost."""
        self._retry_policy.answered(call.sent_at)
        self._limit.succeeded()
        self._pilot.answered()
        seconds = asyncio.get_running_loop().time() - call.sent_at
        tier = replies[0].call.tier or call.request.tier
        retries = call.requests - 1
        shares = with_shares(replies[: len(call.samples)])
        return [
            self.reply(reply, request_key(self.identity, sample), tier=tier, seconds=seconds, retries=retries)
            for reply, sample in zip(shares, call.samples, strict=False)  # the last samples may lack a reply
        ]

    async def _require_responsive(self) -> None:
        """Wait until the endpoint has answered GET /models; if it stays silent, raise the error that ends the run."""
        try:
            await self._probe.wait()
        except SilentError:
            message = (
                f"it accepts connections, but did not answer GET /models within {self._probe.timeout_s:g} s before the "
                f"first request. {UP} If it is busy with requests of other users, wait for them. {KEPT}"
            )
            self._end(BackboneError(self.message(message), transient=True, fatal=True, retried=True))
        finally:
            self._raise_if_over()  # this error, unless another one ended the run before

    async def _ask_for_models(self) -> None:
        with suppress(TooLongAnswerError):
            await self._connections.send("models")

    async def ask_once(self, body: Mapping[str, Any], tries: int = 2) -> Reply:
        """Send a request and read its answer, without retries: again only if the server has closed the connection."""
        try:
            async with self._queue.turn():
                answer = await self._connections.send(self._format.path, body)
        except Exception as error:
            refusal = self._refusal_of(error)
            if refusal.kind == "connection" and tries > 1:
                return await self.ask_once(body, tries - 1)
            raise refusal from error
        return self.read(answer)[0]

    async def models(self, path: str = "models") -> HttpAnswer:
        """Request the list of models, which costs nothing."""
        try:
            async with deadline(PROBE_S):
                answer = await self.exchange(path)
        except TimeoutError:
            raise Refusal("timeout", f"no answer to GET /models within {PROBE_S:g} s", UP) from None
        return replace(answer, text=self._access.hide(answer.text))

    async def exchange(
        self, path: str, body: Mapping[str, Any] | None = None, upload: Upload | None = None
    ) -> HttpAnswer:
        """Send a request that asks for no model's reply, without retries; a GET if it has no body."""
        try:
            async with deadline(self._settings.timeout_s):
                answer = await self._connections.send(path, body, upload)
        except Exception as error:
            raise self._refusal_of(error) from error
        return self._accepted(answer)

    def _accepted(self, answer: HttpAnswer) -> HttpAnswer:
        """Return an answer with a status of success; raise the refusal that any other one is."""
        if not 200 <= answer.status < 300:
            raise self._refusal(answer)
        return answer

    def read(self, answer: HttpAnswer) -> list[Reply]:
        """Read the replies in an answer, one per sample; `reply` adds the key and the time of their calls."""
        self._probe.answered()
        # What the model wrote counts as its reply, also where the endpoint refused to pass it on.
        if (generation := failed_generation(answer.status, answer.text)) is not None:
            truncated = REACHED_LIMIT.search(answer.text) is not None
            return [Reply(storable(generation), bill_of(model="", usage=Usage(), tier=""), truncated)]
        try:
            replies = self._format.answer(self._accepted(answer).text)
            return [self._access.without_secrets(reply) for reply in replies]
        except RefusedInBodyError as error:
            raise self._refusal(HttpAnswer(error.status, {}, error.body)) from error
        except GarbledAnswerError as error:
            hint = "If this happens every time, check base_url: it usually ends in /v1."
            raise Refusal("garbled", self._access.clean(str(error)), hint) from error

    def _refusal_of(self, error: Exception) -> Refusal:
        """Return the refusal that an error is, or that stands for a lost connection; raise any other error again."""
        if isinstance(error, Refusal):
            return error
        return loss_of(error, self._access.clean, self._settings.timeout_s)

    def _refusal(self, answer: HttpAnswer) -> Refusal:
        """Classify an answer that is no reply."""
        extra = {name: f'take "{name}" out of backbone.extra_body' for name in self._settings.extra_body}
        changes = self._format.changes(self._settings) | extra
        text = self._access.clean(answer.text)
        refusal = refusal_of(answer.status, answer.headers, text, self._settings.key_place, changes)
        # again: a key may stand in a header, or escaped in JSON
        return replace(refusal, message=self._access.clean(refusal.message))

    def reply(self, answer: Reply, key: str, tier: str, seconds: float, retries: int) -> Reply:
        """Return a reply with the key of its request, and with its cost at the prices of a tier."""
        model = answer.call.model or self._settings.model
        call = replace(answer.call, request=key, model=model, seconds=seconds, retries=retries, tier=tier)
        call = priced(call, self._settings)
        # A cost that the endpoint reports replaces the cost at the prices of the settings; but 0 does not, unless the
        # call costs nothing at these prices either, or they are unknown: the endpoint may not count costs at all.
        usd = answer.call.cost_usd
        is_free = usd == 0 and not call.cost_usd
        if usd or is_free:
            call = replace(call, cost_usd=usd, cost_source="endpoint", list_usd=usd, prompt_cache_usd=0.0)
        log.debug("%s: replied after %.2f s, %d retries", self._settings.name, seconds, retries)
        return replace(answer, call=call)

    def _pause_or_raise(self, call: _Call, refusal: Refusal) -> float:
        """Return the seconds until a refused call is sent again, by `RetryPolicy` or `FlexWait`, or raise its error."""
        now = asyncio.get_running_loop().time()
        if call.request.tier != STANDARD and lacks_capacity(refusal):
            refusal = replace(refusal, kind="capacity")
        prompt = request_key(self.identity, call.request)
        waits_for_capacity = call.flex.refusals if call.flex else 0  # which are no retries to the policy
        decision = self._retry_policy.decide(refusal, prompt, call.requests - waits_for_capacity, now)
        if refusal.kind == "rate_limit":
            self._limit.rate_limited(call.granted_at, refusal.retry_after_s)
        self._raise_if_over()
        if call.flex and refusal.kind == "capacity":
            return call.flex.refused(refusal.retry_after_s)
        if decision.pause_s is not None:
            self._report_once(refusal)
            return decision.pause_s
        reason = refusal.message.rstrip(".")
        message = self.message(f"{reason}. {decision.advice}".rstrip())
        # Another run can answer the question once the key or the quota is corrected.
        is_correctable = not decision.fatal and refusal.kind in ("access", "quota")
        transient = refusal.transient or is_correctable
        error = BackboneError(message, transient=transient, fatal=decision.fatal, retried=True)
        if decision.fatal:
            self._end(error)
        raise error

    def _report_once(self, refusal: Refusal) -> None:
        """Show the first refusal of each kind: repeating requests may take minutes."""
        if refusal.kind not in self._reported:
            self._reported.add(refusal.kind)
            reason = refusal.message.rstrip(".")
            self.report(self.message(f"{reason}. Such requests are repeated."))

    def message(self, text: str) -> str:
        """Return a message about the endpoint, without secrets."""
        endpoint = public_url(self._settings)
        return f'Backbone "{self._settings.name}" ({self._settings.model} at {endpoint}): {self._access.clean(text)}'

    def _end(self, error: BackboneError) -> None:
        """Let every further request fail with an error, unless another one was first."""
        self._over = self._over or error
        self._stop.set()
        self._limit.open_up()

    def _raise_if_over(self) -> None:
        if self._over is not None:
            # A new exception each time: one instance raised in many tasks would collect all their tracebacks.
            over = self._over
            raise BackboneError(str(over), transient=over.transient, fatal=over.fatal, retried=True)
