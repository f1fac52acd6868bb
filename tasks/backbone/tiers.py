"""Requests in the service tier "flex": without capacity they wait, and are sent in the standard tier after a limit."""

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tasks.backbone.pace import Pace
from tasks.backbone.protocol import Backbone, Reply, Request
from tasks.core.errors import BackboneError

log = logging.getLogger(__name__)

BATCH, FLEX = "batch", "flex"
FIRST_PAUSE_S = 2.0
"""Pause after the first refusal for lack of capacity; it doubles with each further one, up to `LONGEST_PAUSE_S`."""
LONGEST_PAUSE_S = 60.0


class NoCapacityError(BackboneError):
    """Refusal of a request because its service tier has no free capacity; it is not charged.

    Attributes:
        retry_after_s: seconds that the endpoint asks to wait; None if it gives none.
    """

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        super().__init__(message, transient=True)
        self.retry_after_s = retry_after_s


class FlexBackbone:
    """Backbone that sends each request in the tier "flex", or in the standard tier if that would take too long.

    The tier is no part of a request's identity: a reply of either tier is reused in both. The refusals count as
    retries of the call.

    Args:
        inner: the endpoint.
        wait_s: seconds that a request waits for capacity.
        pace: says whether the run is late; then nothing waits, and requests are sent in the standard tier.
    """

    def __init__(self, inner: Backbone, wait_s: float, pace: Pace) -> None:
        self.inner = inner
        self._wait_s = wait_s
        self._pace = pace
        self._stop = asyncio.Event()

    @property
    def identity(self) -> Mapping[str, Any]:
        """The inner backbone's."""
        return self.inner.identity

    async def complete(self, request: Request) -> Reply:
        """Answer one request.

        Raises:
            BackboneError: there is no answer; see the inner backbone.
        """
        loop = asyncio.get_running_loop()
        until, refusals, pause = loop.time() + self._wait_s, 0, FIRST_PAUSE_S
        while not self._pace.late:
            try:
                return _with_retries(await self.inner.complete(replace(request, tier=FLEX)), refusals)
            except NoCapacityError as error:
                refusals += 1
                seconds = error.retry_after_s
                if seconds is None:
                    seconds = pause * random.uniform(0.5, 1.0)
                pause = min(LONGEST_PAUSE_S, 2 * pause)
                if loop.time() + seconds > until:
                    log.info("no capacity in the tier flex: sent in the standard tier (%s)", error)
                    break
                await self._sleep(seconds)
        return _with_retries(await self.inner.complete(request), refusals)

    def wind_down(self) -> None:
        """Send nothing more, if the inner backbone can; requests that wait go to it at once."""
        if wind_down := getattr(self.inner, "wind_down", None):
            wind_down()
        self._stop.set()

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return


def _with_retries(reply: Reply, refusals: int) -> Reply:
    call = reply.call
    return replace(reply, call=replace(call, retries=call.retries + refusals)) if refusals else reply
