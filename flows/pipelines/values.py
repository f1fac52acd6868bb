"""Values that the question may mean, in the place of sample rows: for every pipeline that is told to show them."""

from collections.abc import Iterable
from dataclasses import replace

from flows.pipelines.context import Context, S
from tasks.database.column_values import with_values
from tasks.database.database import Database
from tasks.records import ColumnValues, Question
from tasks.stages.sea_sql.value_retrieval import value_retrieval


async def with_retrieved_values(question: Question, context: Context[S]) -> Context[S]:
    """Return the context with a schema that shows retrieved values; the same one where sample rows are shown.

    Everything downstream goes on as before: it shows samples, and these are the values. Path, backbones and the
    database that runs SQL are the same.
    """
    prompt = context.settings.prompt
    if prompt.values == "rows":
        return context
    found: tuple[ColumnValues, ...] = ()
    if prompt.values_per_column:
        if context.values is None:
            raise RuntimeError(
                "the flow has to give a context `values` where the prompt's values are retrieved"
            )
        found = await value_retrieval(question, context.values, prompt.values_per_column, prompt.bm25_top_k)
    runner = replace(context.runner, database=showing(context.runner.database, found))
    return replace(context, settings=showing_values(context.settings), runner=runner)


def showing(database: Database, found: Iterable[ColumnValues]) -> Database:
    """Return the same database, whose schema shows values."""
    return replace(database, schema=with_values(database.schema, found))


def showing_values(settings: S) -> S:
    """Return a pipeline's settings, so that as many samples are shown as values are retrieved."""
    shown = settings.prompt.model_copy(update={"sample_rows": settings.prompt.values_per_column})
    return settings.model_copy(update={"prompt": shown})
