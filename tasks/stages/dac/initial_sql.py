"""Initial SQL: few-shot, each demonstration with the schema of its database (DAC, section 3.1)."""

from tasks.backbone.metered import MeteredBackbone
from tasks.core.dac_records import Sample
from tasks.core.records import Answer, Question
from tasks.database.schema_view import SchemaView
from tasks.retrieval.alignment import GroundedDemonstration
from tasks.stage_runs.stage import stage
from tasks.stages.dac.examples import shown_examples
from tasks.stages.replies import SqlReply, sql_answer
from tasks.stages.schema_prompt import schema_messages


@stage(version=2, prompts=("initial_sql",))
async def initial_sql(
    question: Question,
    view: SchemaView,
    demonstrations: tuple[GroundedDemonstration, ...],
    sample: Sample,
    backbone: MeteredBackbone,
) -> Answer:
    """Write the SQL that is to be corrected; a demonstration of an unknown database is shown without its schema."""
    reply = await backbone.ask_json(
        schema_messages(
            "initial_sql",
            view,
            question=question,
            examples=shown_examples(demonstrations, view.prompt),
        ),
        SqlReply,
        sample=sample.index,
        temperature=sample.temperature,
    )
    return sql_answer(reply, backbone)
