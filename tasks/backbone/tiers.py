"""Requests in the service tier "flex": sent while the run is on time, and in the standard tier after a wait."""

import asyncio
import datetime
import logging
import random
import time
from collections.abc import Callable
from dataclasses import replace

from tasks.backbone.protocol import Backbone, Reply, Request
from tasks.core.errors import BackboneError

RESERVE = 1.1
"""Factor on the time that the remaining questions are expected to take."""
MIN_ANSWERED = 3
"""Questions that must be answered before the rate of a run counts as measured."""


class Pace:
    """Progress of a run towards the time by which it must end, `finish_by`, with a time zone.

    The remaining questions are expected to take the time that the answered ones have taken on average. Requests that
    are sent in the standard tier make a late run faster, so it returns to the cheaper tier as soon as it is on time.
    """

    def __init__(self, finish_by: datetime.datetime | None, now: Callable[[], float] = time.time) -> None:
        self._finish_by = None if finish_by is None else finish_by.timestamp()
        self._now = now
        self._began = now()
        self._questions = 0
        self._answered = 0

    def begin(self, questions: int) -> None:
        """Start the clock for a number of questions that are to be answered by a model."""
        self._began = self._now()
        self._questions = questions
        self._answered = 0

    def answered(self) -> None:
        """Count an answered question."""
        self._answered += 1

    @property
    def late(self) -> bool:
        """Whether the run would end too late at its current rate."""
        if self._finish_by is None:
            return False
        now = self._now()
        if self._answered < MIN_ANSWERED:
            return now >= self._finish_by
        seconds_per_question = (now - self._began) / self._answered
        remaining = max(0, self._questions - self._answered)
        return now + RESERVE * seconds_per_question * remaining > self._finish_by


log = logging.getLogger(__name__)

BATCH, FLEX = "batch", "flex"
FIRST_PAUSE_S = 2.0
"""Pause after the first refusal for lack of capacity; it doubles with each further one, up to `MAX_PAUSE_S`."""
MAX_PAUSE_S = 60.0


class NoCapacityError(BackboneError):
    """Refusal of a request because its service tier has no free capacity; it is not charged."""

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        super().__init__(message, transient=True)
        self.retry_after_s = retry_after_s


class FlexBackbone:
    """Backbone that sends each request in the tier "flex", or in the standard tier if that would take too long.

    A request waits `wait_s` seconds for capacity; in a late run nothing waits. The tier is no part of a request's
    identity: a reply of either tier is reused in both. The refusals count as retries of the call.
    """

    def __init__(self, inner: Backbone, wait_s: float, pace: Pace) -> None:
        self.inner = inner
        self.identity = inner.identity
        self._wait_s = wait_s
        self._pace = pace
        self._stop = asyncio.Event()

    async def complete(self, request: Request) -> Reply:
        """Answer one request."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._wait_s
        refusals = 0
        pause = FIRST_PAUSE_S
        while not self._pace.late:
            try:
                return _with_retries(await self.inner.complete(replace(request, tier=FLEX)), refusals)
            except NoCapacityError as error:
                refusals += 1
                seconds = error.retry_after_s
                if seconds is None:
                    seconds = pause * random.uniform(0.5, 1.0)
                pause = min(MAX_PAUSE_S, 2 * pause)
                if loop.time() + seconds > until:
                    log.info("no capacity in the tier flex: sent in the standard tier (%s)", error)
                    break
                await stopped_within(seconds, self._stop)
        return _with_retries(await self.inner.complete(request), refusals)

    def wind_down(self) -> None:
        """Send nothing more, if the inner backbone can; requests that wait go to it at once."""
        if wind_down := getattr(self.inner, "wind_down", None):
            wind_down()
        self._stop.set()


async def stopped_within(seconds: float, stop: asyncio.Event) -> bool:
    """Wait some seconds, or until `stop` is set; return whether it is."""
    try:
        return await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return False


def _with_retries(reply: Reply, refusals: int) -> Reply:
    call = reply.call
    return replace(reply, call=replace(call, retries=call.retries + refusals)) if refusals else reply
