"""SEA-SQL: values in the schema, bias elimination, execution adjustment (arXiv 2408.04919)."""

from flows.pipelines.pipeline import Context, pipeline
from tasks.core.errors import BackboneError
from tasks.core.records import Question
from tasks.database.schema_text import SchemaView
from tasks.settings.pipeline import SeaSqlSettings
from tasks.sql.rewriting import without_concatenation
from tasks.stages.question_run import current_question_run
from tasks.stages.sea_sql import bias_elimination, execution_adjustment, zero_shot_sql

SeaSql = Context[SeaSqlSettings]


@pipeline(SeaSqlSettings, name="sea-sql")
async def sea_sql(question: Question, context: SeaSql) -> str | None:
    """Take one question through the four steps of SEA-SQL."""
    settings, record = context.settings, context.record
    view = await context.view_for(question, descriptions=settings.descriptions)

    answer = await zero_shot_sql(context.with_demonstrations(question), view, context.backbone)
    sql = record.sql("preliminary_sql", answer.sql)

    eliminates = settings.bias_elimination.enabled and has_eliminator(context)
    if eliminates and not settings.bias_elimination.after_adjustment:
        sql = record.sql("bias_elimination", await eliminate_bias(question, view, sql, context))
    if settings.execution_adjustment.rounds:
        sql = record.sql("execution_adjustment", await adjust(question, view, sql, context))
    if eliminates and settings.bias_elimination.after_adjustment:
        sql = record.sql("bias_elimination", await eliminate_bias(question, view, sql, context))

    if sql and settings.rewrite_concat:
        sql = record.sql("rewrite_concat", without_concatenation(sql, view.dialect))
    return sql


def has_eliminator(context: SeaSql) -> bool:
    """Return whether an eliminator is configured; record the stage as skipped if not."""
    if context.eliminator is None:
        current_question_run().skip("bias_elimination", "no eliminator is configured")
    return context.eliminator is not None


async def eliminate_bias(
    question: Question, view: SchemaView, sql: str | None, context: SeaSql
) -> str | None:
    """Step 3: the eliminator's SQL; the preliminary one where it gives no answer."""
    if sql is None or context.eliminator is None:
        return sql
    settings = context.settings.bias_elimination
    try:
        return (await bias_elimination(question, view, sql, settings, context.runner, context.eliminator)).sql
    except BackboneError as error:
        if error.fatal:
            raise
        context.record.note(f"bias elimination was left out, the preliminary SQL was kept: {error}")
        return sql


async def adjust(question: Question, view: SchemaView, sql: str | None, context: SeaSql) -> str | None:
    """Step 4: reflect and correct while the SQL fails to execute; note if it still does."""
    settings = context.settings.execution_adjustment
    adjustment = await execution_adjustment(question, view, sql, settings, context.runner, context.backbone)
    if adjustment.after not in ("ok", "empty"):
        context.record.note(f"the final SQL still fails: {adjustment.after}")
    return adjustment.sql
