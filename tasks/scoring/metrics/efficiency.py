"""How fast right answers are: VES, R-VES, and `ves_steps`, their deterministic companion."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import fmean, median, pstdev

from tasks.scoring.build_report import by_grade
from tasks.scoring.execution.run_times import Measured, Timings, Trials
from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.report import Measurement, QuestionScore, Value

REWARDS = ((2.0, 1.25), (1.0, 1.0), (0.5, 0.75), (0.25, 0.5))
SLOWEST_REWARD = 0.25
BUSY = 0.7
"""Load per processor from which timings are not to be trusted."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A score as the measurements of all answers gave it: mean, lowest and highest."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Efficiency over all questions, 0 for wrong ones; None where nothing was measured."""

    questions: int  # questions in the denominator
    measured: int  # right answers that were timed
    # valid efficiency score as BIRD's evaluator computes it: of the time of executing, without fetching
    ves: Spread | None
    ves_fetched: Spread | None  # VES of the time of executing and fetching
    # its reward-stepped successor, of the time of executing and fetching, as BIRD's evaluator computes it
    r_ves: Spread | None
    ves_steps: float | None  # VES of virtual-machine steps: the same at every repetition
    # ves_median, ves_fetched_median, r_ves_median: from each answer's median ratio over all measurements
    ves_median: float | None = None
    ves_fetched_median: float | None = None
    r_ves_median: float | None = None


def ves_of(ratios: Sequence[float]) -> float:
    """Return sqrt of the mean ratio, after dropping ratios 3 σ from the mean; without spread all are kept.

    >>> ves_of([4.0, 4.0])
    2.0
    """
    return sqrt(_robust_mean(ratios))


def reward_of(ratios: Sequence[float]) -> float:
    """Return the reward for the mean ratio: 1.25 from 2 on, 1 from 1, 0.75 from 0.5, 0.5 from 0.25, else 0.25.

    >>> [reward_of([ratio]) for ratio in (2, 1, 0.99, 0.25, 0.1)]
    [1.25, 1.0, 0.75, 0.5, 0.25]
    """
    mean = _robust_mean(ratios)
    return next((reward for least, reward in REWARDS if mean >= least), SLOWEST_REWARD)


def r_ves_of(ratios: Sequence[float]) -> float:
    """Return the root of the reward, which R-VES averages."""
    return sqrt(reward_of(ratios))


@METRICS.register("efficiency")
@metric("Efficiency", unit="points", needs=("measured:efficiency",), order=70)
def efficiency(run: ScoredRun) -> Measurement:
    """Report VES, R-VES and their variants, each as 100 times its mean over all questions, and by difficulty."""
    measured: Measured = run.measured["efficiency"]

    def score(rows: Sequence[QuestionScore]) -> Efficiency:
        timings = [measured.timings[row.question.id] for row in rows if row.question.id in measured.timings]
        return score_efficiency(timings, len(rows))

    total = score(run.scored)
    groups = {grade: score(rows) for grade, rows in by_grade(run.scored, run.rule, run.schemas).items()}
    further: dict[str, Value] = {"ves/measured": total.measured}
    for name in ("ves", "ves_fetched", "r_ves"):
        if spread := getattr(total, name):
            further |= {
                f"ves/{name}": spread.mean,
                f"ves/{name}_low": spread.low,
                f"ves/{name}_high": spread.high,
            }
    for name in ("ves_steps", "ves_median", "ves_fetched_median", "r_ves_median"):
        if (value := getattr(total, name)) is not None:
            further[f"ves/{name}"] = value
    return Measurement(
        by_question={row.question.id: _reward(measured.timings.get(row.question.id)) for row in run.scored},
        further=further,
        data={
            **asdict(total),
            "load": measured.load,
            "by_difficulty": {grade: asdict(group) for grade, group in groups.items()},
        },
        lines=tuple(_lines(total, measured.load)),
    )


def _reward(timings: Timings | None) -> float:
    return 100 * r_ves_of([_median(timings.fetched)]) if timings else 0.0


def _median(trials: Trials) -> float:
    return median(ratio for trial in trials for ratio in trial)


def _lines(score: Efficiency, load: float | None) -> Iterator[str]:
    if score.ves is None or score.ves_fetched is None or score.r_ves is None:
        yield "Efficiency: no question to measure"
        return
    steps = "unknown" if score.ves_steps is None else f"{score.ves_steps:.2f}"
    yield (
        f"Efficiency over {score.questions:,} questions, {score.measured:,} timed: VES {_range(score.ves)}, "
        f"R-VES {_range(score.r_ves)}; of median times VES {_number(score.ves_median)}, "
        f"R-VES {_number(score.r_ves_median)}; ves_steps {steps} (this one repeats exactly)"
    )
    yield (
        "VES times a query until its first row, as BIRD's evaluator does; timed until its last row (ves_fetched) it is "
        f"{_range(score.ves_fetched)}, of median times {_number(score.ves_fetched_median)}"
    )
    busy = "unknown" if load is None else f"{load:.1f}"
    yield (
        f"In brackets: lowest and highest of the measurements. The load per processor was {busy}"
        + (": the machine was busy, another run may differ by more" if load is None or load > BUSY else "")
    )


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _range(spread: Spread) -> str:
    return f"{spread.mean:.2f} ({spread.low:.2f} to {spread.high:.2f})"


def score_efficiency(timings: Sequence[Timings], questions: int) -> Efficiency:
    """Score the timings of a run's right answers, all with as many trials, over all scored questions."""
    if not timings or not questions:
        zero = Spread(0.0, 0.0, 0.0) if questions else None
        nothing = 0.0 if questions else None
        return Efficiency(
            questions=questions,
            measured=0,
            ves=zero,
            ves_fetched=zero,
            r_ves=zero,
            ves_steps=nothing,
            ves_median=nothing,
            ves_fetched_median=nothing,
            r_ves_median=nothing,
        )

    def spread(measured: Sequence[Trials], score: Callable[[Sequence[float]], float]) -> Spread:
        """Score each trial of all answers."""
        scores = [100 * sum(map(score, trial)) / questions for trial in zip(*measured, strict=True)]
        return Spread(fmean(scores), min(scores), max(scores))

    def of_medians(measured: Sequence[Trials], score: Callable[[Sequence[float]], float]) -> float:
        return 100 * sum(score([_median(trials)]) for trials in measured) / questions

    executed, fetched = [t.executed for t in timings], [t.fetched for t in timings]
    steps = [timing.step_ratio for timing in timings if timing.step_ratio is not None]
    return Efficiency(
        questions=questions,
        measured=len(timings),
        ves=spread(executed, ves_of),
        ves_fetched=spread(fetched, ves_of),
        r_ves=spread(fetched, r_ves_of),
        ves_steps=100 * sum(map(sqrt, steps)) / questions if len(steps) == len(timings) else None,
        ves_median=of_medians(executed, ves_of),
        ves_fetched_median=of_medians(fetched, ves_of),
        r_ves_median=of_medians(fetched, r_ves_of),
    )


def _robust_mean(ratios: Sequence[float]) -> float:
    mean, deviation = fmean(ratios), pstdev(ratios)
    kept = [ratio for ratio in ratios if abs(ratio - mean) < 3 * deviation]
    return fmean(kept) if kept else mean
