"""The preliminary SQL of SEA-SQL: one message that ends with SELECT (SEA-SQL, section 2)."""

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message
from tasks.core.records import Answer, FewShotQuestion
from tasks.database.schema_view import SchemaView
from tasks.stage_runs import prompts
from tasks.stage_runs.stage import stage
from tasks.stages.sea_sql.continuation import ask_continuation


@stage(version=2, prompts=("zero_shot_sql",))
async def zero_shot_sql(few_shot: FewShotQuestion, view: SchemaView, backbone: MeteredBackbone) -> Answer:
    """Write a first SQL; without demonstrations but in the paper's comparison with few-shot prompts (Table 9)."""
    text = prompts.render(
        "zero_shot_sql",
        question=few_shot.question,
        dialect=view.dialect_name,
        demonstrations=few_shot.demonstrations,
        demonstrations_first=view.prompt.demonstrations_first,
        parts=view.render(),
    )
    return await ask_continuation(backbone, (Message("user", text.rstrip()),), view.dialect)
