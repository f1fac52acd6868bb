"""Settings of a nightly run: when a difference is red or amber, and what of old runs is kept afterwards."""

import datetime
import re
from typing import Annotated

from pydantic import AfterValidator, Field

from tasks.core.errors import ConfigurationError
from tasks.settings.base import Settings

PINNED = "pinned"
"""Tag of a run that is kept whatever its age."""

_UNITS = {"d": "days", "h": "hours", "m": "minutes"}


class Gate(Settings):
    """When a nightly run is red (it fails) or amber; a loss must meet a threshold and a test, so that noise is none.

    `tests/benchmarks/verdicts_of_nights.py` prints how often each verdict comes of noise, of a loss and of a drift.
    """

    threshold: float = Field(1.0, ge=0, le=100)
    """Smallest loss of execution accuracy, in percentage points, that is red or amber."""
    level: float = Field(0.01, gt=0, lt=1)
    """Red: level of the exact McNemar test; p-values are adjusted for the number of comparisons (Holm)."""
    doubt_level: float = Field(0.05, gt=0, lt=1)
    """Amber, possibly worse: level of the same test, not adjusted."""
    trend_nights: int = Field(14, ge=7, le=100)
    """Amber, declining: how many of the last scores, since a pinned baseline, are tested for a trend."""
    trend_level: float = Field(0.01, gt=0, lt=1)
    """Amber, declining: level of the Mann-Kendall test; p-values are adjusted for the number of tests (Holm)."""
    degraded_share: float = Field(0.05, gt=0, le=1)
    """A run is amber (degraded) from this share of questions with an unreadable reply or a stage that fell back."""
    tolerated_failures: float = Field(0.01, ge=0, le=1)
    """Largest share of questions without an answer after a retryable failure that does not fail the nightly run."""


def age(text: str, option: str = "--keep") -> datetime.timedelta:
    """Return an age.

    >>> age("90d"), age("12h")
    (datetime.timedelta(days=90), datetime.timedelta(seconds=43200))

    Raises:
        ConfigurationError: it is no number with a unit, or too large.
    """
    match = re.fullmatch(r"(\d{1,6})([dhm])", text.strip())
    if not match:
        raise ConfigurationError(f"{option} {text}: write a number and d, h or m, for example 90d.")
    return datetime.timedelta(**{_UNITS[match[2]]: int(match[1])})


def _checked(text: str) -> str:
    try:
        age(text)
    except ConfigurationError:
        raise ValueError("write a number and d, h or m, for example 90d") from None
    return text


class Keep(Settings):
    """Which runs keep their traces, artifacts, stage results and records; the others keep their scores."""

    age: Annotated[str, AfterValidator(_checked)] = "30d"
    """Runs that are younger are kept: a number and d, h or m."""
    runs: int = Field(2, ge=0, le=1_000_000)
    """The latest finished runs of each benchmark, backbone and pipeline are kept whatever their age."""
    rows: bool = True
    """Keep the questions of all runs in the warehouse; false: of a run that is not kept, only its scores."""
