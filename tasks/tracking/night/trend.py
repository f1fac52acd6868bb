"""Whether the scores of successive runs decline: the Mann-Kendall test and Sen's slope."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, median

LEAST = 7
"""Scores that a test needs: of fewer, the normal approximation of its p-value is poor."""


@dataclass(frozen=True, slots=True)
class Trend:
    """The trend of successive scores."""

    scores: int  # how many there are
    slope: float  # Sen's slope, as a share per score: the median of the slopes between all pairs
    p_value: float  # one-sided Mann-Kendall test that the scores do not decline

    @property
    def change(self) -> float:
        """What the slope makes from the first score to the last, as a share."""
        return self.slope * (self.scores - 1)


def trend_of(scores: Sequence[float]) -> Trend | None:
    """Return the trend of successive scores, the oldest first; None of fewer than LEAST.

    The test (Mann, 1945; Kendall, 1975) counts the pairs in which the later score is lower, so one bad score does not
    make a trend; its p-value is the normal approximation with the corrections for continuity and ties. The slope is
    Sen's (1968).

    >>> found = trend_of([0.60, 0.61, 0.59, 0.60, 0.57, 0.58, 0.56, 0.55])
    >>> round(found.slope, 4), round(found.p_value, 4)
    (-0.0075, 0.0063)
    """
    count = len(scores)
    if count < LEAST:
        return None
    pairs = [(later, earlier) for later in range(count) for earlier in range(later)]
    signs = sum(
        (scores[later] > scores[earlier]) - (scores[later] < scores[earlier]) for later, earlier in pairs
    )
    ties = Counter(scores).values()
    variance = (_spread(count) - sum(map(_spread, ties))) / 18
    p_value = NormalDist().cdf((signs + 1) / sqrt(variance)) if signs < 0 else 1.0
    slope = median((scores[later] - scores[earlier]) / (later - earlier) for later, earlier in pairs)
    return Trend(count, slope, p_value)


def _spread(count: int) -> int:
    return count * (count - 1) * (2 * count + 5)
