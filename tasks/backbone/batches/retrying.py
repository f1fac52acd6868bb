"""Requests about batches, which are repeated while the provider does not answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tasks.backbone.batches.provider import BatchProvider, BatchState, Item, RefusedError, Result
from tasks.backbone.endpoint.failures import Refusal
from tasks.core.errors import BackboneError
from tasks.core.wording import counted
from tasks.settings.backbone import BackboneSettings

KEPT = "The batches under way are kept: the same command collects their answers."
SILENT_S = 900.0
"""Seconds after which an endpoint that does not answer requests about a batch ends the run."""

T = TypeVar("T")


class RetryingProvider:
    """Interface for batches that repeats what fails for a reason that may pass.

    Args:
        provider: the interface.
        settings: settings of the backbone.
        message: returns a message about the endpoint.
        stop: set when nothing more is to be sent; every method then raises BackboneError.
    """

    def __init__(
        self,
        provider: BatchProvider,
        settings: BackboneSettings,
        message: Callable[[str], str],
        stop: asyncio.Event,
    ) -> None:
        self._provider, self._settings = provider, settings
        self._message, self._stop = message, stop

    async def submit(self, items: Sequence[Item], token: str, since: float) -> str:
        """Submit a batch once, whatever happens to the provider's answer, and return its id.

        Raises:
            RefusedError: it was refused, or not accepted in `retries` + 1 attempts.
        """
        tries = 0
        while True:
            try:
                return await self._provider.submit(items, token)
            except RefusedError as error:
                tries += 1
                if not error.refusal.transient or tries > self._settings.retries:
                    raise
                await self.sleep(self._pause(error.refusal, tries))
            if (batch_id := await self.find(token, since, len(items))) is not None:
                return batch_id

    async def find(self, token: str, since: float, requests: int) -> str | None:
        """Look for a batch whose id was not received; as `BatchProvider.find`."""
        return await self._retried(lambda: self._provider.find(token, since, requests))

    async def ended(self, batch_id: str, report: Callable[[str], object]) -> BatchState:
        """Return the state of a batch once it has ended; until then, report how far it is.

        Raises:
            RefusedError: the provider does not have the batch.
        """
        while True:
            state = await self.state(batch_id)
            report(f"batch {batch_id}: {state.status}, {counted(state.answered, 'request')} answered")
            if state.ended:
                return state
            await self.sleep(self._settings.batch_poll_s)

    async def results(self, state: BatchState) -> Sequence[Result]:
        """Return the answers of an ended batch.

        Raises:
            RefusedError: the provider no longer has them.
        """
        return await self._retried(lambda: self._provider.results(state))

    async def state(self, batch_id: str) -> BatchState:
        """Return the state of a batch.

        Raises:
            RefusedError: the provider does not have the batch.
        """
        return await self._retried(lambda: self._provider.state(batch_id))

    async def cancel(self, batch_id: str) -> BatchState:
        """Have the provider end a batch, and return its state.

        Raises:
            RefusedError: the provider does not have the batch.
        """
        return await self._retried(lambda: self._provider.cancel(batch_id))

    async def _retried(self, send: Callable[[], Awaitable[T]]) -> T:
        since, tries = time.monotonic(), 0
        while True:
            try:
                return await send()
            except RefusedError as error:
                tries += 1
                if error.missing:
                    raise
                if not error.refusal.transient or time.monotonic() - since > SILENT_S:
                    raise self.failure(error.refusal) from None
                await self.sleep(self._pause(error.refusal, tries))

    def failure(self, refusal: Refusal) -> BackboneError:
        """Return the error of a request that was refused."""
        message = self._message(f"{refusal.message.rstrip('.')}. {refusal.advice or KEPT}")
        return BackboneError(message, transient=refusal.transient, fatal=refusal.fatal, retried=True)

    async def sleep(self, seconds: float) -> None:
        """Sleep.

        Raises:
            BackboneError: nothing more is to be sent.
        """
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return
        raise BackboneError(self._message(KEPT), transient=True, retried=True)

    def _pause(self, refusal: Refusal, tries: int) -> float:
        if refusal.retry_after_s is not None:
            return refusal.retry_after_s
        return min(self._settings.max_wait_s, 2.0 ** (tries - 1))
