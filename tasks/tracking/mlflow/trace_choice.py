"""Which questions of a run MLflow can show with all of their stages."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from tasks.scoring.report import QuestionScore, Report


@dataclass(frozen=True, slots=True)
class TraceChoice:
    """The questions that are traced, in the order of the run.

    Attributes:
        whole: with their stages and model calls.
        brief: with their question, answer and verdict only.
        failed: how many questions failed.
        failed_traced: how many of those are in `whole`.
        sampled: how many are in `whole` as a part of the sample, whether they failed or not.
    """

    whole: tuple[QuestionScore, ...]
    brief: tuple[QuestionScore, ...]
    failed: int
    failed_traced: int
    sampled: int

    def __str__(self) -> str:
        shown = (
            f"traces: {self.failed_traced} of {self.failed} failed questions, and a sample of {self.sampled}, the "
            "same in every run"
        )
        return f"{shown}; {len(self.brief)} others without their stages" if self.brief else shown


def choose(report: Report, *, failed: int, sample: int, all_scored: bool = False) -> TraceChoice:
    """Choose at most so many failed questions, and a sample, by the questions' ids alone.

    Runs of the same questions so show the same sample. `all_scored`: every other scored question is traced briefly.
    """
    rows = [row for row in report.rows if row.executable]
    sampled = sample_of((row.question.id for row in rows), sample)
    failures = [row.question.id for row in rows if is_failed(row)]
    traced = sample_of(failures, failed)
    whole = tuple(row for row in rows if row.question.id in sampled | traced)
    brief = tuple(row for row in rows if row.question.id not in sampled | traced) if all_scored else ()
    return TraceChoice(whole, brief, len(failures), len((sampled | traced) & set(failures)), len(sampled))


def is_failed(row: QuestionScore) -> bool:
    """Return whether a question has no answer, or one that cannot be executed; a wrong answer is no failure."""
    return row.outcome.sql is None or row.outcome.failure is not None or row.final.status != "ok"


def sample_of(ids: Iterable[str], count: int) -> frozenset[str]:
    """Return a sample of so many questions, by their ids alone."""
    return frozenset(sorted(ids, key=lambda name: hashlib.sha256(name.encode()).digest())[:count])
