"""Service tiers: when a request is sent in the cheaper tier "flex", and when in the standard one."""

import asyncio
import datetime
import logging
import random
import time
from collections.abc import Callable

from tasks.core.outcome import STANDARD

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


class FlexWait:
    """Wait of one call for capacity in the tier "flex", of `wait_s` seconds; in a late run nothing waits.

    After it, the call is sent in the standard tier. The tier is no part of a request's identity: a reply of either tier
    is reused in both.
    """

    def __init__(self, wait_s: float, pace: Pace) -> None:
        self._until = asyncio.get_running_loop().time() + wait_s
        self._pace = pace
        self._pause = FIRST_PAUSE_S
        self._over = False  # whether the wait has ended: the call is sent in the standard tier
        self.refusals = 0  # for lack of capacity

    @property
    def tier(self) -> str:
        """Tier in which the call is to be sent now."""
        self._over = self._over or self._pace.late
        return STANDARD if self._over else FLEX

    def refused(self, retry_after_s: float | None) -> float:
        """Count a refusal, and return the seconds until the next request; 0 once it is to be in the standard tier."""
        self.refusals += 1
        seconds = self._pause * random.uniform(0.5, 1.0) if retry_after_s is None else retry_after_s
        self._pause = min(MAX_PAUSE_S, 2 * self._pause)
        self._over = asyncio.get_running_loop().time() + seconds > self._until
        if self._over:
            log.info("no capacity in the tier flex: sent in the standard tier")
        return 0.0 if self._over else seconds


async def is_set_within(seconds: float, event: asyncio.Event) -> bool:
    """Wait some seconds, or until `event` is set; return whether it is."""
    try:
        return await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
