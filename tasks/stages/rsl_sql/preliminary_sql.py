"""Preliminary SQL, SQL1, from the full schema (RSL-SQL, section 3.1; spec 1b); also the one call of the baselines."""

from tasks import prompts
from tasks.backbone.metered import MeteredBackbone
from tasks.database.schema import Schema
from tasks.records import Answer, Demonstration, Link, Question
from tasks.settings.pipeline import PromptSettings
from tasks.stage import stage
from tasks.stages.ask_sql import ask_sql
from tasks.stages.links import shown_columns, shown_tables
from tasks.stages.show import show_schema


@stage(prompts=("preliminary_sql",))
async def preliminary_sql(
    question: Question,
    schema: Schema,
    prompt: PromptSettings,
    demonstrations: tuple[Demonstration, ...],
    link: Link | None,
    descriptions: bool,
    backbone: MeteredBackbone,
) -> Answer:
    """Write a first SQL.

    Args:
        question: the question and its evidence.
        schema: the full schema.
        prompt: how the schema is shown.
        demonstrations: training questions with their SQL, most similar first.
        link: the forward link, named in the prompt beside the full schema; None for the baselines.
        descriptions: show column descriptions (RSL-SQL does not, at this stage).
        backbone: who is asked.

    Returns:
        One statement; its `sql` is None, with a note, when no reply could be read.
    """
    return await ask_sql(
        backbone,
        prompts.messages(
            "preliminary_sql",
            question=question,
            dialect=schema.dialect_name,
            demonstrations=demonstrations,
            parts=show_schema(schema, prompt, descriptions=descriptions),
            linked_tables=shown_tables(schema, link),
            linked_columns=shown_columns(schema, link),
        ),
    )
