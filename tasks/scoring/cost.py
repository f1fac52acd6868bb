"""Cost of a run, from the calls of its stages; paid and cached calls are counted separately."""

from collections.abc import Sequence
from typing import TypeVar

from tasks.records import StageRecord
from tasks.scoring.report import Cost

N = TypeVar("N", int, float)

FAILED_ATTEMPT = "failed_attempt"
"""Stage that holds the calls of an attempt of a re-run that failed, beside the stages of the answer that was kept."""


def total_cost(stages: Sequence[StageRecord]) -> Cost:
    """Add up the calls of stages.

    Calls of a restored stage count as cached: an earlier run paid for them. A sum is None if its value is missing
    in a paid call, and 0 without paid calls.
    """
    paid = [call for stage in stages for call in stage.paid_calls]
    seconds = sorted(call.seconds for call in paid)
    return Cost(
        calls=len(paid),
        cached_calls=sum(len(stage.calls) for stage in stages) - len(paid),
        retries=sum(call.retries for call in paid),
        input_tokens=_total([call.usage.input for call in paid]),
        cached_input_tokens=_total([call.usage.cached_input for call in paid]),
        output_tokens=_total([call.usage.output for call in paid]),
        reasoning_tokens=_total([call.usage.reasoning for call in paid]),
        cost_usd=_total([call.cost_usd for call in paid]),
        p50_s=percentile(seconds, 50),
        p95_s=percentile(seconds, 95),
    )


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """Return the percentile of ascending numbers, interpolated between neighbours; None of none.

    >>> percentile([1.0, 2.0, 3.0], 50), percentile([1.0, 2.0], 95), percentile([], 50)
    (2.0, 1.95, None)
    """
    if not ordered:
        return None
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _total(values: Sequence[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
