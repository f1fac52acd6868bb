"""Scoring of outcomes as in an evaluation, without Prefect and MLflow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flows.runtime.control import Progress
from flows.scoring.scorer import Scorer
from tasks.benchmarks.benchmark import Benchmark
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.records import Outcome, Question
from tasks.scoring.report import QuestionScore, Report


@dataclass(frozen=True)
class Selected:
    """Questions of a benchmark, and the databases that are present."""

    benchmark: Benchmark
    questions: Sequence[Question]
    databases: Mapping[str, Database]


async def score(
    selected: Selected, outcomes: Mapping[str, Outcome], workers: SqlWorkers, progress: Progress
) -> Report:
    """Score one outcome for each selected question."""
    scorer = Scorer(selected, workers, _forget, progress)
    for question in selected.questions:
        await scorer.score(question, outcomes[question.id])
    return scorer.report()


def _forget(score: QuestionScore) -> None:
    """Discard a score, which the report contains."""
