"""The preliminary SQL of SEA-SQL: one message that ends with SELECT (SEA-SQL, section 2)."""

from tasks import prompts
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message
from tasks.database.schema import Schema
from tasks.records import Answer, Question
from tasks.settings.pipeline import PromptSettings
from tasks.stage import stage
from tasks.stages.sea_sql.continuation import ask_continuation
from tasks.stages.show import show_schema


@stage(prompts=("zero_shot_sql",))
async def zero_shot_sql(
    question: Question, schema: Schema, prompt: PromptSettings, descriptions: bool, backbone: MeteredBackbone
) -> Answer:
    """Write a first SQL without demonstrations.

    Args:
        question: the question and its evidence.
        schema: the full schema, its samples the values to show.
        prompt: how the schema is shown.
        descriptions: show column descriptions.
        backbone: who is asked.

    Returns:
        One statement; its `sql` is None, with a note, when no reply could be read.
    """
    text = prompts.render(
        "zero_shot_sql",
        question=question,
        dialect=schema.dialect_name,
        parts=show_schema(schema, prompt, descriptions=descriptions),
    )
    return await ask_continuation(backbone, (Message("user", text.rstrip()),), schema.dialect)
