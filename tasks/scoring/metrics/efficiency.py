"""How fast right answers are: VES, R-VES, and `ves_steps`, their deterministic companion.

The measuring half runs inside a sandboxed worker, so nothing heavy is imported.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.report import Measurement, Value

if TYPE_CHECKING:
    from tasks.database.database import Database
    from tasks.database.sandbox.connection import Session
    from tasks.database.sandbox.workers import SqlWorkers

REWARDS = ((2.0, 1.25), (1.0, 1.0), (0.5, 0.75), (0.25, 0.5))
SLOWEST_REWARD = 0.25


@dataclass(frozen=True, slots=True)
class Timings:
    """Measurements of one right answer against its gold.

    Attributes:
        ratios: t_gold / t_predicted, one tuple per trial, one ratio per repetition.
        step_ratio: virtual-machine steps of gold over prediction; None where either was not counted.
    """

    ratios: tuple[tuple[float, ...], ...]
    step_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A score as its trials gave it: mean, lowest and highest."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Efficiency over all questions, 0 for wrong ones; None where nothing was measured.

    Attributes:
        questions: questions in the denominator.
        measured: right answers that were timed.
        ves: valid efficiency score.
        r_ves: its reward-stepped successor.
        ves_steps: VES of virtual-machine steps: the same at every repetition.
    """

    questions: int
    measured: int
    ves: Spread | None
    r_ves: Spread | None
    ves_steps: float | None


@dataclass(frozen=True, slots=True)
class RightAnswer:
    """A right answer to be timed."""

    database: "Database"
    gold_sql: str
    sql: str


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


@METRICS.register("efficiency")
@metric("Efficiency", unit="points", needs=("measured:efficiency",), order=70)
def efficiency(run: ScoredRun) -> Measurement:
    """Report VES, R-VES and ves_steps, each as 100 times its mean over all questions."""
    found: Efficiency = run.measured["efficiency"]
    further: dict[str, Value] = {"ves/measured": found.measured}
    for name, spread in (("ves", found.ves), ("r_ves", found.r_ves)):
        if spread is not None:
            further |= {f"ves/{name}": spread.mean}
            further |= {f"ves/{name}_low": spread.low, f"ves/{name}_high": spread.high}
    if found.ves_steps is not None:
        further["ves/ves_steps"] = found.ves_steps
    return Measurement(further=further, data=asdict(found), lines=(_line(found),))


def _line(found: Efficiency) -> str:
    if found.ves is None or found.r_ves is None:
        return "Efficiency: no question to measure"
    steps = "unknown" if found.ves_steps is None else f"{found.ves_steps:.2f}"
    return (
        f"Efficiency over {found.questions:,} questions, {found.measured:,} timed: VES {_range(found.ves)}, "
        f"R-VES {_range(found.r_ves)}, ves_steps {steps} (this one repeats exactly)"
    )


def _range(spread: Spread) -> str:
    return f"{spread.mean:.2f} ({spread.low:.2f} to {spread.high:.2f})"


def score_efficiency(timings: Sequence[Timings], questions: int) -> Efficiency:
    """Score a run.

    Args:
        timings: of the right answers; all with the same number of trials.
        questions: all scored questions, wrong ones included.
    """
    if not timings or not questions:
        zero = Spread(0.0, 0.0, 0.0) if questions else None
        return Efficiency(questions, 0, zero, zero, 0.0 if questions else None)
    trials = list(zip(*(timing.ratios for timing in timings), strict=True))
    steps = [timing.step_ratio for timing in timings]
    known = [ratio for ratio in steps if ratio is not None]
    return Efficiency(
        questions,
        len(timings),
        _spread([100 * sum(map(ves_of, trial)) / questions for trial in trials]),
        _spread([100 * sum(sqrt(reward_of(ratios)) for ratios in trial) / questions for trial in trials]),
        100 * sum(map(sqrt, known)) / questions if len(known) == len(steps) else None,
    )


def measure(
    session: "Session", gold_sql: str, sql: str, trials: int, repeats: int, timeout_s: float
) -> Timings | None:
    """Time gold and prediction in turns inside one worker, and count their steps; None if either fails."""

    def seconds(query: str) -> float | None:
        result = session.run(query, timeout_s=timeout_s, keep_rows=0)
        return max(result.seconds, 1e-9) if result.ok else None

    if seconds(gold_sql) is None or seconds(sql) is None:  # warms the page cache, too
        return None
    rounds = []
    for _ in range(trials):
        ratios = []
        for repeat in range(repeats):
            # the second one finds a warmer cache, so they take turns
            first, second = (gold_sql, sql) if repeat % 2 == 0 else (sql, gold_sql)
            one, other = seconds(first), seconds(second)
            if one is None or other is None:
                return None
            ratios.append(one / other if repeat % 2 == 0 else other / one)
        rounds.append(tuple(ratios))
    gold = session.run(gold_sql, timeout_s=timeout_s, keep_rows=0, count_steps=True).steps
    predicted = session.run(sql, timeout_s=timeout_s, keep_rows=0, count_steps=True).steps
    return Timings(tuple(rounds), gold / predicted if gold and predicted else None)


async def measure_efficiency(
    workers: "SqlWorkers",
    answers: Sequence[RightAnswer],
    questions: int,
    *,
    trials: int = 3,
    repeats: int = 10,
    timeout_s: float,
) -> Efficiency:
    """Time right answers one after the other and score the run; one that cannot be timed counts as wrong.

    Args:
        workers: the pool; nothing else should run on it meanwhile.
        answers: the right answers.
        questions: all scored questions.
        trials: repeated scorings, for the spread.
        repeats: repetitions per trial.
        timeout_s: limit per query, in seconds.
    """
    from tasks.database.sandbox.workers import WorkerLost

    timings = []
    for answer in answers:
        budget = timeout_s * 2 * (trials * repeats + 2)
        try:
            timing = await workers.call(
                measure,
                answer.database,
                answer.gold_sql,
                answer.sql,
                trials,
                repeats,
                timeout_s,
                timeout_s=budget,
            )
        except WorkerLost:
            timing = None
        if timing is not None:
            timings.append(timing)
    return score_efficiency(timings, questions)


def _robust_mean(ratios: Sequence[float]) -> float:
    mean, deviation = fmean(ratios), pstdev(ratios)
    kept = [ratio for ratio in ratios if abs(ratio - mean) < 3 * deviation]
    return fmean(kept) if kept else mean


def _spread(scores: Sequence[float]) -> Spread:
    return Spread(fmean(scores), min(scores), max(scores))
