"""Settings of a night: which evaluations, and when a difference is a regression."""

from pydantic import Field

from tasks.settings.base import Settings


class Gate(Settings):
    """When a night fails. All of it must hold, so that noise does not turn a night red."""

    threshold: float = Field(1.0, ge=0, le=100)
    """Percentage points of execution accuracy that must at least be lost."""
    level: float = Field(0.01, gt=0, lt=1)
    """p-value below which the exact McNemar test must be, adjusted for the number of comparisons (Holm)."""
    tolerated_failures: float = Field(0.01, ge=0, le=1)
    """Share of questions that may lack an answer for reasons that a re-run can mend, before the night fails for it."""
