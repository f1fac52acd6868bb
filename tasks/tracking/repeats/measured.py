"""The measured flip rate that a nightly run is judged by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.scoring.report import is_right
from tasks.scoring.statistics.noise import flip_bound, flip_rate, noise_p, provable_by_noise, provable_loss
from tasks.settings.evaluation import HARMLESS
from tasks.tracking.evaluation import NOISE
from tasks.tracking.parameters import flatten
from tasks.tracking.repeats.repeats import repeats_of
from tasks.tracking.run_record import RunHeader
from tasks.tracking.warehouse.runs import Warehouse

LEAST_MEASURED = 3
"""Repeats that a measurement needs to be used."""
_OTHER = (
    "backbone.epoch",
    "backbone.prices",
    "backbone.description",
    "pipeline.description",
    "pipeline.source",
)


@dataclass(frozen=True, slots=True)
class MeasuredNoise:
    """A flip rate that was measured on repeats of a run."""

    run_id: str  # of the run that was repeated
    runs: int  # repeats
    questions: int  # questions that all of them answered
    flip_rate: float  # share of the questions whose verdict differs between two repeats
    flip_bound: float  # its upper bound
    # by_rate, by_mcnemar: the loss that one run against another proves in most cases, as a share: by this rate, and by
    # the exact McNemar test
    by_rate: float
    by_mcnemar: float

    @property
    def decides(self) -> bool:
        """Whether a comparison is judged by this rate, which depends on the measurement alone: it proves more."""
        return self.by_rate < self.by_mcnemar

    def p_value(self, fixed: int, broken: int) -> float:
        """Return the p-value of a difference between two runs, if answers flip at the measured rate at most."""
        return noise_p(fixed, broken, self.questions, self.flip_bound)


def measured_noise(
    current: RunHeader,
    settings: Mapping[str, Any],
    runs: Sequence[RunHeader],
    warehouse: Warehouse,
    level: float,
) -> MeasuredNoise | None:
    """Return the latest measurement that applies to a run, for tests at a level; None where there is none.

    It was made on at least `LEAST_MEASURED` repeats of a run of the same benchmark, questions, backbone, pipeline and
    settings; settings that do not influence an answer may differ. Runs are given newest first.
    """
    parents = dict.fromkeys(
        run.tags[NOISE] for run in runs if NOISE in run.tags and run.combination == current.combination
    )
    for parent in parents:
        repeats = repeats_of(parent, runs)
        if len(repeats) < LEAST_MEASURED:
            continue
        read = [warehouse.read_run(each.run_id) for each in repeats]
        if _relevant(read[0].run.settings) != _relevant(settings):
            continue
        rule = current.rule
        tables = [
            {
                row.question.id: is_right(row.final, rule)
                for row in each.rows
                if row.executable and not row.outcome.retryable
            }
            for each in read
        ]
        common = [name for name in tables[0] if all(name in table for table in tables)]
        if common:
            return measured_rate(
                parent, [sum(table[name] for table in tables) for name in common], len(read), level
            )
    return None


def measured_rate(run_id: str, counts: Sequence[int], runs: int, level: float) -> MeasuredNoise:
    """Return the flip rate of questions, given how many of the repeats of a run have each one right."""
    questions, rate, bound = len(counts), flip_rate(counts, runs), flip_bound(counts, runs)
    return MeasuredNoise(
        run_id,
        runs,
        questions,
        rate,
        bound,
        provable_by_noise(questions, rate, bound, level),
        provable_loss(questions, rate, 1, level),
    )


def _relevant(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that can influence an answer or its verdict, by their keys."""
    return {
        key: value
        for key, value in flatten(dict(settings)).items()
        if not key.startswith((*_OTHER, *HARMLESS))
    }
