"""One evaluation of a nightly run: its score, what it is compared with, its trend and its verdict."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import computed_field

from tasks.core.wording import points
from tasks.scoring.cost import Cost
from tasks.scoring.score import Accuracy, Score
from tasks.scoring.significance import PairedTest
from tasks.tracking.night.trend import Trend
from tasks.tracking.repeats.measured import MeasuredNoise

NightVerdict = Literal[
    "regression",
    "infrastructure",
    "possibly worse",
    "declining",
    "degraded",
    "better",
    "no worse",
    "no baseline",
    "not ranked",
]
Colour = Literal["Red", "Amber", "Green", "No baseline yet"]
"""Result of an evaluation or of a nightly run; "No baseline yet": nothing was compared."""
RED: tuple[NightVerdict, ...] = ("regression", "infrastructure")
WORSE: tuple[NightVerdict, ...] = ("regression", "possibly worse", "declining")
"""Verdicts on the answers: a run with one of them becomes no baseline by itself."""
AMBER: tuple[NightVerdict, ...] = ("possibly worse", "declining", "degraded")


@dataclass(frozen=True, slots=True)
class Past:
    """The score of one run of the same combination; `started` is in UTC."""

    run_id: str
    started: datetime.datetime
    ex: Accuracy


@dataclass(frozen=True, slots=True)
class Entry:
    """One evaluation of a nightly run."""

    benchmark: str
    backbone: str
    pipeline: str
    problem: str = ""  # why infrastructure failed, "" where it did not
    # command that evaluates again, or sends the unanswered questions again; "" where all are answered
    continue_with: str = ""
    run_id: str | None = None  # of the run; None where the evaluation did not start
    rule: str = ""  # by which its answers are right; "" likewise
    ex: Accuracy | None = None  # its execution accuracy; None likewise
    # its scores by score variants, by name. The gate does not see them.
    variants: Mapping[str, Score] = field(default_factory=dict)
    unanswered: int = 0  # questions without an answer after a retryable failure
    # questions without an answer by the kind of their failure
    failures: Mapping[str, int] = field(default_factory=dict)
    # calls, money and seconds per paid call; unknown where the evaluation did not start
    cost: Cost = field(default_factory=Cost)
    forecast_usd: float | None = None  # its forecast from scratch; None if unknown
    seconds: float | None = None  # how long it took
    # VES, R-VES and `ves_steps` by these names; empty where run times were not measured
    efficiency: Mapping[str, float] = field(default_factory=dict)
    degraded: float = 0.0  # share of the answered questions with a stage that fell back; 0 to 1
    degradation: tuple[str, ...] = ()  # which stages fell back, in sentences
    notes: tuple[str, ...] = ()  # further remarks, in sentences
    not_ranked: str = ""  # why it must not be ranked, as a clause without its subject; "" where it may
    baseline: str | None = None  # the run it is compared with; None where there is none
    pinned: str = ""  # who pinned the baseline, when and why; "" where it is the last run that was not worse
    comparison: PairedTest | None = None  # with the baseline as A; None likewise
    noise: MeasuredNoise | None = (
        None  # the measured flip rate by which the comparison is judged; None without one
    )
    trend: tuple[Past, ...] = ()  # scores of the same combination, the oldest first, this one last
    decline: Trend | None = None  # the test of the last scores for a trend; None of too few
    # whether it is worse or better than its baseline, or why that is unknown; None before it is judged
    verdict: NightVerdict | None = None
    # of the comparison, adjusted for the number of comparisons of the nightly run; None without one
    adjusted_p: float | None = None
    # of the trend, adjusted for the number of trends that were tested; None likewise
    trend_p: float | None = None

    @property
    def name(self) -> str:
        """Name in messages, and of the baseline in the parameters."""
        return f"{self.benchmark} | {self.backbone} | {self.pipeline}"

    @property
    def model_and_pipeline(self) -> str:
        """What distinguishes evaluations of one benchmark."""
        return f"{self.pipeline} with {self.backbone}"

    @computed_field
    @property
    def p_value(self) -> float | None:
        """The p-value that the gate uses: by the measured flip rate if it decides, else of the exact McNemar test."""
        found = self.comparison
        if found is None or self.noise is None or not self.noise.decides:
            return found.p_value if found else None
        return self.noise.p_value(len(found.fixed), len(found.broken))

    @property
    def before(self) -> Accuracy | None:
        """The baseline's right answers, of the questions that are compared; None without a comparison."""
        found = self.comparison
        return Accuracy(found.right_a, found.questions) if found else None

    @computed_field
    @property
    def colour(self) -> Colour:
        """Red where the nightly run fails for it."""
        if self.verdict == "no baseline":
            return "No baseline yet"
        return "Red" if self.verdict in RED else "Amber" if self.verdict in AMBER else "Green"

    @property
    def named(self) -> str:
        """Name of the evaluation, with the points that it lost or won against its baseline."""
        found = self.comparison
        return f"{self.name} ({points(found.difference)} points)" if found else self.name
