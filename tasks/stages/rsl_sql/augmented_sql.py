"""SQL2, from the reduced schema and the augmentation (RSL-SQL, section 3.2)."""

from tasks.backbone.metered import MeteredBackbone
from tasks.core.records import Answer, Augmentation, FewShotQuestion
from tasks.database.schema_view import SchemaView
from tasks.stage_runs.stage import stage
from tasks.stages.links import shown_columns, shown_tables
from tasks.stages.replies import SqlReply, sql_answer
from tasks.stages.schema_prompt import schema_messages


@stage(version=2, prompts=("augmented_sql",))
async def augmented_sql(
    few_shot: FewShotQuestion, view: SchemaView, augmentation: Augmentation, backbone: MeteredBackbone
) -> Answer:
    """Write a SQL from the reduced schema; a part of the augmentation that is None is not shown."""
    reply = await backbone.ask_json(
        schema_messages(
            "augmented_sql",
            view,
            question=few_shot.question,
            demonstrations=few_shot.demonstrations,
            keywords=augmentation.keywords or (),
            linked_tables=shown_tables(view.schema, augmentation.elements),
            linked_columns=shown_columns(view.schema, augmentation.elements),
            conditions=augmentation.conditions or (),
        ),
        SqlReply,
    )
    return sql_answer(reply, backbone)
