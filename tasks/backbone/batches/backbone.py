"""Backbone that collects the requests of many questions, and submits them in batches."""

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from tasks.backbone.batches.providers import BatchState, Bodies, provider_of
from tasks.backbone.batches.store import BatchStore, KeptBatch
from tasks.backbone.endpoint.client import EndpointBackbone, format_of
from tasks.backbone.endpoint.connection import HttpAnswer
from tasks.backbone.endpoint.failures import Refusal
from tasks.backbone.endpoint.wire import SURCHARGED
from tasks.backbone.protocol import Reply, Request, request_key
from tasks.backbone.tiers import BATCH, Pace, is_set_within
from tasks.core.errors import BackboneError
from tasks.core.wording import counted
from tasks.settings.backbone import BackboneSettings

log = logging.getLogger(__name__)

KEPT = "The batches under way are kept: the same command collects their answers."
AGAIN = "The same command submits again what has no answer."
SILENT_S = 900.0
"""Seconds after which an endpoint that does not answer requests about a batch ends the run."""
LATE_S = 60.0
"""Seconds in which the answers of an ended batch are read; a late run waits no longer for them."""
LOOK_S = 2.0
"""Seconds between two looks for the id of a batch that another process is to submit."""
SUBMISSION_S = 120.0
"""Seconds after which a process that has not noted the id of its batch counts as dead."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Queued:
    """A request that waits for the next batch."""

    request: Request
    submitted: asyncio.Future[None]


Answers = Mapping[str, HttpAnswer | BackboneError]
"""Answers of a batch by the keys of its requests, or why there is none."""


class BatchBackbone:
    """Backbone that submits requests in batches, in the service tier "batch".

    Requests are collected until none has come for `batch_quiet_s` seconds. Before a batch is submitted, its requests
    are noted in the database of the reply cache under a token, our name for the batch, and then the provider's id. So
    no request is submitted twice: after the process was killed, or on another machine with the same reply cache, it
    waits for the same batch. If the id is missing, the batch is looked for at the provider. A late run submits no
    batches, and takes answers only from those that have ended.

    A request that a batch failed to answer for a reason that may pass is sent in another batch, up to `retries` times.
    One that was not answered because the batch expired or was cancelled fails retryably.
    """

    def __init__(
        self,
        inner: EndpointBackbone,
        settings: BackboneSettings,
        store: BatchStore,
        pace: Pace,
        report: Callable[[str], object] = bool,
    ) -> None:
        self.inner = inner
        self.identity = inner.identity
        self._settings = settings
        self._provider = provider_of(inner, settings)
        self._store = store
        self._pace = pace
        self._report = report
        self._format = format_of(settings)
        self._stop = asyncio.Event()
        self._max_requests = self._provider.max_requests
        self._max_bytes = self._provider.max_bytes // 2  # the size of a request is estimated
        self._worked = False  # whether a request was answered; a refusal then concerns its prompt
        self._queue: dict[str, _Queued] = {}  # requests for the next batch, by key
        self._arrived = asyncio.Event()  # set when a request joins the queue
        self._collecting: asyncio.Task[None] | None = None  # submits the queue
        self._batches: dict[str, asyncio.Future[Answers]] = {}  # those that are waited for, by their tokens
        self._refused: set[str] = set()  # tokens of those for which the provider's queue had no room
        self._waits: set[asyncio.Future[Any]] = set()  # futures that fail when the run stops
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Submit nothing more, and wait for no batch."""
        self.wind_down()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def wind_down(self) -> None:
        """Submit nothing more; requests that wait for a batch fail, and the batch goes on at the provider."""
        self.inner.wind_down()
        self._stop.set()
        _fail(self._waits, self._stopped())

    async def complete(self, request: Request) -> Reply:
        """Answer one request."""
        key = request_key(self.identity, request)
        began = time.monotonic()
        tries = 0
        while True:
            if self._stop.is_set():
                raise self._stopped()
            batch = await asyncio.to_thread(self._store.batch_of, key)
            answers = self._answers_of(batch) if batch else None
            if self._pace.late and not (answers and await _comes_soon(answers)):
                return await self.inner.complete(request)
            if batch is None or answers is None:
                await self._wait_for_submission(key, request)
                continue
            answer = (await asyncio.shield(answers)).get(key)
            if answer is None:
                continue  # the request is to be submitted in another batch
            if isinstance(answer, BackboneError):
                raise answer
            try:
                outcome = self.inner.read(answer)[0]
            except Refusal as refusal:
                await asyncio.to_thread(self._store.release, batch.token, [key])
                tries += 1
                if not refusal.transient or tries > self._settings.retries:
                    failure = self._failure(refusal, AGAIN)
                    # once a request was answered, a refusal concerns its prompt alone
                    failure.fatal = failure.fatal and not self._worked
                    raise failure from None
            else:
                seconds = time.monotonic() - began
                tier = outcome.call.tier if outcome.call.tier in SURCHARGED else BATCH
                return self.inner.reply(outcome, key, tier=tier, seconds=seconds, retries=tries)

    def _future(self) -> asyncio.Future[Any]:
        """Return a future that fails once nothing more is to be sent."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waits.add(future)
        future.add_done_callback(self._waits.discard)
        return future

    def _spawn(self, work: Awaitable[None], waits: Iterable[asyncio.Future[Any]]) -> asyncio.Task[None]:
        """Run work in a task; if it fails, its error is set in all the futures `waits`."""

        async def run() -> None:
            try:
                await work
            except Exception as error:
                _fail(waits, error)

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Collect and submit

    async def _wait_for_submission(self, key: str, request: Request) -> None:
        queued = self._queue.setdefault(key, _Queued(request, self._future()))
        self._arrived.set()
        if self._collecting is None or self._collecting.done():
            self._collecting = self._spawn(self._collect(), self._waits)
        await queued.submitted

    async def _collect(self) -> None:
        """Submit the queue whenever no request has come for a while."""
        while self._queue and not self._stop.is_set():
            self._arrived.clear()
            has_room = len(self._queue) < self._max_requests
            if has_room and await is_set_within(self._settings.batch_quiet_s, self._arrived):
                continue
            bodies = self._bodies_of_next_batch()
            waits = [self._queue.pop(key).submitted for key in bodies]
            self._spawn(self._submit(bodies, waits), waits)

    def _bodies_of_next_batch(self) -> Bodies:
        """Return the queue's first requests that fit into a batch, by key; at least one."""
        bodies: dict[str, Mapping[str, Any]] = {}
        size = 0
        for key, queued in islice(self._queue.items(), self._max_requests):
            body = self._format.body(queued.request, self._settings)
            size += len(json.dumps(body))
            if bodies and size > self._max_bytes:
                break
            bodies[key] = body
        return bodies

    async def _submit(self, bodies: Bodies, waits: Iterable[asyncio.Future[None]]) -> None:
        """Submit a batch, once, whatever happens to the answer of the provider.

        Requests that another process has submitted since they were looked up are left out.
        """
        token = uuid.uuid4().hex
        began = time.time()
        if own_keys := await asyncio.to_thread(self._store.begin, token, list(bodies)):
            batch = KeptBatch(token, batch_id=None, submitted_at=began, requests=len(own_keys))
            try:
                await self._submit_with_retries({key: bodies[key] for key in own_keys}, batch)
            except Refusal as refusal:
                await asyncio.to_thread(self._store.release, token, own_keys)
                if not refusal.too_large or len(own_keys) == 1:
                    raise self._failure(refusal, AGAIN) from None
                log.warning(self.inner.message(f"{counted(len(own_keys), 'request')}: {refusal.message}"))
                self._max_requests = min(self._max_requests, len(own_keys) // 2)  # smaller batches
        for wait in waits:
            if not wait.done():
                wait.set_result(None)

    async def _submit_with_retries(self, bodies: Bodies, batch: KeptBatch) -> None:
        """Submit a batch in up to `retries` + 1 attempts, and note its id.

        No id is noted if the provider has a batch that may be this one, although its answer was lost, or if another
        process submits the requests, since this one took too long.
        """
        for tries in range(1, self._settings.retries + 2):
            try:
                batch_id = await self._provider.submit(bodies, batch.token)
            except Refusal as refusal:
                if not refusal.transient:
                    raise
                is_last = tries > self._settings.retries
                if not is_last:
                    await self._pause(refusal, tries)
                is_taken_over = not await asyncio.to_thread(self._store.keys_of, batch.token)
                if is_taken_over or await self._find(batch, set()) is not None:
                    return
                if is_last:
                    raise
            else:
                await asyncio.to_thread(self._store.submitted, batch.token, batch_id)
                requests = counted(len(bodies), "request")
                log.info("%s: batch %s has %s", self._settings.name, batch_id, requests)
                return

    # Wait and read

    def _answers_of(self, batch: KeptBatch) -> asyncio.Future[Answers]:
        """Return the answers of a batch once it has ended; all its requests wait for it together."""
        if batch.token not in self._batches:
            future = self._batches[batch.token] = self._future()
            future.add_done_callback(lambda _: self._batches.pop(batch.token))
            self._spawn(self._collect_answers(batch, future), [future])
        return self._batches[batch.token]

    async def _collect_answers(self, batch: KeptBatch, future: asyncio.Future[Answers]) -> None:
        """Set the answers of a batch in `future` once it has ended; {} if its requests are to be submitted again."""
        keys = await asyncio.to_thread(self._store.keys_of, batch.token)
        answers: Answers | None = None
        others: set[str] = set()  # ids of batches that were taken for this one
        try:
            while keys and answers is None and (batch_id := await self._id_of(batch, keys[0], others)):
                answers = await self._wait_for_answers(batch, batch_id, keys)
                others.add(batch_id)
        except Refusal as refusal:  # the provider has no such batch
            log.warning("%s: batch %s is gone: %s", self._settings.name, batch.batch_id, refusal.message)
        answers = answers or {}
        # what has no answer may be submitted in another batch
        unanswered = [key for key in keys if not isinstance(answers.get(key), HttpAnswer)]
        await asyncio.to_thread(self._store.release, batch.token, unanswered)
        if not future.done():
            future.set_result(answers)

    async def _wait_for_answers(self, batch: KeptBatch, batch_id: str, keys: Sequence[str]) -> Answers | None:
        """Return the answers of a batch once it has ended, or an error for each request that it did not answer.

        None: the answers are to other requests, so `batch_id` is another batch.
        """
        state = await self._wait_for_end(batch_id)
        answers = {} if state.refused else await self._send_patiently(lambda: self._provider.answers(state))
        if answers and answers.keys().isdisjoint(keys):
            return None
        await asyncio.to_thread(self._store.ended, batch.token, batch_id, time.time() - batch.submitted_at)
        if state.queue_full:
            log.warning(self.inner.message(f"batch {batch_id}: {state.refused}"))
            self._refused.add(batch.token)
            under_way = [future for token, future in self._batches.items() if token not in self._refused]
            if under_way:
                await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                return {}  # its requests are to be submitted again, now that the queue may have room
            if batch.requests > 1:
                self._max_requests = max(1, min(self._max_requests, batch.requests // 2))
                await self._sleep(self._settings.batch_poll_s)
                return {}  # its requests are to be submitted in smaller batches
        if state.refused:
            message = f"the batch {batch_id} was refused: {state.refused}"
            error = BackboneError(self.inner.message(message), transient=False, fatal=True)
            return dict.fromkeys(keys, error)
        self._worked = self._worked or any(answer and answer.status == 200 for answer in answers.values())
        unanswered = sum(answers.get(key) is None for key in keys)
        message = (
            f"the batch {batch_id} ended ({state.status}) without an answer to {unanswered:,} of "
            f"{counted(len(keys), 'request')}. The answers that it has are kept; the same command submits the others "
            "again."
        )
        error = BackboneError(self.inner.message(message), transient=True, retried=True)
        return {key: answers.get(key) or error for key in keys}

    async def _id_of(self, batch: KeptBatch, key: str, others: Collection[str]) -> str | None:
        """Return the provider's id of a batch, which is none of `others`; None if the batch was never submitted.

        Another process may be about to submit it, or may have died before it noted the id.
        """
        waited_s = 0.0
        while True:
            current = await asyncio.to_thread(self._store.batch_of, key)
            if current is None or current.token != batch.token:  # the other process has given it up
                return None
            if current.batch_id and current.batch_id not in others:
                return current.batch_id
            if batch_id := await self._find(batch, others):
                return batch_id
            # the time since the submission is wrong if the other process has another clock
            if waited_s >= SUBMISSION_S:
                return None
            await self._sleep(LOOK_S)
            waited_s += LOOK_S

    async def _wait_for_end(self, batch_id: str) -> BatchState:
        """Return the state of a batch once it has ended; until then, report how far it is."""
        while True:
            state = await self._send_patiently(lambda: self._provider.state(batch_id))
            self._report(f"batch {batch_id}: {state.status}, {counted(state.answered, 'request')} answered")
            if state.ended:
                return state
            await self._sleep(self._settings.batch_poll_s)

    async def _find(self, batch: KeptBatch, others: Collection[str]) -> str | None:
        """Return the id of a batch at the provider that may be this one: it is noted for none, and none of `others`."""
        noted = await asyncio.to_thread(self._store.ids)
        return await self._send_patiently(lambda: self._provider.find(batch, noted.union(others)))

    # Repeat and fail

    async def _send_patiently(self, send: Callable[[], Awaitable[T]]) -> T:
        """Send a request about a batch, again while the provider does not answer; Refusal: it has no such batch."""
        began = time.monotonic()
        tries = 0
        while True:
            try:
                return await send()
            except Refusal as refusal:
                if refusal.gone:
                    raise
                if not refusal.transient or time.monotonic() - began > SILENT_S:
                    raise self._failure(refusal, KEPT) from None
                tries += 1
                await self._pause(refusal, tries)

    async def _pause(self, refusal: Refusal, tries: int) -> None:
        """Wait as long as a refusal asks, else longer after each of the `tries`."""
        seconds = refusal.retry_after_s
        if seconds is None:
            seconds = min(self._settings.max_wait_s, 2.0 ** (tries - 1))
        await self._sleep(seconds)

    async def _sleep(self, seconds: float) -> None:
        """Sleep; fail once nothing more is to be sent."""
        if await is_set_within(seconds, self._stop):
            raise self._stopped()

    def _stopped(self) -> BackboneError:
        return BackboneError(self.inner.message(KEPT), transient=True, retried=True)

    def _failure(self, refusal: Refusal, advice: str) -> BackboneError:
        message = self.inner.message(f"{refusal.message.rstrip('.')}. {refusal.advice or advice}")
        return BackboneError(message, transient=refusal.transient, fatal=refusal.fatal, retried=True)


async def _comes_soon(answers: asyncio.Future[Answers]) -> bool:
    """Return whether a batch has ended, so that its answers come within `LATE_S`."""
    done, _ = await asyncio.wait([answers], timeout=LATE_S)
    return bool(done)


def _fail(waits: Iterable[asyncio.Future[Any]], error: Exception) -> None:
    for wait in list(waits):
        if not wait.done():
            wait.set_exception(error)
            wait.exception()  # retrieved, or asyncio logs it where every caller has been cancelled
