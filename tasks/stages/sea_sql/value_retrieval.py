"""Value retrieval: what the schema shows of each column's values (SEA-SQL, section 1). No model call."""

from tasks.core.records import ColumnValues, Question
from tasks.retrieval.values.index import DatabaseValues
from tasks.stage_runs.stage import stage


@stage()
async def value_retrieval(
    question: Question, values: DatabaseValues, per_column: int, bm25_top_k: int
) -> tuple[ColumnValues, ...]:
    """Retrieve the values that the question's text, its evidence apart, may mean.

    Args:
        question: the question.
        values: the database's values; their index is built for the first question.
        per_column: values per column at most.
        bm25_top_k: texts of a column, the best by BM25, among which the mentioned ones are looked for.

    Returns:
        The likeliest values of each column, in schema order; columns without a value are absent.
    """
    return await values.retrieve(question.text, per_column, bm25_top_k)
