"""One evaluation of a nightly run: its score, what it is compared with, its trend and its verdict."""

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import NormalDist, median
from typing import Any, Literal

from pydantic import computed_field

from tasks.core.wording import points
from tasks.results.noise import MeasuredNoise
from tasks.results.run_record import RunRecord
from tasks.scoring.cost import Cost
from tasks.scoring.score import Accuracy, Score
from tasks.scoring.significance import PairedTest

MIN_SCORES = 7
"""Scores that a test needs: of fewer, the normal approximation of its p-value is poor."""


@dataclass(frozen=True, slots=True)
class Trend:
    """The trend of successive scores."""

    scores: int  # how many there are
    slope: float  # Sen's slope, as a share per score: the median of the slopes between all pairs
    p_value: float  # one-sided Mann-Kendall test that the scores do not decline

    @property
    def change(self) -> float:
        """What the slope makes from the first score to the last, as a share."""
        return self.slope * (self.scores - 1)


def trend_of(scores: Sequence[float]) -> Trend | None:
    """Return the trend of successive scores, the oldest first; None of fewer than MIN_SCORES.

    The test (Mann, 1945; Kendall, 1975) counts the pairs in which the later score is lower, so one bad score does not
    make a trend; its p-value is the normal approximation with the corrections for continuity and ties. The slope is
    Sen's (1968).

    >>> found = trend_of([0.60, 0.61, 0.59, 0.60, 0.57, 0.58, 0.56, 0.55])
    >>> round(found.slope, 4), round(found.p_value, 4)
    (-0.0075, 0.0063)
    """
    count = len(scores)
    if count < MIN_SCORES:
        return None
    pairs = [(later, earlier) for later in range(count) for earlier in range(later)]
    signs = sum(
        (scores[later] > scores[earlier]) - (scores[later] < scores[earlier]) for later, earlier in pairs
    )
    ties = Counter(scores).values()
    variance = (_spread(count) - sum(map(_spread, ties))) / 18
    p_value = NormalDist().cdf((signs + 1) / sqrt(variance)) if signs < 0 else 1.0
    slope = median((scores[later] - scores[earlier]) / (later - earlier) for later, earlier in pairs)
    return Trend(count, slope, p_value)


def _spread(count: int) -> int:
    return count * (count - 1) * (2 * count + 5)


NightVerdict = Literal[
    "regression",
    "infrastructure",
    "too many unanswered",
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
INCOMPLETE: tuple[NightVerdict, ...] = ("infrastructure", "too many unanswered")
"""Verdicts on evaluations of which something is left to ask."""
RED: tuple[NightVerdict, ...] = ("regression", *INCOMPLETE)
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
class NightEntry:
    """One evaluation of a nightly run."""

    benchmark: str
    backbone: str
    pipeline: str
    problem: str = ""  # why it is incomplete or cannot be compared, "" where it is complete
    # command that evaluates again, or sends the unanswered questions again; "" where all are answered
    continue_with: str = ""
    run_id: str | None = None  # of the run; None where the evaluation did not start
    rule: str = ""  # by which its answers are right; "" without a run
    ex: Accuracy | None = None  # its execution accuracy; None without a run
    # its scores by score variants, by name. The gate does not see them.
    variants: Mapping[str, Score] = field(default_factory=dict)
    retryable: int = 0  # questions without an answer after a retryable failure
    # questions without an answer by the kind of their failure
    failures: Mapping[str, int] = field(default_factory=dict)
    # calls, money and seconds per paid call; unknown where the evaluation did not start
    cost: Cost = field(default_factory=Cost)
    forecast_usd: float | None = None  # its forecast from scratch; None if unknown
    seconds: float | None = None  # how long it took
    # VES, R-VES and `ves_steps` by these names; empty where run times were not measured
    efficiency: Mapping[str, float] = field(default_factory=dict)
    degraded: float = 0.0  # share of the answered questions with a stage that fell back; 0 to 1
    # which stages fell back, and whether several models replied, in sentences
    degradation: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # further remarks, in sentences
    not_ranked: str = ""  # why it must not be ranked, as a clause without its subject; "" where it may
    baseline: str | None = None  # the run it is compared with; None where there is none
    pinned: str = ""  # who pinned the baseline, when and why; "" where it is the last run that was not worse
    comparison: PairedTest | None = None  # with the baseline as A; None without a baseline
    noise: MeasuredNoise | None = None  # the flip rate by which the comparison is judged; None: not measured
    trend: tuple[Past, ...] = ()  # scores of the same combination, the oldest first, this one last
    decline: Trend | None = None  # the test of the last scores for a trend; None of too few
    # whether it is worse or better than its baseline, or why that is unknown; None before it is judged
    verdict: NightVerdict | None = None
    # of the comparison, adjusted for the number of comparisons of the nightly run; None without one
    adjusted_p: float | None = None
    # of the trend, adjusted for the number of trends that were tested; None of too few scores
    trend_p: float | None = None

    @classmethod
    def of_run(cls, run: RunRecord) -> "NightEntry":
        """Return the entry of a run, before it is compared."""
        return cls(
            run.benchmark,
            run.backbone,
            run.pipeline,
            problem=run.fatal,
            continue_with=f"crosscheck rerun {run.run_id}" if run.retryable else "",
            run_id=run.run_id,
            ex=Accuracy(run.score.correct, run.score.total),
            variants=run.variants,
            retryable=run.retryable or 0,
            failures=run.failures,
            cost=run.cost,
            forecast_usd=run.forecast.cost_usd if run.forecast else None,
            seconds=run.seconds,
            efficiency=_efficiency(run.metrics.get("efficiency") or {}),
            notes=run.notes,
        )

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
        comparison = self.comparison
        if comparison is None or self.noise is None or not self.noise.decides:
            return comparison.p_value if comparison else None
        return self.noise.p_value(len(comparison.fixed), len(comparison.broken))

    @property
    def before(self) -> Accuracy | None:
        """The baseline's right answers, of the questions that are compared; None without a comparison."""
        comparison = self.comparison
        return Accuracy(comparison.right_a, comparison.questions) if comparison else None

    @computed_field
    @property
    def colour(self) -> Colour:
        """Red where the nightly run fails for it."""
        if self.verdict == "no baseline":
            return "No baseline yet"
        return "Red" if self.verdict in RED else "Amber" if self.verdict in AMBER else "Green"

    @property
    def total(self) -> int:
        """Number of its questions; 0 without a run."""
        return self.ex.total if self.ex else 0

    @property
    def verdict_in_words(self) -> str:
        """The verdict; of an incomplete evaluation, what it lacks."""
        if self.verdict == "too many unanswered":
            return f"{self.verdict}: {self.retryable:,} of {self.total:,}"
        if self.verdict == "infrastructure":
            return "not completed" if self.run_id else "not evaluated"
        return self.verdict or ""

    @property
    def named(self) -> str:
        """Name of the evaluation, with the points that it lost or won against its baseline."""
        comparison = self.comparison
        return f"{self.name} ({points(comparison.difference)} points)" if comparison else self.name


def _efficiency(measured: Mapping[str, Any]) -> dict[str, float]:
    figures = {
        "VES": (measured.get("ves") or {}).get("mean"),
        "VES with fetching": (measured.get("ves_fetched") or {}).get("mean"),
        "R-VES": (measured.get("r_ves") or {}).get("mean"),
        "ves_steps": measured.get("ves_steps"),
    }
    return {name: value for name, value in figures.items() if value is not None}
