"""Records of a nightly run: one entry per evaluation, its verdict, and whether the run failed."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import computed_field

from tasks.core.wording import counted
from tasks.scoring.cost import Cost, total
from tasks.scoring.significance import holm_of_known
from tasks.settings.evaluation import Gate, Keep
from tasks.tracking.night.entry import WORSE, Colour, Entry, NightVerdict

MISSED_SHOWN = 7
_WORST_FIRST: tuple[Colour, ...] = ("Red", "Amber", "No baseline yet", "Green")


_CLAUSES: Mapping[NightVerdict, tuple[str, str]] = {
    "regression": (
        "is significantly worse than its baseline",
        "are significantly worse than their baselines",
    ),
    "infrastructure": ("had failed infrastructure", "had failed infrastructure"),
    "possibly worse": (
        "is worse than its baseline, which is not proven",
        "are worse than their baselines, which is not proven",
    ),
    "declining": ("is declining over the last nights", "are declining over the last nights"),
    "degraded": ("had stages that fell back", "had stages that fell back"),
}
"""What is said of one evaluation with a verdict, and of several."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """What earlier attempts of a nightly run paid, in US dollars."""

    usd: float | None = 0.0  # None if that is unknown: one of them was killed
    least_usd: float = 0.0  # the cost of the calls that are known


@dataclass(frozen=True, slots=True)
class Night:
    """A nightly run and its verdicts."""

    name: str
    gate: Gate  # when it fails
    entries: tuple[Entry, ...]  # in the order of the matrix
    # started, finished: when, in UTC
    started: datetime.datetime
    finished: datetime.datetime
    # what was evaluated, as the parameters of the flow
    matrix: Mapping[str, Any] = field(default_factory=dict)
    new_replies: bool = False  # whether new replies were requested although there were cached ones
    # what of old runs was kept when the working folder was cleaned afterwards; None: it was not cleaned
    keep: Keep | None = None
    cleaned: str = ""  # what the cleaning did, in sentences
    finish_by: str | None = None  # when it was to have ended, as the parameter says; None without a limit
    budget_usd: float | None = None  # limit on its cost in US dollars; None without a limit
    earlier: Earlier = Earlier()  # what earlier attempts under its name paid
    # when the schedule had nightly runs since the last one that left nothing here, in UTC
    missed: tuple[datetime.datetime, ...] = ()
    # when the schedule has the next one, in UTC; None without a schedule
    expected: datetime.datetime | None = None

    @property
    def red(self) -> tuple[Entry, ...]:
        """Entries that fail the nightly run."""
        return tuple(each for each in self.entries if each.colour == "Red")

    @property
    def worst_first(self) -> tuple[tuple[int, Entry], ...]:
        """Entries with their places in the matrix, from 1, the worst colour first."""
        return tuple(sorted(enumerate(self.entries, 1), key=lambda each: _WORST_FIRST.index(each[1].colour)))

    @property
    def worse(self) -> frozenset[str]:
        """Ids of the runs whose answers were found worse, those included in which infrastructure failed, too.

        The scores of these count unanswered questions as wrong, so the trend does not decide.
        """
        answered = [
            replace(each, problem="", decline=None) if each.problem else each for each in self.entries
        ]
        return frozenset(
            each.run_id for each in answered if each.run_id and _verdict(each, self.gate) in WORSE
        )

    @property
    def cost(self) -> Cost:
        """Calls and money of all evaluations; money is unknown if that of one is."""
        costs = [each.cost for each in self.entries if each.cost.calls is not None]
        return Cost(
            sum(cost.calls or 0 for cost in costs),
            sum(cost.cached_calls or 0 for cost in costs),
            cost_usd=total([cost.cost_usd for cost in costs]),
            from_scratch_usd=total([cost.from_scratch_usd for cost in costs]),
            list_usd=total([cost.list_usd for cost in costs]),
            prompt_cache_usd=total([cost.prompt_cache_usd for cost in costs]),
            tier_usd=total([cost.tier_usd for cost in costs]),
            reply_cache_usd=total([cost.reply_cache_usd for cost in costs]),
        )

    @computed_field
    @property
    def paid_usd(self) -> float | None:
        """What it and earlier attempts under its name paid, in US dollars; None if that of an evaluation is unknown."""
        return total([self.cost.cost_usd, self.earlier.usd])

    @computed_field
    @property
    def paid_least_usd(self) -> float | None:
        """The same, where calls of earlier attempts whose cost is unknown count 0: it paid this or more."""
        return total([self.cost.cost_usd, self.earlier.least_usd])

    @computed_field
    @property
    def forecast_usd(self) -> float | None:
        """Forecast of `cost.from_scratch_usd`; None if that of an evaluation is unknown. Free ones have none."""
        return total([each.forecast_usd for each in self.entries if each.cost.from_scratch_usd != 0])

    @computed_field
    @property
    def colour(self) -> Colour:
        """The worst colour of its entries; green if at least one was compared, or none has to be."""
        colours = {each.colour for each in self.entries}
        order: tuple[Colour, ...] = ("Red", "Amber", "Green", "No baseline yet")
        return next((colour for colour in order if colour in colours), "Green")

    @computed_field
    @property
    def verdict(self) -> str:
        """What was found, in one or two sentences."""
        clauses = [
            f"{len(names)} of {self._counted} {clause[len(names) > 1]}: {', '.join(names)}"
            for verdict, clause in _CLAUSES.items()
            if (names := [each.named for each in self.entries if each.verdict == verdict])
        ]
        if clauses:
            found = f"{'; '.join(clauses)}{self._rest}."
        elif self.colour == "No baseline yet":
            found = f"{self._counted}, none compared. The next nightly run is compared with this one."
        else:
            found = f"{self._counted}, no significant loss{self._rest}."
        return f"{found} {self._missed}".strip()

    @property
    def _missed(self) -> str:
        if not self.missed:
            return ""
        nights = "nightly run was" if len(self.missed) == 1 else "nightly runs were"
        times = ", ".join(f"{each:%Y-%m-%d %H:%M}" for each in self.missed[-MISSED_SHOWN:])
        first = "the last of them " if len(self.missed) > MISSED_SHOWN else ""
        return f"{len(self.missed)} {nights} missed since the one before: {first}{times} UTC."

    @property
    def _counted(self) -> str:
        return counted(len(self.entries), "evaluation")

    @property
    def _rest(self) -> str:
        """Count the entries without a verdict."""
        without = sum(each.verdict == "no baseline" for each in self.entries)
        unranked = sum(each.verdict == "not ranked" for each in self.entries)
        counts = [
            *([f"{without} {'has' if without == 1 else 'have'} no baseline yet"] if without else []),
            *([f"{unranked} {'is' if unranked == 1 else 'are'} not ranked"] if unranked else []),
        ]
        return "".join(f"; {each}" for each in counts)


def judge(gate: Gate, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Judge every entry; p-values of comparisons and of trends are adjusted for the number of each (Holm)."""
    compared = holm_of_known([entry.p_value for entry in entries])
    trends = holm_of_known([entry.decline.p_value if entry.decline else None for entry in entries])
    adjusted = (
        replace(entry, adjusted_p=p_value, trend_p=trend_p)
        for entry, p_value, trend_p in zip(entries, compared, trends, strict=True)
    )
    return tuple(replace(entry, verdict=_verdict(entry, gate)) for entry in adjusted)


def _verdict(entry: Entry, gate: Gate) -> NightVerdict:
    # A regression on the answered questions comes before an infrastructure failure.
    found, points = entry.comparison, 100 * entry.comparison.difference if entry.comparison else 0.0
    proven = entry.adjusted_p is not None and entry.adjusted_p < gate.level
    lost = points < 0 and -points >= gate.threshold
    if proven and lost:
        return "regression"
    if entry.problem:
        return "infrastructure"
    if lost and entry.p_value is not None and entry.p_value < gate.doubt_level:
        return "possibly worse"
    declines = entry.decline is not None and -100 * entry.decline.change >= gate.threshold
    if declines and entry.trend_p is not None and entry.trend_p < gate.trend_level:
        return "declining"
    if entry.degraded >= gate.degraded_share:
        return "degraded"
    if proven and points > 0:
        return "better"
    if entry.not_ranked:
        return "not ranked"
    return "no worse" if found else "no baseline"
