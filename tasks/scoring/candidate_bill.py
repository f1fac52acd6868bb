"""What the candidates of a question cost, and what choosing among them cost, as a run without a cache would pay it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tasks.backbone.pricing import cost
from tasks.core.outcome import FAILED_ATTEMPT, Call, StageRecord
from tasks.settings.backbone import Prices
from tasks.stage_runs.question_run import split_label

UNITS = ("usd", "tokens", "calls")
"""Units of what candidates cost, the most telling first."""


@dataclass(frozen=True, slots=True)
class CandidateSetup:
    """How the candidates of a run were made."""

    n: int  # candidates per question
    select: str  # how one of them was selected
    # of the backbones that wrote them, in their turns; None where unknown
    prices: tuple[Prices | None, ...] = (None,)
    own_prices: Prices | None = None  # of the backbone that selected; None where unknown


@dataclass(frozen=True, slots=True)
class Bill:
    """Calls, their tokens (input and output) and their price, the cached ones as if they were paid; None: unknown."""

    calls: int = 0
    tokens: int | None = 0
    usd: float | None = 0.0

    def __add__(self, other: "Bill") -> "Bill":
        tokens = None if self.tokens is None or other.tokens is None else self.tokens + other.tokens
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Bill(self.calls + other.calls, tokens, usd)


@dataclass(frozen=True, slots=True)
class CandidateBill:
    """The bill of candidates, and that of selecting."""

    written: Bill = field(default_factory=Bill)
    selected: Bill = field(default_factory=Bill)

    def __add__(self, other: "CandidateBill") -> "CandidateBill":
        return CandidateBill(self.written + other.written, self.selected + other.selected)


def bill_of(records: Iterable[StageRecord], setup: CandidateSetup) -> CandidateBill:
    """Return what the stages of a question cost, without failed attempts of a re-run."""
    total = CandidateBill()
    for record in records:
        if record.stage == FAILED_ATTEMPT:
            continue
        candidate = split_label(record.label)[1]
        prices = setup.own_prices if candidate is None else setup.prices[(candidate - 1) % len(setup.prices)]
        for call in record.rounds:
            one = _bill(call, prices)
            total += CandidateBill(selected=one) if candidate is None else CandidateBill(written=one)
    return total


def _bill(call: Call, prices: Prices | None) -> Bill:
    usage = call.usage
    tokens = None if usage.input is None or usage.output is None else usage.input + usage.output
    usd = call.cost_usd if call.cost_usd is not None and not call.cached else cost(usage, prices)
    return Bill(1, tokens, usd)
