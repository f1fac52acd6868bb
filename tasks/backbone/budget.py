"""Limit on the total cost of several evaluations, checked before each request."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.backbone.pricing import cost
from tasks.backbone.protocol import Backbone, Reply, Request
from tasks.core.errors import BackboneError
from tasks.core.outcome import Usage
from tasks.settings.backbone import Prices

CHARACTERS_PER_TOKEN = 4


@dataclass
class Budget:
    """Limit on the cost of requests, and the cost so far."""

    limit_usd: float  # limit on the cost
    spent_usd: float = 0.0  # cost so far
    refused: bool = False  # whether a request was refused because the budget was spent


class BudgetedBackbone:
    """Backbone that refuses requests once a budget is spent, with a fatal error, as an exhausted quota does.

    Calls in flight at that moment are still answered and paid: at most as many as the backbone allows at a time. The
    cost of a call whose tokens the endpoint does not report is estimated from its length.
    """

    def __init__(self, inner: Backbone, budget: Budget, prices: Prices | None) -> None:
        self.inner = inner
        self._budget = budget
        self._prices = prices

    @property
    def identity(self) -> Mapping[str, Any]:
        """The inner backbone's: a budget changes no answer."""
        return self.inner.identity

    async def complete(self, request: Request) -> Reply:
        """Answer one request.

        Raises:
            BackboneError: the budget is spent, or the inner backbone gave no answer.
        """
        budget = self._budget
        if budget.spent_usd >= budget.limit_usd:
            budget.refused = True
            raise BackboneError(
                f"the budget of {budget.limit_usd:g} USD is spent. Everything answered is kept: the same command with "
                "a higher --budget continues.",
                transient=False,
                fatal=True,
            )
        reply = await self.inner.complete(request)
        if not reply.call.cached:
            budget.spent_usd += self._price(request, reply)
        return reply

    def _price(self, request: Request, reply: Reply) -> float:
        if reply.call.cost_usd is not None:
            return reply.call.cost_usd
        sent = sum(len(message.content) for message in request.messages)
        guessed = Usage(input=tokens(sent), output=tokens(len(reply.text)))
        return cost(guessed, self._prices) or 0.0


def tokens(characters: int) -> int:
    """Estimate the number of tokens of a text."""
    return -(-characters // CHARACTERS_PER_TOKEN)
