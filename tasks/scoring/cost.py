"""Cost of a run, from the calls of its stages; paid and cached calls are counted separately."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tasks.core.outcome import FAILED_ATTEMPT, Call, StageRecord
from tasks.core.wording import counted, money, number

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a run. Tokens and money are of paid calls only; cached calls are counted separately.

    `Cost()` is that of predictions made elsewhere: all of it is unknown.
    """

    calls: int | None = None  # calls paid for in this run; None if unknown
    # calls answered from the reply cache, or part of a restored stage result; None if unknown
    cached_calls: int | None = None
    retries: int | None = None  # attempts beyond the first; None if unknown
    # input_tokens, cached_input_tokens, output_tokens, reasoning_tokens: None if the API did not report them
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None  # None when any paid call has no price, and where the calls are unknown
    by_endpoint: int | None = None  # paid calls whose cost the endpoint reported; None if unknown
    # what the same answers cost with an empty reply cache; None if unknown for any call
    from_scratch_usd: float | None = None
    # the paid calls in the standard tier with every input token at the full price; None if unknown for any of them
    list_usd: float | None = None
    # saved of that by the provider's prompt cache and by cheaper tiers, down to `cost_usd`; None if unknown
    prompt_cache_usd: float | None = None
    tier_usd: float | None = None
    # what the cached calls cost when they were paid; None if unknown for any
    reply_cache_usd: float | None = None
    flex_calls: int | None = None  # paid calls answered in the tier "flex"; None if the calls are unknown
    # p50_s, p95_s: seconds per paid call; None without one
    p50_s: float | None = None
    p95_s: float | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated calls, tokens and cost of an evaluation without any cached reply; None: unknown."""

    questions: int  # questions of the evaluation
    calls: int | None = None  # model calls
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None  # at the backbones' prices


def total_cost(stages: Sequence[StageRecord]) -> Cost:
    """Add up the calls of stages.

    Calls of a restored stage count as cached: an earlier run paid for them. A sum is None if its value is missing
    in a paid call, and 0 without paid calls. `from_scratch_usd` counts every distinct request once, without the
    failed attempts that a re-run replaced.
    """
    call_of_request = {
        call.request: call for stage in stages if stage.stage != FAILED_ATTEMPT for call in stage.calls
    }
    paid = [call for stage in stages for call in stage.paid_calls]
    cached = [call for stage in stages for call in stage.calls if stage.restored or call.cached]
    seconds = sorted(call.seconds for call in paid if call.seconds is not None)
    savings = [_savings(call) for call in paid]
    return Cost(
        calls=len(paid),
        cached_calls=len(cached),
        retries=sum(call.retries for call in paid),
        input_tokens=total([call.usage.input for call in paid]),
        cached_input_tokens=total([call.usage.cached_input for call in paid]),
        output_tokens=total([call.usage.output for call in paid]),
        reasoning_tokens=total([call.usage.reasoning for call in paid]),
        cost_usd=total([call.cost_usd for call in paid]),
        by_endpoint=sum(call.cost_source == "endpoint" for call in paid),
        from_scratch_usd=total([call.uncached_cost_usd for call in call_of_request.values()]),
        list_usd=total([saved.list_usd for saved in savings]),
        prompt_cache_usd=total([saved.prompt_cache_usd for saved in savings]),
        tier_usd=total([saved.tier_usd for saved in savings]),
        reply_cache_usd=total([call.uncached_cost_usd for call in cached]),
        flex_calls=sum(call.tier == "flex" for call in paid),
        p50_s=percentile(seconds, 50),
        p95_s=percentile(seconds, 95),
    )


def reported_cost(stages: Sequence[StageRecord]) -> Cost:
    """Return the cost of an agent's turns as the file of its trajectories reports it; other fields are None (unknown).

    If any turn has no model call in the file, everything is unknown, the number of model calls included. No call of a
    file is cached, so that the cost from scratch is the reported cost.
    """
    if not stages or not all(stage.calls for stage in stages):
        return Cost()
    cost = total_cost(stages)
    tokens = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens")
    reported = ("calls", *tokens, "cost_usd", "p50_s", "p95_s")
    return Cost(**{name: getattr(cost, name) for name in reported}, from_scratch_usd=cost.cost_usd)


class Savings(NamedTuple):
    """The list price of a paid call, and what of it the provider's prompt cache and the tier saved; None: unknown."""

    list_usd: float | None
    prompt_cache_usd: float | None
    tier_usd: float | None


def _savings(call: Call) -> Savings:
    """Return what a paid call saved; the tier saved the list price less the prompt cache's saving and the cost."""
    if call.cost_usd == 0 and call.list_usd is None:
        return Savings(0.0, 0.0, 0.0)  # a free model
    if call.list_usd is None or call.prompt_cache_usd is None or call.cost_usd is None:
        return Savings(call.list_usd, call.prompt_cache_usd, None)
    tier_usd = call.list_usd - call.prompt_cache_usd - call.cost_usd
    return Savings(call.list_usd, call.prompt_cache_usd, tier_usd)


def in_words(cost: Cost) -> str:
    """Return what was paid and, where that is another sum, what the same answers cost from scratch."""
    paid = "; ".join((f"paid {money(cost.cost_usd)}", *by_endpoint(cost)))
    if cost.from_scratch_usd == cost.cost_usd:
        return paid
    return f"{paid}; {money(cost.from_scratch_usd)} from scratch"


def calls_in_words(cost: Cost) -> str:
    """Return how many calls were paid or, at a price of zero, made, and how many the cache answered.

    >>> calls_in_words(Cost(calls=3, cached_calls=0, cost_usd=0.02))
    '3 calls paid, 0 from the cache'
    >>> calls_in_words(Cost(calls=1, cached_calls=0, cost_usd=0.0))
    '1 call, free of charge, 0 from the cache'
    """
    calls = "unknown calls" if cost.calls is None else counted(cost.calls, "call")
    paid = f"{calls}, free of charge" if cost.calls and cost.cost_usd == 0 else f"{calls} paid"
    return f"{paid}, {number(cost.cached_calls)} from the cache"


def by_endpoint(cost: Cost) -> tuple[str, ...]:
    """Return a clause on the calls whose cost is the endpoint's own figure; () if there are none."""
    if not cost.by_endpoint:
        return ()
    calls = counted(cost.calls or 0, "call")
    return (f"cost of {cost.by_endpoint:,} of {calls} as the endpoint reported it",)


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """Return the percentile of ascending numbers, interpolated between neighbours; None if there are no numbers.

    >>> percentile([1.0, 2.0, 3.0], 50), percentile([1.0, 2.0], 95), percentile([], 50)
    (2.0, 1.95, None)
    """
    if not ordered:
        return None
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def total(values: Sequence[N | None]) -> N | None:
    """Add up values; None if one of them is unknown."""
    reported = [value for value in values if value is not None]
    return sum(reported) if len(reported) == len(values) else None
