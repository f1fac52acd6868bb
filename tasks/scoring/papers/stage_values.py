"""Results of stages as a scored question's record has them."""

from typing import TypeVar

from pydantic import TypeAdapter

from tasks.scoring.report import QuestionScore
from tasks.stage_runs.question_run import split_label

T = TypeVar("T")


def stage_values(score: QuestionScore, stage: str, adapter: TypeAdapter[T]) -> list[T]:
    """Return what a stage returned on a question, each time that it did not fail; of several candidates, the first."""
    found = (
        record.value
        for record in score.outcome.stages
        if record.stage == stage and not record.error and split_label(record.label)[1] in (None, 1)
    )
    return [adapter.validate_python(value) for value in found if value is not None]
