"""Cost of a call, tokens times a dated price, and a limit on the cost of several evaluations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.backbone.protocol import Backbone, Reply, Request
from tasks.core.errors import BackboneError
from tasks.core.outcome import Usage
from tasks.settings.backbone import BackboneSettings, Prices

PER_TOKENS = 1_000_000


def cost(usage: Usage, prices: Prices | None) -> float | None:
    """Return the price of one call in USD; None when the price or one of the token counts is unknown.

    Input that the provider read from its own prompt cache, or wrote to it, has prices of its own. Where the provider
    does not report these tokens, they count as ordinary input: the true cost is lower by what was read, and higher by
    what was written. The cost is unknown if tokens were written and there is no price for that. Reasoning is part of
    the output.

    >>> import datetime
    >>> prices = Prices(input=2.0, output=8.0, as_of=datetime.date(2025, 4, 14))
    >>> cost(Usage(input=500_000, output=250_000), prices)
    3.0
    >>> cost(Usage(input=500_000), prices) is None
    True
    >>> cost(Usage(input=500_000, output=0, cache_write=400_000), prices.model_copy(update={"cache_write": 2.5}))
    1.2
    """
    if prices is None or usage.input is None or usage.output is None:
        return None
    read = min(usage.cached_input or 0, usage.input)
    written = min(usage.cache_write or 0, usage.input - read)
    if written and prices.cache_write is None:
        return None
    total = (
        (usage.input - read - written) * prices.input
        + read * (prices.input if prices.cached_input is None else prices.cached_input)
        + written * (prices.cache_write or 0.0)
        + usage.output * prices.output
    )
    return total / PER_TOKENS


def prices_for(settings: BackboneSettings) -> Prices | None:
    """Return the prices that hold for the model of these settings; None when there are none for it.

    Prices that name their model do not follow a `--set backbone.model=...` to another one.
    """
    prices = settings.prices
    if prices is not None and prices.model is not None and prices.model != settings.model:
        return None
    return prices


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
