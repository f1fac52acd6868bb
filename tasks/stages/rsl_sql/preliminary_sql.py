"""Preliminary SQL, SQL1, from the full schema (RSL-SQL, section 3.1); also the one call of the baselines."""

from tasks.backbone.metered import MeteredBackbone
from tasks.core.records import Answer, FewShotQuestion, Link
from tasks.database.schema_view import SchemaView
from tasks.stage_runs.stage import stage
from tasks.stages.links import shown_columns, shown_tables
from tasks.stages.replies import SqlReply, sql_answer
from tasks.stages.schema_prompt import schema_messages


@stage(version=2, prompts=("preliminary_sql",))
async def preliminary_sql(
    few_shot: FewShotQuestion, view: SchemaView, link: Link | None, backbone: MeteredBackbone
) -> Answer:
    """Write a first SQL.

    The forward link is named in the prompt beside the full schema; the baselines have none.
    """
    reply = await backbone.ask_json(
        schema_messages(
            "preliminary_sql",
            view,
            question=few_shot.question,
            demonstrations=few_shot.demonstrations,
            linked_tables=shown_tables(view.schema, link),
            linked_columns=shown_columns(view.schema, link),
        ),
        SqlReply,
    )
    return sql_answer(reply, backbone)
