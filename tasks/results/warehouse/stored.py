"""A run as the warehouse has it, with its questions."""

from dataclasses import dataclass

from tasks.results.evaluation import EvaluationRun
from tasks.results.run_record import RunRecord
from tasks.scoring.report import QuestionScore, is_right


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

    @property
    def scored(self) -> dict[str, QuestionScore]:
        """The questions that were scored, by id."""
        return {row.question.id: row for row in self.rows if row.executable}

    def rights(self, rule: str) -> dict[str, bool]:
        """Return whether each scored question is right by a rule, by id."""
        return {id_: is_right(row.final, rule) for id_, row in self.scored.items()}

    def answered_rights(self, rule: str) -> dict[str, bool]:
        """Return whether each scored question is right, without those that a retryable failure left unanswered."""
        return {
            id_: is_right(row.final, rule) for id_, row in self.scored.items() if not row.outcome.retryable
        }
