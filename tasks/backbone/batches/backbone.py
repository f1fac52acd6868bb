"""Backbone that collects the requests of many questions, and submits them in batches."""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.backbone.batches.provider import BatchProvider, Item, RefusedError, Result
from tasks.backbone.batches.retrying import KEPT, RetryingProvider
from tasks.backbone.batches.store import BatchStore, KeptBatch
from tasks.backbone.batches.submission import signs_of_life, submitted_elsewhere
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.endpoint.formats.answer import Answer
from tasks.backbone.endpoint.formats.choice import format_of
from tasks.backbone.pace import Pace
from tasks.backbone.protocol import Reply, Request, request_key
from tasks.backbone.tiers import BATCH
from tasks.core.errors import BackboneError
from tasks.core.wording import counted
from tasks.settings.backbone import BackboneSettings

log = logging.getLogger(__name__)

Shown = Callable[[str, Callable[[], Awaitable[None]]], Awaitable[None]]
"""Runs the work of one batch under a label that is shown."""


async def unseen(label: str, work: Callable[[], Awaitable[None]]) -> None:
    """Run the work of a batch without showing it."""
    await work()


@dataclass
class _Waiting:
    """A request that waits for its answer."""

    request: Request
    future: asyncio.Future[Reply]
    began: float
    tries: int = 0


