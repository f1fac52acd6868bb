"""What a conversation has spent of its limits, and what the model is told about it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.core.outcome import StageRecord
from tasks.settings.stages import AgentLimits
from tasks.stage_runs import prompts
from tasks.stages.agent.conversation import Conversation
from tasks.stages.agent.toolbox import TEMPLATE

NEAR_TURNS = 2
"""Turns left from which on the model is told so."""
NEAR_CALLS = 5
"""The same of tool calls."""
NEAR_BUDGET = 0.8
"""Share of the tokens or the money, spent, from which on it is told so."""


@dataclass(frozen=True)
class Spending:
    """What is spent of the limits of one question."""

    limits: AgentLimits
    turns: int  # turns taken
    calls: int  # tool calls executed
    tokens: int  # tokens of all model calls for the question, as far as they were reported
    usd: float  # what these calls cost without the reply cache, as far as that is known

    @classmethod
    def of(
        cls, conversation: Conversation, records: Sequence[StageRecord], limits: AgentLimits
    ) -> "Spending":
        """Return what a conversation has spent, with the stages before it."""
        calls = [call for record in records for call in record.rounds]
        tokens = sum((call.usage.input or 0) + (call.usage.output or 0) for call in calls)
        usd = sum(call.uncached_cost_usd or 0.0 for call in calls)
        return cls(limits, len(conversation.turns), conversation.calls, tokens, usd)

    @property
    def reached(self) -> str:
        """Which limit is reached, so that no further turn begins; "" for none."""
        limits = self.limits
        if self.turns >= limits.turns:
            return f"the limit of {limits.turns} turns was reached"
        if limits.tokens is not None and self.tokens >= limits.tokens:
            return f"the limit of {limits.tokens:,} tokens was reached"
        if limits.usd is not None and self.usd >= limits.usd:
            return f"the limit of ${limits.usd:g} was reached"
        return ""

    @property
    def allowed(self) -> int:
        """How many tool calls the next turn may execute."""
        return min(self.limits.calls_per_turn, max(0, self.limits.calls - self.calls))

    @property
    def notice(self) -> str:
        """What the model is told about limits that are near; "" for nothing."""
        limits = self.limits
        turns, calls = limits.turns - self.turns, limits.calls - self.calls
        near_turns = turns if turns <= NEAR_TURNS else None
        near_calls = max(0, calls) if calls <= NEAR_CALLS else None
        near_budget = any(
            limit is not None and spent >= NEAR_BUDGET * limit
            for spent, limit in ((self.tokens, limits.tokens), (self.usd, limits.usd))
        )
        if near_turns is None and near_calls is None and not near_budget:
            return ""
        about = {"turns": near_turns, "calls": near_calls, "budget": near_budget}
        return prompts.render(TEMPLATE, "notice", **about).strip()
