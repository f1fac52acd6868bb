"""Limits of a nightly run on its time and its cost, split over its evaluations."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from flows.questions.budget import check_budget
from tasks.backbone.pricing import Budget
from tasks.core.errors import ConfigurationError
from tasks.core.outcome import STANDARD
from tasks.core.times import next_time
from tasks.settings.evaluation import EvaluationSettings

OVER = "not begun: the budget of the nightly run is spent"
CONTINUES = "The nightly run continues under the same name with a higher budget_usd"


@dataclass
class NightLimits:
    """What is left of the time and the budget of a nightly run.

    Each evaluation gets an equal share of what is left; what it does not use is left for those after it.
    """

    finish_by: datetime.datetime | None = None  # when the nightly run must end; None: no limit
    left_usd: float | None = None  # what may still be spent, in US dollars; None: no limit

    @property
    def spent(self) -> bool:
        """Whether nothing is left of the budget."""
        return self.left_usd is not None and self.left_usd <= 0

    def limited(self, settings: EvaluationSettings, left: int) -> EvaluationSettings:
        """Return the settings of an evaluation with its share of the time; `left` counts it and those after it."""
        if self.finish_by is None or settings.backbone.tier == STANDARD:
            return settings
        now = datetime.datetime.now(datetime.UTC)
        end = now + max(datetime.timedelta(), self.finish_by - now) / left
        backbone = settings.backbone.model_copy(update={"finish_by": end.isoformat(timespec="seconds")})
        return settings.model_copy(update={"backbone": backbone})

    def budget(self, left: int) -> Budget | None:
        """Return an evaluation's share of the budget; None without a limit."""
        return None if self.left_usd is None else Budget(self.left_usd / left, CONTINUES)

    def count(self, budget: Budget | None) -> None:
        """Subtract what an evaluation has spent."""
        if self.left_usd is not None and budget is not None:
            self.left_usd -= budget.spent_usd


def night_limits(
    evaluations: Sequence[EvaluationSettings], finish_by: str | None, budget_usd: float | None
) -> NightLimits:
    """Return the limits of a nightly run.

    Raises:
        ConfigurationError: the time cannot be read, no evaluation could use it, or a budget cannot be kept.
    """
    check_budget(evaluations, budget_usd, "budget_usd")
    if finish_by is None:
        return NightLimits(None, budget_usd)
    try:
        end = next_time(finish_by, datetime.datetime.now().astimezone())
    except ValueError:
        raise ConfigurationError(
            f'finish_by: "{finish_by}" is neither a time of day, 07:00, nor an ISO 8601 time.'
        ) from None
    if all(each.backbone.tier == STANDARD for each in evaluations):
        raise ConfigurationError(
            "finish_by: all backbones of the matrix send their requests in the standard tier already. Set "
            "backbone.tier to flex or batch, or leave finish_by out."
        )
    return NightLimits(end, budget_usd)
