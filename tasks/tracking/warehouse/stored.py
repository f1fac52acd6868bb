"""A run as the warehouse has it, with its questions."""

from dataclasses import dataclass

from tasks.scoring.report import QuestionScore
from tasks.tracking.evaluation import EvaluationRun
from tasks.tracking.run_record import RunRecord


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as the warehouse has it."""

    run: EvaluationRun  # the evaluation
    record: RunRecord  # what it found; while it is not finished, only what was noted until then
    rows: tuple[QuestionScore, ...] = ()  # the questions written so far, in benchmark order once finished

    @property
    def status(self) -> str:
        """How it ended, or "running"."""
        return self.record.status
