"""One call in the prompt layout of OmniSQL, Arctic-Text2SQL-R1 or XiYanSQL-QwenCoder."""

from flows.pipelines.pipeline import Context, pipeline
from tasks.core.records import Question
from tasks.settings.pipeline import NativeSettings
from tasks.stages.native_sql import native_sql


@pipeline(NativeSettings, name="native")
async def native(question: Question, context: Context[NativeSettings]) -> str | None:
    """Ask once, with the full schema, its values and the evidence."""
    settings = context.settings
    view = await context.view_for(question, descriptions=settings.descriptions)
    answer = await native_sql(question, view, settings.prompt.layout, context.backbone)
    return context.record.sql("native_sql", answer.sql)
