"""The bill of a run: the list price of its calls, and what was saved of it."""

from tasks.core.wording import money, number
from tasks.documents.model import Table
from tasks.scoring.cost import Cost
from tasks.tracking.run_record import RunRecord


def bill_of_run(record: RunRecord) -> Table | None:
    """Return what was saved of the list price, by stage; None if that is unknown or nothing is charged."""
    cost = record.cost
    if not cost.list_usd and not cost.reply_cache_usd:
        return None
    stages = [(name, cost) for name, cost in record.stage_costs.items() if cost.calls or cost.cached_calls]
    rows = [(name, *map(money, _steps(each))) for name, each in (*stages, ("all", cost))]
    headers = (
        "stage", "list price", "saved by prompt cache", "saved by tier", "paid", "saved by reply cache", "from scratch"
    )  # fmt: skip
    remarks = [
        "list price less what the provider's prompt cache and a cheaper tier saved is what was paid; the reply cache "
        "saved what its replies cost when they were paid"
    ]
    if cost.flex_calls:
        remarks.append(f"answered in the tier flex: {cost.flex_calls:,} of {number(cost.calls)} paid calls")
    if (text := forecast_in_words(record)) is not None:
        remarks.append(text)
    right, scratch = record.score.correct, cost.from_scratch_usd
    if right and scratch is not None:
        remarks.append(
            f"per right answer: {money(scratch / right)} from scratch ({money(scratch)} / {right:,})"
        )
    return Table("Bill", headers, (*rows[:-1], None, rows[-1]), "; ".join(remarks))


def forecast_in_words(record: RunRecord) -> str | None:
    """Return the forecast of a run's cost beside the actual one; None if either is unknown."""
    forecast, scratch = record.forecast, record.cost.from_scratch_usd
    if forecast is None or forecast.cost_usd is None or scratch is None:
        return None
    share = f", {scratch / forecast.cost_usd:.2f} times the forecast" if forecast.cost_usd else ""
    estimated = f"forecast: {money(forecast.cost_usd)} for {number(forecast.calls)} calls"
    return f"{estimated}; from scratch: {money(scratch)}{share}"


def _steps(cost: Cost) -> tuple[float | None, ...]:
    saved = (cost.prompt_cache_usd, cost.tier_usd)
    return (cost.list_usd, *saved, cost.cost_usd, cost.reply_cache_usd, cost.from_scratch_usd)
