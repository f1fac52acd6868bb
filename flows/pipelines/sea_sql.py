"""SEA-SQL: values in the schema, bias elimination, execution adjustment (arXiv 2408.04919)."""

from flows.pipelines.context import Context
from flows.pipelines.pipeline import pipeline
from flows.pipelines.values import with_retrieved_values
from tasks.errors import BackboneError
from tasks.records import Question
from tasks.settings.pipeline import SeaSqlSettings
from tasks.sql.concatenation import without_concatenation
from tasks.stages.sea_sql.bias_elimination import bias_elimination
from tasks.stages.sea_sql.execution_adjustment import execution_adjustment
from tasks.stages.sea_sql.zero_shot_sql import zero_shot_sql

SeaSql = Context[SeaSqlSettings]


@pipeline(SeaSqlSettings, name="sea-sql")
async def sea_sql(question: Question, context: SeaSql) -> str | None:
    """Take one question through the four steps of SEA-SQL."""
    path, settings = context.path, context.settings

    context = await with_retrieved_values(question, context)
    sql = path.sql("preliminary_sql", await write(question, context))

    if settings.bias_elimination.enabled and has_eliminator(context):
        sql = path.sql("bias_elimination", await eliminate_bias(question, sql, context))
    if settings.execution_adjustment.rounds:
        sql = path.sql("execution_adjustment", await adjust(question, sql, context))

    if sql and settings.rewrite_concat:
        sql = path.sql("rewrite_concat", without_concatenation(sql, context.schema.dialect))
    return sql


async def write(question: Question, context: SeaSql) -> str | None:
    """Step 2: the preliminary SQL, zero-shot."""
    settings = context.settings
    answer = await zero_shot_sql(
        question, context.schema, settings.prompt, settings.descriptions, context.backbone
    )
    return answer.sql


def has_eliminator(context: SeaSql) -> bool:
    """Whether bias can be eliminated; a note says when it cannot."""
    if context.eliminator is None:
        context.path.notes.append("bias elimination was skipped: no eliminator is configured")
    return context.eliminator is not None


async def eliminate_bias(question: Question, sql: str | None, context: SeaSql) -> str | None:
    """Step 3: the eliminator's SQL; the preliminary one where it gives no answer."""
    settings, notes = context.settings, context.path.notes
    if sql is None or context.eliminator is None:
        return sql
    try:
        elimination = await bias_elimination(
            question,
            context.schema,
            settings.prompt,
            settings.descriptions,
            sql,
            settings.bias_elimination,
            context.runner,
            context.eliminator,
        )
    except BackboneError as error:
        if error.fatal:
            raise
        notes.append(f"bias elimination was left out, the preliminary SQL was kept: {error}")
        return sql
    return elimination.sql


async def adjust(question: Question, sql: str | None, context: SeaSql) -> str | None:
    """Step 4: reflect and correct while the SQL fails to execute; a note says when it still does."""
    settings = context.settings
    adjustment = await execution_adjustment(
        question,
        context.schema,
        settings.prompt,
        settings.descriptions,
        sql,
        settings.execution_adjustment,
        context.runner,
        context.backbone,
    )
    if adjustment.after not in ("ok", "empty"):
        context.path.notes.append(f"the final SQL still fails: {adjustment.after}")
    return adjustment.sql
