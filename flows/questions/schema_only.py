"""Questions whose database is missing and whose schema is known."""

from collections import Counter
from collections.abc import Mapping

from tasks.core.outcome import Failure, Outcome
from tasks.stage_runs.question_run import NotExecutable


def failure(signal: NotExecutable) -> Failure:
    """Return the failure of a question at a stage that executes SQL."""
    return Failure(
        "missing_database",
        signal.stage,
        f"{signal.stage} executes SQL, and the database {signal.database_id} is missing (only its schema is known)",
        retryable=False,
    )


def summary(outcomes: Mapping[str, Outcome], questions: int) -> str:
    """Return a sentence on the questions that were run with only a schema.

    Args:
        outcomes: outcomes of the questions without a database, by id.
        questions: number of questions of the evaluation.
    """
    ended = Counter(
        outcome.failure.stage
        for outcome in outcomes.values()
        if outcome.failure and outcome.failure.kind == "missing_database"
    )
    stages = "; ".join(f"{stage} was not executable on {count:,}" for stage, count in ended.items())
    return (
        f"{len(outcomes):,} of {questions:,} questions were run with only their schema, because their database is "
        f"missing: linking counts them, execution accuracy does not{f' ({stages})' if stages else ''}."
    )
