"""The baselines: one call per question, zero-shot or few-shot."""

from flows.pipelines.context import Context
from flows.pipelines.pipeline import pipeline
from tasks.core.records import Question
from tasks.settings.pipeline import FewShotSettings
from tasks.stages.rsl_sql.preliminary_sql import preliminary_sql


@pipeline(FewShotSettings, name="few-shot")
async def few_shot(question: Question, context: Context[FewShotSettings]) -> str | None:
    """Ask once, with the full schema and the demonstrations."""
    view = await context.view_for(question, descriptions=context.settings.descriptions)
    answer = await preliminary_sql(context.with_demonstrations(question), view, None, context.backbone)
    return context.record.sql("preliminary_sql", answer.sql)
