"""Which questions of a run MLflow can show with all of their stages."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tasks.scoring.report import QuestionScore, Report, is_right


@dataclass(frozen=True, slots=True)
class TraceChoice:
    """The questions that are traced, in the order of the run."""

    whole: tuple[QuestionScore, ...]  # with their stages and model calls
    brief: tuple[QuestionScore, ...]  # with their question, answer and verdict only
    scored: int  # how many questions are scored
    failed: int  # how many questions failed, have a wrong answer, or flipped
    failed_traced: int  # how many of those are in `whole`
    sampled: int  # how many are in `whole` as a part of the sample, whether they failed or not
    flipped: Collection[str] = ()  # ids of the questions with another verdict than in the previous run
    # ids of the questions in `brief` that would be in `whole` if the previous run had another verdict on them
    unchanged: Collection[str] = ()
    causes: Mapping[str, str] = field(default_factory=dict)  # why answers are wrong, by question id

    @property
    def is_sample(self) -> bool:
        """Whether some scored questions have no trace, so that shares of the traces are not those of the run."""
        return len(self.whole) + len(self.brief) < self.scored

    def __str__(self) -> str:
        if len(self.whole) == self.scored:
            return f"traces: all {self.scored} scored questions"
        shown = (
            f"traces: {self.failed_traced} of {self.failed} questions that are wrong, failed or flipped, and a sample "
            f"of {self.sampled}, the same in every run"
        )
        if self.unchanged:
            shown = (
                f"traces: {len(self.whole)} questions that failed, flipped or are new, with their stages; "
                f"{len(self.unchanged)} with the same verdict as in the previous run, without"
            )
        others = len(self.brief) - len(self.unchanged)
        shown += f"; {others} others without their stages" if others else ""
        return (
            f"{shown}; shares in MLflow's Traces tab describe only these questions"
            if self.is_sample
            else shown
        )


def choose(
    report: Report,
    *,
    failed: int,
    sample: int,
    brief: int = 0,
    flipped: Collection[str] = (),
    unchanged: Collection[str] = (),
) -> TraceChoice:
    """Choose failed, flipped and wrong questions up to a limit, in this order, and samples by the ids alone.

    Runs of the same questions so show the same sample.

    Args:
        report: the scored run.
        failed: most questions that are traced because of their outcome.
        sample: how many questions are traced whatever their outcome.
        brief: how many of the others are traced without their stages.
        flipped: ids of the questions with another verdict than in the previous run.
        unchanged: ids of the questions that are traced without their stages instead of with them.
    """
    rows = [row for row in report.rows if row.executable]
    names = [row.question.id for row in rows]
    sampled = sample_of(names, sample)
    failures = [row.question.id for row in rows if is_failed(row)]
    wrong = [row.question.id for row in rows if not is_right(row.final, report.rule)]
    traced: frozenset[str] = frozenset()
    for kind in (failures, [name for name in names if name in flipped], wrong):
        traced |= sample_of(set(kind) - traced, max(failed - len(traced), 0))
    chosen = sampled | traced
    shown = chosen - set(unchanged)
    others = (chosen - shown) | sample_of(set(names) - chosen, brief)
    failed_ids = {*failures, *wrong, *(name for name in names if name in flipped)}
    causes = report.measurements.get("errors")
    return TraceChoice(
        whole=tuple(row for row in rows if row.question.id in shown),
        brief=tuple(row for row in rows if row.question.id in others),
        scored=len(rows),
        failed=len(failed_ids),
        failed_traced=len(shown & failed_ids),
        sampled=len(shown & sampled),
        flipped=flipped,
        unchanged=chosen - shown,
        causes={name: str(why) for name, why in causes.by_question.items() if why} if causes else {},
    )


def is_failed(row: QuestionScore) -> bool:
    """Return whether a question has no answer, or one that cannot be executed; a wrong answer is no failure."""
    return row.outcome.sql is None or row.outcome.failure is not None or row.final.status != "ok"


def sample_of(ids: Iterable[str], count: int) -> frozenset[str]:
    """Return a sample of so many questions, by their ids alone."""
    return frozenset(sorted(ids, key=lambda name: hashlib.sha256(name.encode()).digest())[:count])
