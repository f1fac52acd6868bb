"""Records of a nightly run: one entry per evaluation, its verdict, and whether the run failed."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tasks.scoring.report import Ratio
from tasks.scoring.significance import PairedTest, holm_of_known, wilson
from tasks.scoring.trend import Trend
from tasks.settings.night import Gate, Keep
from tasks.wording import counted, points

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
MISSED_SHOWN = 7


_CLAUSES: Mapping[NightVerdict, str] = {
    "regression": "{count} {be} significantly worse than its baseline",
    "infrastructure": "infrastructure failed in {count}",
    "possibly worse": "{count} {be} worse than its baseline, which is not proven",
    "declining": "{count} {be} declining over the last nights",
    "degraded": "stages fell back in {count}",
}


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
        """What tells evaluations of one benchmark apart."""
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


@dataclass(frozen=True, slots=True)
class Judged:
    """An entry and its verdict.

    Attributes:
        entry: the evaluation.
        verdict: whether it is worse or better than its baseline, or why that is unknown.
        p_value: of the comparison, adjusted for the number of comparisons of the nightly run; None where there is none.
        trend_p: of the trend, adjusted for the number of trends that were tested; None likewise.
    """

    entry: Entry
    verdict: NightVerdict
    p_value: float | None
    trend_p: float | None = None

    @property
    def colour(self) -> Colour:
        """Red where the nightly run fails for it."""
        if self.verdict == "no baseline":
            return "No baseline yet"
        return "Red" if self.verdict in RED else "Amber" if self.verdict in AMBER else "Green"

    @property
    def named(self) -> str:
        """Name of the evaluation, with the points that it lost or won against its baseline."""
        found = self.entry.comparison
        return f"{self.entry.name} ({points(found.difference)} points)" if found else self.entry.name

    @property
    def red(self) -> bool:
        """Whether the nightly run fails for it."""
        return self.colour == "Red"


@dataclass(frozen=True, slots=True)
class Night:
    """A nightly run and its verdicts.

    Attributes:
        name: its name.
        gate: when it fails.
        entries: in the order of the matrix.
        started, finished: when, in UTC.
        matrix: what was evaluated, as the parameters of the flow.
        asked_again: whether the models were asked again although their answers were known.
        keep: what of old runs was kept when the working folder was cleaned afterwards; None: it was not cleaned.
        cleaned: what the cleaning did, in sentences.
        missed: when the schedule had nightly runs since the last one that left nothing here, in UTC.
        expected: when the schedule has the next one, in UTC; None without a schedule.
    """

    name: str
    gate: Gate
    entries: tuple[Judged, ...]
    started: datetime.datetime
    finished: datetime.datetime
    matrix: Mapping[str, Any] = field(default_factory=dict)
    asked_again: bool = False
    keep: Keep | None = None
    cleaned: str = ""
    missed: tuple[datetime.datetime, ...] = ()
    expected: datetime.datetime | None = None

    @property
    def red(self) -> tuple[Judged, ...]:
        """Entries that fail the nightly run."""
        return tuple(each for each in self.entries if each.red)

    @property
    def worse(self) -> frozenset[str]:
        """Ids of the runs whose answers were found worse, those included in which infrastructure failed, too.

        The scores of these count what was not answered as wrong, so the trend does not decide.
        """
        answered = [
            replace(each.entry, problem="", decline=None) if each.entry.problem else each.entry
            for each in self.entries
        ]
        return frozenset(
            entry.run_id
            for entry, each in zip(answered, self.entries, strict=True)
            if entry.run_id and _verdict(entry, each.p_value, each.trend_p, self.gate) in WORSE
        )

    @property
    def colour(self) -> Colour:
        """The worst colour of its entries; green if at least one was compared, or none has to be."""
        colours = {each.colour for each in self.entries}
        order: tuple[Colour, ...] = ("Red", "Amber", "Green", "No baseline yet")
        return next((colour for colour in order if colour in colours), "Green")

    @property
    def verdict(self) -> str:
        """What was found, in one or two sentences."""
        clauses = [
            clause.format(count=len(names), be="is" if len(names) == 1 else "are each")
            + f": {'; '.join(names)}"
            for verdict, clause in _CLAUSES.items()
            if (names := [each.named for each in self.entries if each.verdict == verdict])
        ]
        if clauses:
            found = f"Of {self._counted}, {', and '.join(clauses)}{self._rest}."
        elif self.colour == "No baseline yet":
            found = f"No baseline yet: {self._counted}, none compared. The next nightly run is compared with this one."
        else:
            found = f"{self._counted}, none worse than its baseline beyond noise{self._rest}."
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
            *([f"{without} without a baseline yet"] if without else []),
            *([f"{unranked} not ranked"] if unranked else []),
        ]
        return f" ({', '.join(counts)})" if counts else ""


def judge(gate: Gate, entries: Sequence[Entry]) -> tuple[Judged, ...]:
    """Judge every entry; p-values of comparisons and of trends are adjusted for the number of each (Holm)."""
    compared = holm_of_known([entry.comparison.p_value if entry.comparison else None for entry in entries])
    trends = holm_of_known([entry.decline.p_value if entry.decline else None for entry in entries])
    return tuple(
        Judged(entry, _verdict(entry, p_value, trend_p, gate), p_value, trend_p)
        for entry, p_value, trend_p in zip(entries, compared, trends, strict=True)
    )


def _verdict(entry: Entry, p_value: float | None, trend_p: float | None, gate: Gate) -> NightVerdict:
    # A regression on the answered questions comes before an infrastructure failure.
    found, points = entry.comparison, 100 * entry.comparison.difference if entry.comparison else 0.0
    proven, lost = p_value is not None and p_value < gate.level, points < 0 and -points >= gate.threshold
    if proven and lost:
        return "regression"
    if entry.problem:
        return "infrastructure"
    if found and lost and found.p_value < gate.doubt_level:
        return "possibly worse"
    declines = entry.decline is not None and -100 * entry.decline.change >= gate.threshold
    if declines and trend_p is not None and trend_p < gate.trend_level:
        return "declining"
    if entry.degraded >= gate.degraded_share:
        return "degraded"
    if proven and points > 0:
        return "better"
    if entry.not_ranked:
        return "not ranked"
    return "no worse" if found else "no baseline"
