"""A limit on the cost of several evaluations."""

from dataclasses import dataclass

from tasks.backbone.pricing import cost, prices_for, tokens
from tasks.backbone.protocol import Reply, Request, sent_texts, stored_text
from tasks.core.errors import BackboneError
from tasks.core.outcome import Usage
from tasks.core.wording import counted, money
from tasks.settings.backbone import BackboneSettings


@dataclass
class Budget:
    """Limit on the cost of requests, and the cost so far.

    Calls in flight when the budget is spent are still answered and paid: at most as many as the backbone allows at a
    time. The cost of a call whose tokens the endpoint does not report is estimated from its length. If it has no price
    either, the budget cannot be kept, and no further request is sent.
    """

    limit_usd: float  # limit on the cost
    # how to go on after it is spent, without a period
    continues: str = "The same command with a higher --budget continues"
    spent_usd: float = 0.0  # cost so far, with that of the estimated calls
    estimated_calls: int = 0  # calls whose cost is estimated
    unknown: str = ""  # why the cost so far is not known; "" if it is
    refused: bool = False  # whether a request was refused because the budget was spent, or cannot be kept

    @property
    def known_usd(self) -> float | None:
        """Cost so far; None if that of any call is estimated or unknown."""
        return None if self.unknown or self.estimated_calls else self.spent_usd

    def __str__(self) -> str:
        """Return what is spent, as a sentence."""
        of_limit = f"of {money(self.limit_usd)}"
        if self.unknown:
            return f"Spent an unknown amount {of_limit}: {self.unknown}."
        if not self.estimated_calls:
            return f"Spent {money(self.spent_usd)} {of_limit}."
        calls = counted(self.estimated_calls, "call")
        return f"Spent about {money(self.spent_usd)} {of_limit}: the cost of {calls} is estimated from their length."

    def check(self) -> None:
        """Refuse a further request if the budget is spent or cannot be kept."""
        if not self.unknown and self.spent_usd < self.limit_usd:
            return
        self.refused = True
        budget = f"the budget of {money(self.limit_usd)}"
        why = f"{self.unknown}, so {budget} cannot be kept" if self.unknown else f"{budget} is spent"
        message = f"{why}. Everything answered is kept. {self.continues}."
        raise BackboneError(message, transient=True, fatal=True, retried=True)

    def charge(self, request: Request, reply: Reply, settings: BackboneSettings) -> None:
        """Add the cost of a call."""
        usd = reply.call.cost_usd
        if usd is None:
            sent_characters = sum(map(len, sent_texts(request)))
            estimate = Usage(input=tokens(sent_characters), output=tokens(len(stored_text(reply))))
            usd = cost(estimate, prices_for(settings), reply.call.tier)
            self.estimated_calls += 1
        if usd is None:  # no price either
            self.unknown = f"the cost of a call to {settings.name} is unknown"
        else:
            self.spent_usd += usd
