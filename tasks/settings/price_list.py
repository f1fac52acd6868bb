"""Prices that a backbone's file leaves out, from the price list that is installed with the extra `prices`."""

import datetime
import importlib.metadata
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tasks.settings.backbone import BackboneSettings, Prices, Rates

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

PACKAGE = "genai-prices"
_OWN_ADDRESS = dict.fromkeys(("openai", "openai-responses"), "https://api.openai.com/v1")
"""Endpoints of kinds whose settings name no `base_url`."""
_TIERS = {"flex": {"service_tier": "flex"}, "batch": {"processing": "batch"}}
"""Names of service tiers in the price list."""


def with_listed_prices(settings: BackboneSettings) -> BackboneSettings:
    """Return settings with the prices of the list for their provider and model where they have none of their own.

    Their own prices are not changed, but tiers that are missing in them are added if the list's standard prices are the
    same. A provider is found by the endpoint's address, never by the model's name alone: another provider may charge
    another price. Prices that depend on the time of day are not used.
    """
    own = settings.prices
    if own is not None and own.model in (None, settings.model) and own.flex and own.batch:
        return settings
    address = settings.base_url or _OWN_ADDRESS.get(settings.kind)
    if address is None or "." not in (urlsplit(address).hostname or "").strip("0123456789.:"):
        return settings  # free, or a server of one's own
    listed = _listed(settings.model, address)
    if listed is None:
        return settings
    if own is not None and own.model in (None, settings.model):
        names = ("input", "cached_input", "cache_write", "output")
        if any(getattr(own, name) not in (None, getattr(listed, name)) for name in names):
            return settings
        added = {
            name: found for name in _TIERS if not getattr(own, name) and (found := getattr(listed, name))
        }
        source = "; ".join(filter(None, (own.source, f"{', '.join(added)}: {listed.source}")))
        listed = own.model_copy(update={**added, "source": source}) if added else own
    return settings.model_copy(update={"prices": listed})


def _listed(model: str, address: str) -> Prices | None:
    """Return today's prices of a model in the installed list; None where it has none, or is not installed."""
    try:
        from genai_prices.data_snapshot import get_snapshot

        provider, found = get_snapshot().find_provider_model(model, None, None, address)
    except (ImportError, LookupError):
        return None
    source = f"{PACKAGE} {importlib.metadata.version(PACKAGE)} ({provider.id}: {found.id})"
    return _prices(model, provider, found, source)


def _prices(model: str, provider: "Provider", found: "ModelInfo", source: str) -> Prices | None:
    now = datetime.datetime.now(datetime.UTC)
    conditions = [each.constraint for each in found.prices] if isinstance(found.prices, list) else []
    starts = [date for each in conditions if (date := getattr(each, "start_date", None)) is not None]
    if len(starts) < sum(each is not None for each in conditions):
        return None  # the price depends on the time of day
    standard = _rates(found.get_prices(now))
    if standard is None:
        return None
    later = min((start for start in starts if start > now.date()), default=None)
    tiers = {name: _tier(found, context, now) for name, context in _TIERS.items()}
    return Prices(
        input=standard.input,
        cached_input=standard.cached_input,
        cache_write=standard.cache_write,
        output=standard.output,
        flex=tiers["flex"],
        batch=tiers["batch"],
        model=model,
        most_input=_most_input(found.get_prices(now)),
        valid_from=max((start for start in starts if start <= now.date()), default=None),
        valid_until=later - datetime.timedelta(days=1) if later else None,
        source=source,
    )


def _tier(found: "ModelInfo", context: dict[str, str], now: datetime.datetime) -> Rates | None:
    """Return the prices of a tier; None where the list has none for it."""
    if not any(variant.when == context for variant in found.price_variants or ()):
        return None
    return _rates(found.get_prices(now, context))


def _rates(listed: Any) -> Rates | None:
    """Return the prices of a tier as settings have them; None where input or output has none."""
    read, written = _usd(listed, "input_mtok"), _usd(listed, "output_mtok")
    if read is None or written is None:
        return None
    cached, cache_write = _usd(listed, "cache_read_mtok"), _usd(listed, "cache_write_mtok")
    return Rates(input=read, cached_input=cached, cache_write=cache_write, output=written)


def _usd(listed: Any, name: str) -> float | None:
    value = getattr(listed, name, None)
    value = getattr(value, "base", value)
    return float(value) if isinstance(value, Decimal | int | float) else None


def _most_input(listed: Any) -> int | None:
    """Return the input tokens up to which the base prices hold: where the first higher price starts."""
    starts = [tier.start for value in vars(listed).values() for tier in getattr(value, "tiers", ())]
    return min(starts, default=None)
