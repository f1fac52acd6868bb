"""The preliminary SQL of SEA-SQL: one message that ends with SELECT (SEA-SQL, section 2)."""

from tasks import prompts
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message
from tasks.database.schema_view import SchemaView
from tasks.records import Answer, Question
from tasks.stage import stage
from tasks.stages.sea_sql.continuation import ask_continuation


@stage(prompts=("zero_shot_sql",))
async def zero_shot_sql(question: Question, view: SchemaView, backbone: MeteredBackbone) -> Answer:
    """Write a first SQL without demonstrations."""
    text = prompts.render("zero_shot_sql", question=question, dialect=view.dialect_name, parts=view.render())
    return await ask_continuation(backbone, (Message("user", text.rstrip()),), view.dialect)
