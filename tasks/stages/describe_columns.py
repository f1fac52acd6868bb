"""Column descriptions, written once per database (RSL-SQL, spec stage 0, D): both papers generate them offline."""

from tasks import prompts
from tasks.backbone.metered import MeteredBackbone
from tasks.database.identifiers import quoted
from tasks.database.schema import Schema
from tasks.settings.pipeline import PromptSettings
from tasks.stage import stage
from tasks.stages.links import read_link
from tasks.stages.replies import DescriptionsReply
from tasks.stages.show import show_schema


@stage(prompts=("describe_columns",))
async def describe_columns(
    schema: Schema, table: str, columns: tuple[str, ...], prompt: PromptSettings, backbone: MeteredBackbone
) -> dict[str, str]:
    """Have some columns of one table described.

    Args:
        schema: a schema with that table only.
        table: its name.
        columns: the columns to describe.
        prompt: how the schema is shown.
        backbone: who is asked.

    Returns:
        A sentence by column name as the schema spells it; columns that the reply leaves out are absent, and a
        note names them.
    """
    reply = await backbone.ask_json(
        prompts.messages(
            "describe_columns",
            table=quoted(table),
            columns=[quoted(name) if "," in name else name for name in columns],
            parts=show_schema(schema, prompt, descriptions=True),
        ),
        DescriptionsReply,
    )
    told = {
        name.column: text or ""
        for written, text in (reply.descriptions.items() if reply else ())
        for name in read_link(schema, (), (written,)).columns
        if name.table == table
    }
    described = {name: text for name in columns if (text := " ".join(told.get(name, "").split()))}
    if left_out := [name for name in columns if name not in described]:
        backbone.note(f"not described: {', '.join(left_out)}")
    return described
