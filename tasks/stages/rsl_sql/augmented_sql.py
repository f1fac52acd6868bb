"""SQL2, from the reduced schema and the augmentation (RSL-SQL, section 3.2; spec 2)."""

from tasks import prompts
from tasks.backbone.metered import MeteredBackbone
from tasks.database.schema import Schema
from tasks.records import Answer, Augmentation, Demonstration, Question
from tasks.settings.pipeline import PromptSettings
from tasks.stage import stage
from tasks.stages.ask_sql import ask_sql
from tasks.stages.links import shown_columns, shown_tables
from tasks.stages.show import show_schema


@stage(prompts=("augmented_sql",))
async def augmented_sql(
    question: Question,
    schema: Schema,
    prompt: PromptSettings,
    demonstrations: tuple[Demonstration, ...],
    augmentation: Augmentation,
    descriptions: bool,
    backbone: MeteredBackbone,
) -> Answer:
    """Write a SQL from the reduced schema.

    Args:
        question: the question and its evidence.
        schema: the schema reduced to the link.
        prompt: how the schema is shown.
        demonstrations: training questions with their SQL, most similar first.
        augmentation: elements, keywords and conditions; a part that is None is not shown.
        descriptions: show column descriptions.
        backbone: who is asked.

    Returns:
        One statement; its `sql` is None, with a note, when no reply could be read.
    """
    return await ask_sql(
        backbone,
        prompts.messages(
            "augmented_sql",
            question=question,
            dialect=schema.dialect_name,
            demonstrations=demonstrations,
            parts=show_schema(schema, prompt, descriptions=descriptions),
            keywords=augmentation.keywords or (),
            linked_tables=shown_tables(schema, augmentation.elements),
            linked_columns=shown_columns(schema, augmentation.elements),
            conditions=augmentation.conditions or (),
        ),
    )
