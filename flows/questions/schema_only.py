"""Questions whose database is absent while its schema is known."""

from collections import Counter
from collections.abc import Mapping

from tasks.records import Failure, Outcome
from tasks.trail import NotExecutable

MISSING_DATABASE = "missing_database"


def failure(signal: NotExecutable) -> Failure:
    """Return why a question ended at a stage that executes SQL."""
    return Failure(
        MISSING_DATABASE,
        signal.stage,
        f"{signal.stage} executes SQL, and of the database {signal.database_id} only the schema is at hand",
        mendable=False,
    )


def summary(outcomes: Mapping[str, Outcome], asked: int) -> str:
    """Return a sentence on the questions that were asked with only a schema.

    Args:
        outcomes: of the questions without a database, by id.
        asked: all questions of the evaluation that were asked.
    """
    ended = Counter(
        outcome.failure.stage
        for outcome in outcomes.values()
        if outcome.failure and outcome.failure.kind == MISSING_DATABASE
    )
    stages = "; ".join(f"{stage} was not executable on {count:,}" for stage, count in ended.items())
    return (
        f"{len(outcomes):,} of {asked:,} questions were asked with their schema alone, because their database is not "
        f"at hand: linking counts them, execution accuracy does not{f' ({stages})' if stages else ''}."
    )
