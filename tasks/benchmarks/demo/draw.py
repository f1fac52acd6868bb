"""Seeded draws whose values never change: all rest on `Random.random()`, nothing else.

Python promises the sequence of `random()` for a given seed across versions, and of no other method, so a
database that must be equal everywhere is drawn with these.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from random import Random
from typing import TypeVar

T = TypeVar("T")


def below(rng: Random, limit: int) -> int:
    """Return an integer in 0..limit-1, each as likely."""
    return int(rng.random() * limit)


def between(rng: Random, low: int, high: int) -> int:
    """Return an integer in low..high, both included, each as likely."""
    return low + below(rng, high - low + 1)


def chance(rng: Random, probability: float) -> bool:
    """Return True with that probability."""
    return rng.random() < probability


def pick(rng: Random, items: Sequence[T]) -> T:
    """Return one item, each as likely."""
    return items[below(rng, len(items))]


def pick_weighted(rng: Random, items: Sequence[T], weights: Sequence[float]) -> T:
    """Return one item with the probability that its weight has of their sum."""
    point = rng.random() * sum(weights)
    for item, weight in zip(items, weights, strict=True):
        point -= weight
        if point < 0:
            return item
    return items[-1]


def pick_skewed(rng: Random, items: Sequence[T], power: float = 2.0) -> T:
    """Return one item, the early ones far more often: the larger the power, the more so (1.0: evenly)."""
    return items[int(len(items) * rng.random() ** power)]


def sample(rng: Random, items: Sequence[T], count: int) -> list[T]:
    """Return that many different items in random order; all of them when there are fewer."""
    return shuffled(rng, items)[:count]


def shuffled(rng: Random, items: Sequence[T]) -> list[T]:
    """Return the items in random order."""
    mixed = list(items)
    for last in range(len(mixed) - 1, 0, -1):
        other = below(rng, last + 1)
        mixed[last], mixed[other] = mixed[other], mixed[last]
    return mixed


def bell(rng: Random, mean: float, spread: float) -> float:
    """Return a number around the mean with that standard deviation, never past 3.5 deviations."""
    return mean + spread * (sum(rng.random() for _ in range(12)) - 6.0)


def day(rng: Random, first: date, last: date) -> date:
    """Return a day in first..last, both included."""
    return first + timedelta(days=below(rng, (last - first).days + 1))


def clock(rng: Random, first_hour: int, last_hour: int) -> str:
    """Return a time HH:MM:SS from first_hour:00:00 to last_hour:59:59."""
    return f"{between(rng, first_hour, last_hour):02d}:{below(rng, 60):02d}:{below(rng, 60):02d}"
