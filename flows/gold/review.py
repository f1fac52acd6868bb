"""Questions that people are to review: what they see of them, and how they get into a review queue of MLflow."""

from collections.abc import Callable, Iterator, Sequence

from flows.runtime.folders import Folders
from tasks.core.records import Execution, Question
from tasks.core.wording import counted
from tasks.documents.markdown import markdown
from tasks.documents.model import Block, Code, Column, Document, Sentence, Span, Table
from tasks.documents.sql_markup import wrapped_sql
from tasks.tracking.mlflow.store import find_store
from tasks.tracking.review.queue import ReviewItem, send_to_queue

WIDTH = 64
"""Characters of a line of SQL, which MLflow's page does not wrap."""


def review_item(
    question: Question, gold: tuple[str, Execution], proposed: tuple[str, Execution], why: str
) -> ReviewItem:
    """Return what a reviewer sees of a question: its gold SQL and a proposed one, each with its result, and why."""
    head: list[Block] = [Sentence(Span(question.text, "strong"))]
    if question.evidence:
        head.append(Sentence(f"Evidence: {question.evidence}"))
    head.append(Sentence(f"Question {question.id}, database {question.database_id}"))
    answers = (*_answer("Gold", *gold), *_answer("Proposed", *proposed), Sentence(f"Why: {why}"))
    return ReviewItem(
        question.id, markdown(Document("", tuple(head))), markdown(Document("", answers)), proposed[0]
    )


def _answer(title: str, sql: str, found: Execution) -> Iterator[Block]:
    yield Sentence((Span(title, "strong"), f" ({rows_in_words(found)})"))
    yield Code(wrapped_sql(sql, WIDTH), "sql")
    yield from result_tables(found)


def result_tables(found: Execution) -> Iterator[Table]:
    """Yield the rows of a result as a table; nothing of one that did not finish."""
    if not found.ok:
        return
    headers = tuple(Column(name, "text") for name in found.columns)
    rows = tuple(tuple("NULL" if cell is None else str(cell) for cell in row) for row in found.rows)
    left = (found.row_count or 0) - len(rows)
    yield Table("", headers, rows, f"and {counted(left, 'more row')}" if left > 0 else "")


def rows_in_words(found: Execution) -> str:
    """Say how many rows a result has, or why there is none."""
    return counted(found.row_count or 0, "row") if found.ok else f"{found.status}: {found.error}"


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