class BatchBackbone:
    """Backbone that submits requests in batches, in the service tier "batch".

    Requests are collected until none has come for `batch_quiet_s` seconds. Before a batch is submitted, its requests
    are noted in the database of the reply cache, and then its id, so that no request is submitted twice: after the
    process was killed, or on another machine with the same reply cache, the same request waits for the same batch. If
    the id is missing, the batch is looked for at the provider.

    A request that a batch failed to answer for a reason that may pass is sent in another batch, up to `retries` times.
    One that was not answered because the batch expired or was cancelled fails retryably.

    Args:
        inner: the endpoint; a late run sends its requests there, in the standard tier.
        settings: its settings.
        provider: the interface for batches.
        store: which request is in which batch.
        pace: says whether the run is late.
        shown: shows the batches.
        report: shows in one line how far a batch is.
    """

    def __init__(
        self,
        inner: EndpointBackbone,
        settings: BackboneSettings,
        provider: BatchProvider,
        store: BatchStore,
        pace: Pace,
        shown: Shown = unseen,
        report: Callable[[str], object] = bool,
    ) -> None:
        self.inner, self._settings = inner, settings
        self._format = format_of(settings)
        self._stop = asyncio.Event()
        self._provider = RetryingProvider(provider, settings, inner.message, self._stop)
        self._store, self._pace = store, pace
        self._shown, self._report = shown, report
        self._most = provider.most_requests
        self._most_bytes = provider.most_bytes // 2  # the size of a request is estimated
        self._waiting: dict[str, _Waiting] = {}
        self._queue: list[str] = []
        self._arrived = asyncio.Event()
        self._watched: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._collecting: asyncio.Task[None] | None = None

    @property
    def identity(self) -> Mapping[str, Any]:
        """The inner backbone's."""
        return self.inner.identity

    async def __aenter__(self) -> "BatchBackbone":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.wind_down()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def wind_down(self) -> None:
        """Submit nothing more; requests that wait for a batch fail, and the batch goes on at the provider."""
        self.inner.wind_down()
        self._stop.set()
        self._fail(self._waiting, BackboneError(self.inner.message(KEPT), transient=True, retried=True))

    async def complete(self, request: Request) -> Reply:
        """Answer one request.

        Raises:
            BackboneError: it has no answer.
            StoreError: the batches cannot be read or written; nothing is submitted.
        """
        if self._pace.late:
            return await self.inner.complete(request)
        if self._stop.is_set():
            raise BackboneError(self.inner.message(KEPT), transient=True, retried=True)
        key = request_key(self.identity, request)
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[key] = _Waiting(request, future, time.monotonic())
        kept = await asyncio.to_thread(self._store.batch_of, key)
        if kept is not None:
            self._watch(kept)
        else:
            self._enqueue([key])
        return await future

    def _enqueue(self, keys: Iterable[str]) -> None:
        self._queue += keys
        self._arrived.set()
        if self._collecting is None or self._collecting.done():
            self._collecting = self._spawn(self._collect(), self._waiting)

    async def _collect(self) -> None:
        """Submit the queue whenever no request has come for a while."""
        while self._queue and not self._stop.is_set():
            self._arrived.clear()
            try:
                if len(self._queue) < self._most:
                    await asyncio.wait_for(self._arrived.wait(), self._settings.batch_quiet_s)
                    continue
            except TimeoutError:
                pass
            items = self._next_items()
            self._spawn(self._submit(items), [item.key for item in items])

    def _next_items(self) -> list[Item]:
        items: list[Item] = []
        size = 0
        while self._queue and len(items) < self._most:
            key = self._queue[0]
            if key in self._waiting:
                body = self._format.body(self._waiting[key].request, self._settings)
                size += len(repr(body))
                if items and size > self._most_bytes:
                    break
                items.append(Item(key, body))
            self._queue.pop(0)
        return items

    def _spawn(self, work: Awaitable[None], keys: Iterable[str]) -> asyncio.Task[None]:
        """Run work in a task; its failure is that of the requests with these keys."""

        async def run() -> None:
            try:
                await work
            except Exception as error:
                self._fail(keys, error)

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _submit(self, items: Sequence[Item]) -> None:
        """Submit a batch, once, whatever happens to the answer of the provider."""
        token, began = uuid.uuid4().hex, time.time()
        owned = set(await asyncio.to_thread(self._store.begin, token, [item.key for item in items]))
        for item in items:
            # Another process has submitted it since it was looked up.
            if item.key not in owned and (kept := await asyncio.to_thread(self._store.batch_of, item.key)):
                self._watch(kept)
        mine = [item for item in items if item.key in owned]
        if not mine:
            return
        async with signs_of_life(self._store, token):
            try:
                batch_id = await self._provider.submit(mine, token, began)
            except RefusedError as error:
                await asyncio.to_thread(self._store.release, token, owned)
                raise self._provider.failure(error.refusal) from None
        await asyncio.to_thread(self._store.submitted, token, batch_id)
        log.info("%s: batch %s has %s", self._settings.name, batch_id, counted(len(mine), "request"))
        self._watch(KeptBatch(token, batch_id, began, len(mine)))

    def _watch(self, kept: KeptBatch) -> None:
        """Wait for a batch in a task of its own, once."""
        if kept.token not in self._watched:
            label = f"batch {kept.batch_id or kept.token}: {counted(kept.requests, 'request')}"

            async def run() -> None:
                keys = await asyncio.to_thread(self._store.keys_of, kept.token)
                try:
                    await self._shown(label, lambda: self._collected(kept, keys))
                except Exception as error:
                    self._fail(keys, error)
                finally:
                    self._watched.pop(kept.token, None)

            self._watched[kept.token] = self._spawn(run(), ())

    async def _collected(self, kept: KeptBatch, keys: Sequence[str]) -> None:
        """Wait until a batch has ended, and give its answers to the requests that wait for them.

        Requests whose answers the provider does not have, or no longer, are submitted again.
        """
        try:
            await self._collect_from(kept, keys)
        except RefusedError as error:
            log.warning("%s: batch %s is gone: %s", self._settings.name, kept.batch_id, error)
            await self._again(kept.token, keys)

    async def _collect_from(self, kept: KeptBatch, keys: Sequence[str]) -> None:
        batch_id = kept.batch_id or (
            await submitted_elsewhere(kept, keys[0], self._store, self._provider) if keys else None
        )
        if batch_id is None:  # it was never submitted
            await self._again(kept.token, keys)
            return
        if kept.batch_id is None:
            await asyncio.to_thread(self._store.submitted, kept.token, batch_id)
        state = await self._provider.ended(batch_id, self._report)
        if state.seconds is not None and not state.refused:
            await asyncio.to_thread(self._store.ended, kept.token, state.seconds)
        if state.refused and state.queue_full and kept.requests > 1:
            log.warning("%s: batch %s: %s", self._settings.name, batch_id, state.refused)
            self._most = max(1, min(self._most, kept.requests // 2))
            await self._provider.sleep(self._settings.batch_poll_s)
            await self._again(kept.token, keys)
            return
        if state.refused:
            await asyncio.to_thread(self._store.release, kept.token, keys)
            message = f"the batch {batch_id} was refused: {state.refused}"
            raise BackboneError(self.inner.message(message), transient=False, fatal=True)
        results = await self._provider.results(state)
        answered = {result.key: result for result in results if result.status}
        lost = [key for key in keys if key not in answered]
        for result in answered.values():
            await self._settle(kept.token, result)
        if lost:
            await asyncio.to_thread(self._store.release, kept.token, lost)
            message = (
                f"the batch {batch_id} ended ({state.status}) without an answer to {len(lost):,} of "
                f"{counted(len(keys), 'request')}. The answers that it has are kept; the same command submits the "
                "others again."
            )
            self._fail(lost, BackboneError(self.inner.message(message), transient=True, retried=True))

    async def _settle(self, token: str, result: Result) -> None:
        """Give an answer to the request that waits for it, or send the request again."""
        waiting = self._waiting.get(result.key)
        if waiting is None:
            return  # the provider keeps it until it is needed
        outcome = (
            self.inner.read(result.text)
            if 200 <= result.status < 300
            else self.inner.refusal(result.status, {}, result.text)
        )
        if isinstance(outcome, Answer):
            self._waiting.pop(result.key)
            seconds = time.monotonic() - waiting.began
            if not waiting.future.done():
                waiting.future.set_result(
                    self.inner.reply(outcome, result.key, BATCH, seconds, waiting.tries)
                )
            return
        await asyncio.to_thread(self._store.release, token, [result.key])
        waiting.tries += 1
        if outcome.transient and waiting.tries <= self._settings.retries and not self._stop.is_set():
            self._enqueue([result.key])
        else:
            self._fail([result.key], self._provider.failure(outcome))

    async def _again(self, token: str, keys: Sequence[str]) -> None:
        """Submit the requests of a batch in another one, those that wait for an answer."""
        await asyncio.to_thread(self._store.release, token, keys)
        self._enqueue(key for key in keys if key in self._waiting)

    def _fail(self, keys: Iterable[str], error: Exception) -> None:
        for key in list(keys):
            waiting = self._waiting.pop(key, None)
            if waiting is not None and not waiting.future.done():
                waiting.future.set_exception(error)
