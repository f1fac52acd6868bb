"""How fast right answers are: VES, R-VES, and `ves_steps`, their deterministic companion."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import sqrt
from statistics import fmean, median, pstdev
from typing import Any

from tasks.core.wording import UNKNOWN, counted
from tasks.scoring.breakdown import by_grade
from tasks.scoring.execution.run_times import Measured, Timings, Trials
from tasks.scoring.metric import ScoredRun, metric
from tasks.scoring.scores import Measurement, QuestionScore, Ratio, Value

REWARDS = ((2.0, 1.25), (1.0, 1.0), (0.5, 0.75), (0.25, 0.5))
SLOWEST_REWARD = 0.25
BUSY = 0.7
"""Load per processor from which timings are not to be trusted."""


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
    return next((reward for threshold, reward in REWARDS if mean >= threshold), SLOWEST_REWARD)


def r_ves_of(ratios: Sequence[float]) -> float:
    """Return the root of the reward, which R-VES averages."""
    return sqrt(reward_of(ratios))


SCORES: Mapping[str, tuple[str, Callable[[Sequence[float]], float]]] = {
    "ves": ("executed", ves_of),
    "ves_fetched": ("fetched", ves_of),
    "r_ves": ("fetched", r_ves_of),
}
"""Scores of run times: of which field of `Timings`, and how one follows from the ratios of an answer."""
TITLES = {"ves": "VES", "ves_fetched": "VES with fetching", "r_ves": "R-VES", "ves_steps": "ves_steps"}
"""Titles of the scores on screens, pages and in the papers' tables, by their key in the metric's data."""


@metric("Efficiency", unit="points", order=70)
def efficiency(run: ScoredRun) -> Measurement | None:
    """Report VES, R-VES and their variants, each as 100 times its mean over all questions, and by difficulty."""
    measured: Measured | None = run.measured.get("efficiency")
    if measured is None:
        return None

    def score(rows: Sequence[QuestionScore]) -> dict[str, Any]:
        timings = [measured.timings[row.question.id] for row in rows if row.question.id in measured.timings]
        return score_efficiency(timings, len(rows))

    total = score(run.scored)
    further: dict[str, Value] = {"ves/measured": total["measured"]}
    for name in SCORES:
        over_trials = total[name]  # mean, low and high; None without questions
        if over_trials:
            further |= {f"ves/{name}": over_trials["mean"]}
            further |= {f"ves/{name}_{bound}": over_trials[bound] for bound in ("low", "high")}
    for name in ("ves_steps", *(f"{name}_median" for name in SCORES)):
        if total[name] is not None:
            further[f"ves/{name}"] = total[name]
    return Measurement(
        by_question={row.question.id: _reward(measured.timings.get(row.question.id)) for row in run.scored},
        further=further,
        data={
            **total,
            "load": measured.load,
            "by_difficulty": {grade: score(rows) for grade, rows in by_grade(run.scored).items()},
        },
        headline=_headline(total, len(run.scored)),
        lines=tuple(_lines(total, measured.load)),
    )


def _headline(score: Mapping[str, Any], questions: int) -> dict[str, Ratio]:
    """Return each known score by its title, as the mean over the questions that it is."""
    known = {key: score[key] for key in TITLES if score[key] is not None}
    means = {TITLES[key]: value["mean"] if key in SCORES else value for key, value in known.items()}
    return {title: Ratio(mean * questions, questions) for title, mean in means.items()}


def _reward(timings: Timings | None) -> float:
    return 100 * r_ves_of([_median(timings.fetched)]) if timings else 0.0


def _median(trials: Trials) -> float:
    return median(ratio for trial in trials for ratio in trial)


def _lines(score: Mapping[str, Any], load: float | None) -> Iterator[str]:
    if not score["questions"]:
        yield "Efficiency: no question to measure"
        return
    if not score["measured"]:
        yield f"Efficiency over {counted(score['questions'], 'question')}: no right answer was timed"
        return
    steps = UNKNOWN if score["ves_steps"] is None else f"{score['ves_steps']:.2f}"
    yield (
        f"Efficiency over {counted(score['questions'], 'question')}, {score['measured']:,} timed: "
        f"VES {_range(score['ves'])}, R-VES {_range(score['r_ves'])}; of median times VES {score['ves_median']:.2f}, "
        f"R-VES {score['r_ves_median']:.2f}; ves_steps {steps} (this one repeats exactly)"
    )
    yield (
        "VES times a query until its first row, as BIRD's evaluator does; timed until its last row (ves_fetched) it is "
        f"{_range(score['ves_fetched'])}, of median times {score['ves_fetched_median']:.2f}"
    )
    load_in_words = UNKNOWN if load is None else f"{load:.1f}"
    warning = ": the machine was busy, another run may differ by more" if load is None or load > BUSY else ""
    yield f"In brackets: lowest and highest of the measurements. The load per processor was {load_in_words}{warning}"


def _range(spread: Mapping[str, float]) -> str:
    return f"{spread['mean']:.2f} ({spread['low']:.2f} to {spread['high']:.2f})"


def score_efficiency(timings: Sequence[Timings], questions: int) -> dict[str, Any]:
    """Score the timings of a run's right answers, all with as many trials, over all scored questions.

    Every score counts 0 for a wrong answer; it is None without questions.

    - `ves`: valid efficiency score as BIRD's evaluator computes it: of the time of executing, without fetching.
    - `ves_fetched`: VES of the time of executing and fetching.
    - `r_ves`: its successor with rewards in steps, of the time of executing and fetching, as BIRD's evaluator does it.
    - `ves_steps`: VES of virtual-machine steps, the same at every repetition; None where some were not counted.
    - `..._median`: the first three from each answer's median ratio over all measurements.

    The first three are objects: `mean`, `low` and `high` of the trials.
    """

    def percent_of_questions(scores: Iterable[float]) -> float | None:
        return 100 * sum(scores) / questions if questions else None

    spreads: dict[str, Any] = {}
    medians: dict[str, float | None] = {}
    for name, (field_name, score) in SCORES.items():
        measured: list[Trials] = [getattr(timing, field_name) for timing in timings]
        of_trials = [100 * sum(map(score, trial)) / questions for trial in zip(*measured, strict=True)]
        of_trials = of_trials or [0.0]  # no answer is right
        spread = {"mean": fmean(of_trials), "low": min(of_trials), "high": max(of_trials)}
        spreads[name] = spread if questions else None
        medians[f"{name}_median"] = percent_of_questions(score([_median(trials)]) for trials in measured)
    steps = [timing.step_ratio for timing in timings if timing.step_ratio is not None]
    return {
        "questions": questions,
        "measured": len(timings),
        **spreads,
        "ves_steps": percent_of_questions(map(sqrt, steps)) if len(steps) == len(timings) else None,
        **medians,
    }


def _robust_mean(ratios: Sequence[float]) -> float:
    mean, deviation = fmean(ratios), pstdev(ratios)
    inliers = [ratio for ratio in ratios if abs(ratio - mean) < 3 * deviation]
    return fmean(inliers) if inliers else mean
