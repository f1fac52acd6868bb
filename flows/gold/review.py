"""Questions that people are to review, sent to a review queue of MLflow."""

from collections.abc import Callable, Sequence

from flows.cli.output import result_as_object
from flows.runtime.folders import Folders
from tasks.core.records import Execution, Question
from tasks.tracking.mlflow.store import find_store
from tasks.tracking.review.queue import ReviewItem, send_to_queue


def review_item(
    question: Question, gold: tuple[str, Execution], proposed: tuple[str, Execution], why: str
) -> ReviewItem:
    """Return what a reviewer sees of a question: its gold SQL and a proposed one, each with its result, and why."""
    shown = {
        "question": question.text,
        "evidence": question.evidence,
        "database": question.database_id,
        "gold_sql": gold[0],
        "gold_result": result_as_object(gold[1]),
        "proposed_sql": proposed[0],
        "proposed_result": result_as_object(proposed[1]),
        "why": why,
    }
    return ReviewItem(question.id, shown, proposed[0])


def fill_queue(
    folders: Folders, benchmark: str, name: str, items: Sequence[ReviewItem], progress: Callable[[str], None]
) -> str:
    """Put questions into a review queue, and return a sentence on it.

    Raises:
        ConfigurationError: MLflow is too old, or refuses.
    """
    sent = send_to_queue(find_store(folders.home), benchmark, name, items, progress)
    return (
        f"New in MLflow's review queue {name}: {sent}. Read the verdicts with "
        f"crosscheck golds import --benchmark {benchmark} --queue {name} --output FILE"
    )
