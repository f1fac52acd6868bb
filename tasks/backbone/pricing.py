"""Cost of a call: tokens times a dated price."""

import datetime
from dataclasses import replace

from tasks.core.outcome import STANDARD, Call, Usage
from tasks.settings.backbone import BackboneSettings, Prices

PER_TOKENS = 1_000_000


def cost(usage: Usage, prices: Prices | None, tier: str = STANDARD) -> float | None:
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
    >>> cost(Usage(input=500_000, output=0), prices, "flex") is None
    True
    """
    rates = prices.rates(tier) if prices else None
    if prices is None or rates is None or usage.input is None or usage.output is None:
        return None
    cache_read = min(usage.cached_input or 0, usage.input)
    cache_write = min(usage.cache_write or 0, usage.input - cache_read)
    is_too_long = prices.most_input is not None and usage.input > prices.most_input
    if is_too_long or (cache_write and rates.cache_write is None):
        return None
    read_rate = rates.input if rates.cached_input is None else rates.cached_input
    input_usd = (usage.input - cache_read - cache_write) * rates.input + cache_read * read_rate
    write_usd = cache_write * (rates.cache_write or 0.0)
    return (input_usd + write_usd + usage.output * rates.output) / PER_TOKENS


def priced(call: Call, settings: BackboneSettings) -> Call:
    """Return a call with its cost at today's prices: in its tier, at the list price, and what a prompt cache saved."""
    prices = prices_for(settings)
    usage = call.usage
    list_usd = cost(replace(usage, cached_input=0, cache_write=0), prices)
    standard_usd = cost(usage, prices)
    usd = cost(usage, prices, call.tier)
    saved_usd = None
    if list_usd is not None and standard_usd is not None and usd is not None:
        saved_usd = list_usd - standard_usd
    return replace(call, cost_usd=usd, list_usd=list_usd, prompt_cache_usd=saved_usd)


def prices_for(settings: BackboneSettings) -> Prices | None:
    """Return the prices that hold for the model of these settings today; None when there are none for it.

    Prices that name their model do not follow a `--set backbone.model=...` to another one.
    """
    return None if why_unpriced(settings) else settings.prices


def why_unpriced(settings: BackboneSettings) -> str:
    """Return why the cost of the model's calls of today is unknown; "" if the settings have its prices."""
    prices = settings.prices
    today = datetime.datetime.now(datetime.UTC).date()
    if prices is None:
        return "it has no prices"
    if prices.model is not None and prices.model != settings.model:
        return f"its prices are those of {prices.model}, not of {settings.model}"
    if prices.valid_from and today < prices.valid_from:
        return f"its prices hold from {prices.valid_from}"
    if prices.valid_until and today > prices.valid_until:
        return f"its prices held until {prices.valid_until}"
    if prices.rates(settings.tier) is None:
        return f"it has no prices of the tier {settings.tier}"
    return ""


CHARACTERS_PER_TOKEN = 4


def tokens(characters: int) -> int:
    """Estimate the number of tokens of a text."""
    return -(-characters // CHARACTERS_PER_TOKEN)
