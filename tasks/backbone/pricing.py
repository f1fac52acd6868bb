"""Cost of a call: tokens times a dated price."""

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
