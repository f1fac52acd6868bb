"""The baselines: one call per question, zero-shot or few-shot."""

from flows.pipelines.context import Context
from flows.pipelines.pipeline import pipeline
from flows.pipelines.values import with_retrieved_values
from tasks.records import Question
from tasks.settings.pipeline import FewShotSettings
from tasks.stages.rsl_sql.preliminary_sql import preliminary_sql


@pipeline(FewShotSettings, name="few-shot")
async def few_shot(question: Question, context: Context[FewShotSettings]) -> str | None:
    """Ask once, with the full schema and the demonstrations."""
    context = await with_retrieved_values(question, context)
    settings, path = context.settings, context.path
    answer = await preliminary_sql(
        question,
        context.schema,
        settings.prompt,
        context.examples,
        None,
        settings.descriptions,
        context.backbone,
    )
    return path.sql("preliminary_sql", answer.sql)
