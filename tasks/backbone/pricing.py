"""Cost of a call: tokens times a dated price."""

from tasks.records import Usage
from tasks.settings.backbone import BackboneSettings, Prices

PER_TOKENS = 1_000_000


def cost(usage: Usage, prices: Prices | None) -> float | None:
    """Return the price of one call in USD; None when the price or one of the token counts is unknown.

    Input served from the provider's own prompt cache is priced apart where the provider reported it; where it
    did not, all input counts as uncached, so the figure is an upper bound. Reasoning is part of the output.

    >>> import datetime
    >>> prices = Prices(input=2.0, output=8.0, as_of=datetime.date(2025, 4, 14))
    >>> cost(Usage(input=500_000, output=250_000), prices)
    3.0
    >>> cost(Usage(input=500_000), prices) is None
    True
    """
    if prices is None or usage.input is None or usage.output is None:
        return None
    cached = min(usage.cached_input or 0, usage.input)
    cached_price = prices.input if prices.cached_input is None else prices.cached_input
    total = (usage.input - cached) * prices.input + cached * cached_price + usage.output * prices.output
    return total / PER_TOKENS


def prices_for(settings: BackboneSettings) -> Prices | None:
    """Return the prices that hold for the model of these settings; None when there are none for it.

    Prices that name their model do not follow a `--set backbone.model=...` to another one.
    """
    prices = settings.prices
    if prices is not None and prices.model is not None and prices.model != settings.model:
        return None
    return prices
