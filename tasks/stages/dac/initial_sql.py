"""Initial SQL: few-shot, each demonstration with the schema of its database (DAC, section 3.1; spec 1)."""

from tasks import prompts
from tasks.backbone.metered import MeteredBackbone
from tasks.database.schema import Schema
from tasks.records import Answer, Question
from tasks.retrieval.alignment import GroundedDemonstration
from tasks.settings.pipeline import PromptSettings
from tasks.stage import stage
from tasks.stages.ask_sql import ask_sql
from tasks.stages.dac.examples import shown_examples
from tasks.stages.show import show_schema


@stage(prompts=("initial_sql",))
async def initial_sql(
    question: Question,
    schema: Schema,
    prompt: PromptSettings,
    demonstrations: tuple[GroundedDemonstration, ...],
    descriptions: bool,
    backbone: MeteredBackbone,
) -> Answer:
    """Write the SQL that is to be corrected.

    Args:
        question: the question and its evidence.
        schema: the full schema; its samples are the values to show.
        prompt: how schemas are shown.
        demonstrations: training questions, most similar first; one whose database is not known is
            shown without its schema.
        descriptions: show column descriptions.
        backbone: who is asked.

    Returns:
        One statement; its `sql` is None, with a note, when no reply could be read.
    """
    return await ask_sql(
        backbone,
        prompts.messages(
            "initial_sql",
            question=question,
            dialect=schema.dialect_name,
            examples=shown_examples(demonstrations, prompt),
            parts=show_schema(schema, prompt, descriptions=descriptions),
        ),
    )
