"""Forecast of an evaluation's cost, and of its time where its requests go into batches, before the first question."""

import asyncio
from statistics import median

from flows.evaluation.session import ScoredSession
from flows.questions.estimate import estimate, is_free
from tasks.backbone.pricing import prices_for
from tasks.backbone.tiers import BATCH
from tasks.core.wording import duration, money, number
from tasks.scoring.cost import Estimate

LONGEST_S = 20.0
"""Seconds after which an estimate is given up: the SQL of its sample is slow."""


async def forecast(session: ScoredSession) -> Estimate | None:
    """Return the estimated cost of a session's questions, and show it.

    Returns:
        None for a model without a price, and if the estimate takes too long.
    """
    settings, progress = session.preparation.settings, session.session.control.progress
    batched = settings.backbone.tier == BATCH
    if is_free(settings) or (prices_for(settings.backbone) is None and not batched):
        return None
    progress.step("Estimating the cost")
    try:
        found = await asyncio.wait_for(
            estimate(session.preparation, session.session.tools.workers), LONGEST_S
        )
    except TimeoutError:
        return None
    if found.calls is not None:
        progress.step(
            f"Forecast without cached replies: {number(found.calls)} calls, {money(found.cost_usd)}"
        )
    if batched and found.rounds:
        progress.step(_expected(found.rounds, session.session.batch_seconds))
    return found


def _expected(rounds: int, earlier: list[float]) -> str:
    """Say how long batches that follow each other may take, by how long earlier ones took."""
    text = f"Up to {rounds} batches follow each other" if rounds > 1 else "One batch is submitted"
    if not earlier:
        return (
            f"{text}. No earlier batch of this endpoint says how long one takes; the limit is 24 hours each."
        )
    usual = median(earlier)
    return (
        f"{text}: about {duration(rounds * usual)}, if each takes {duration(usual)} (median of earlier batches at this "
        f"endpoint: {len(earlier):,})"
    )
