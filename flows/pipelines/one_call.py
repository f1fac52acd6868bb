"""Pipelines of one call: `few-shot`, `zero-shot` (`few-shot` without demonstrations) and `native`."""

from flows.pipelines.pipeline import Context, pipeline
from tasks.core.records import Question
from tasks.settings.pipeline import FewShotSettings, NativeSettings
from tasks.stages.native_sql import native_sql
from tasks.stages.rsl_sql import preliminary_sql


@pipeline(FewShotSettings, name="few-shot")
async def few_shot(question: Question, context: Context[FewShotSettings]) -> str | None:
    """Ask once, with the full schema and the demonstrations."""
    view = await context.view_for(question, descriptions=context.settings.descriptions)
    answer = await preliminary_sql(context.with_demonstrations(question), view, None, context.backbone)
    return context.record.sql("preliminary_sql", answer.sql)


@pipeline(NativeSettings, name="native")
async def native(question: Question, context: Context[NativeSettings]) -> str | None:
    """Ask once, in the layout of OmniSQL, Arctic-Text2SQL-R1 or XiYanSQL-QwenCoder, with the full schema."""
    settings = context.settings
    view = await context.view_for(question, descriptions=settings.descriptions)
    answer = await native_sql(question, view, settings.prompt.layout, context.backbone)
    return context.record.sql("native_sql", answer.sql)
