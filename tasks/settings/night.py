"""Settings of a nightly run: when a difference is a regression."""

from pydantic import Field

from tasks.settings.base import Settings


class Gate(Settings):
    """Conditions under which a nightly run fails; a regression must meet both thresholds, so that noise is none."""

    threshold: float = Field(1.0, ge=0, le=100)
    """Smallest loss of execution accuracy, in percentage points, that is a regression."""
    level: float = Field(0.01, gt=0, lt=1)
    """Level of the exact McNemar test; p-values are adjusted for the number of comparisons (Holm)."""
    tolerated_failures: float = Field(0.01, ge=0, le=1)
    """Largest share of questions without an answer after a retryable failure that does not fail the nightly run."""
