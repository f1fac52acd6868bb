"""Which questions of a run MLflow can show with all of their stages."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from tasks.scoring.report import QuestionScore, Report, is_right


@dataclass(frozen=True, slots=True)
class TraceChoice:
    """The questions that are traced, in the order of the run."""

    whole: tuple[QuestionScore, ...]  # with their stages and model calls
    brief: tuple[QuestionScore, ...]  # with their question, answer and verdict only
    scored: int  # how many questions are scored
    failed: int  # how many questions failed or have a wrong answer
    failed_traced: int  # how many of those are in `whole`
    sampled: int  # how many are in `whole` as a part of the sample, whether they failed or not

    @property
    def is_sample(self) -> bool:
        """Whether some scored questions have no trace, so that shares of the traces are not those of the run."""
        return len(self.whole) + len(self.brief) < self.scored

    def __str__(self) -> str:
        if len(self.whole) == self.scored:
            return f"traces: all {self.scored} scored questions"
        shown = (
            f"traces: {self.failed_traced} of {self.failed} questions that are wrong or failed, and a sample of "
            f"{self.sampled}, the same in every run; shares in MLflow's Traces tab describe only these"
        )
        return f"{shown}; {len(self.brief)} others without their stages" if self.brief else shown


def choose(report: Report, *, failed: int, sample: int, all_scored: bool = False) -> TraceChoice:
    """Choose failed and wrong questions up to a limit, failed ones first, and a sample by the ids alone.

    Runs of the same questions so show the same sample. `all_scored`: every other scored question is traced briefly.
    """
    rows = [row for row in report.rows if row.executable]
    sampled = sample_of((row.question.id for row in rows), sample)
    failures = [row.question.id for row in rows if is_failed(row)]
    wrong = [row.question.id for row in rows if not (is_failed(row) or is_right(row.final, report.rule))]
    traced = sample_of(failures, failed)
    traced |= sample_of(wrong, max(failed - len(traced), 0))
    failures += wrong
    whole = tuple(row for row in rows if row.question.id in sampled | traced)
    brief = tuple(row for row in rows if row.question.id not in sampled | traced) if all_scored else ()
    failed_traced = len((sampled | traced) & set(failures))
    return TraceChoice(whole, brief, len(rows), len(failures), failed_traced, len(sampled))


def is_failed(row: QuestionScore) -> bool:
    """Return whether a question has no answer, or one that cannot be executed; a wrong answer is no failure."""
    return row.outcome.sql is None or row.outcome.failure is not None or row.final.status != "ok"


def sample_of(ids: Iterable[str], count: int) -> frozenset[str]:
    """Return a sample of so many questions, by their ids alone."""
    return frozenset(sorted(ids, key=lambda name: hashlib.sha256(name.encode()).digest())[:count])
