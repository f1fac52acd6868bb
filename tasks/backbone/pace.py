"""Whether a run is on time: the cheaper service tier is used until the run would end too late."""

import datetime
import time
from collections.abc import Callable

RESERVE = 1.1
"""Factor on the time that the remaining questions are expected to take."""
LEAST = 3
"""Questions that must be answered before the rate of a run counts as measured."""


class Pace:
    """Progress of a run towards the time by which it must end.

    The remaining questions are expected to take the time that the answered ones have taken on average. Requests that
    are sent in the standard tier make a late run faster, so it returns to the cheaper tier as soon as it is on time.

    Args:
        finish_by: time by which the run must end, with a time zone; None: it has no such time.
        now: returns seconds since the epoch.
    """

    def __init__(self, finish_by: datetime.datetime | None, now: Callable[[], float] = time.time) -> None:
        self._finish_by = None if finish_by is None else finish_by.timestamp()
        self._now = now
        self._began = now()
        self._questions = 0
        self._answered = 0

    def begin(self, questions: int) -> None:
        """Start the clock for a number of questions that are to be answered by a model."""
        self._began, self._questions, self._answered = self._now(), questions, 0

    def answered(self) -> None:
        """Count an answered question."""
        self._answered += 1

    @property
    def late(self) -> bool:
        """Whether the run would end too late at its current rate."""
        if self._finish_by is None:
            return False
        now = self._now()
        if self._answered < LEAST:
            return now >= self._finish_by
        seconds_each = (now - self._began) / self._answered
        remaining = max(0, self._questions - self._answered)
        return now + RESERVE * seconds_each * remaining > self._finish_by
