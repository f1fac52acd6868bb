"""One evaluation of a nightly run: its score, what it is compared with, and its trend."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from tasks.scoring.report import Ratio
from tasks.scoring.significance import PairedTest, wilson
from tasks.tracking.night.trend import Trend


@dataclass(frozen=True, slots=True)
class Past:
    """The score of one run of the same combination.

    Attributes:
        run_id: the run.
        started: when, in UTC.
        ex: its execution accuracy.
    """

    run_id: str
    started: datetime.datetime
    ex: Ratio

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the score, as shares."""
        return wilson(self.ex.correct, self.ex.total)

    @property
    def percent(self) -> float:
        """The score in percent, 0 of nothing."""
        return 100 * (self.ex.value or 0.0)

    @property
    def interval_percent(self) -> tuple[float, float]:
        """Wilson's interval of the score in percent."""
        low, high = self.interval
        return 100 * low, 100 * high


@dataclass(frozen=True, slots=True)
class Entry:
    """One evaluation of a nightly run.

    Attributes:
        benchmark, backbone, pipeline: their names.
        problem: why infrastructure failed, "" where it did not.
        continue_with: command that evaluates again, or asks again what was not answered; "" where all was.
        run_id: of the run; None where the evaluation did not start.
        rule: by which its answers are right; "" likewise.
        ex: its execution accuracy; None likewise.
        unanswered: questions without an answer after a retryable failure.
        failures: questions without an answer by the kind of their failure.
        calls: paid calls; None likewise.
        cached_calls: calls answered from a cache or an earlier run; None likewise.
        cost_usd: of the paid ones; None where unknown.
        p50_s, p95_s: seconds per paid call; None without one.
        seconds: how long it took.
        efficiency: VES, R-VES and `ves_steps` by these names; empty where run times were not measured.
        corrected: execution accuracy on corrected golds; None where the benchmark has none. The gate does not see it.
        corrected_differs: questions on which it differs from the official verdict, in words; "" where on none.
        degraded: share of the answered questions with a stage that fell back; 0 to 1.
        degradation: which stages fell back, in sentences.
        notes: further remarks, in sentences.
        not_ranked: why it must not be ranked, as a clause without its subject; "" where it may.
        baseline: the run it is compared with; None where there is none.
        pinned: who pinned the baseline, when and why; "" where it is the last run that was not worse.
        comparison: with the baseline as A; None likewise.
        trend: scores of the same combination, the oldest first, this one last.
        decline: the test of the last scores for a trend; None of too few.
    """

    benchmark: str
    backbone: str
    pipeline: str
    problem: str = ""
    continue_with: str = ""
    run_id: str | None = None
    rule: str = ""
    ex: Ratio | None = None
    unanswered: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    calls: int | None = None
    cached_calls: int | None = None
    cost_usd: float | None = None
    p50_s: float | None = None
    p95_s: float | None = None
    seconds: float | None = None
    efficiency: Mapping[str, float] = field(default_factory=dict)
    corrected: Ratio | None = None
    corrected_differs: str = ""
    degraded: float = 0.0
    degradation: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    not_ranked: str = ""
    baseline: str | None = None
    pinned: str = ""
    comparison: PairedTest | None = None
    trend: tuple[Past, ...] = ()
    decline: Trend | None = None

    @property
    def name(self) -> str:
        """Name in messages, and of the baseline in the parameters."""
        return f"{self.benchmark} | {self.backbone} | {self.pipeline}"

    @property
    def model_and_pipeline(self) -> str:
        """What distinguishes evaluations of one benchmark."""
        return f"{self.pipeline} with {self.backbone}"

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's interval of the score; None without one."""
        return wilson(self.ex.correct, self.ex.total) if self.ex and self.ex.total else None

    @property
    def before(self) -> Ratio | None:
        """The baseline's right answers, of the questions that are compared; None without a comparison."""
        found = self.comparison
        return Ratio(found.right_a, found.questions) if found else None
