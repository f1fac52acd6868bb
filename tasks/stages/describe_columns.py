"""Column descriptions, written once per database: both RSL-SQL and DAC generate them offline."""

from tasks.backbone.metered import MeteredBackbone
from tasks.database.identifiers import quoted
from tasks.database.schema_view import SchemaView
from tasks.stage_runs import prompts
from tasks.stage_runs.stage import stage
from tasks.stages.links import read_link
from tasks.stages.replies import DescriptionsReply


@stage(prompts=("describe_columns",))
async def describe_columns(
    view: SchemaView, table: str, columns: tuple[str, ...], backbone: MeteredBackbone
) -> dict[str, str]:
    """Ask for descriptions of some columns of one table.

    Args:
        view: a schema with that table only.
        table: its name.
        columns: the columns to describe.
        backbone: the model.

    Returns:
        A sentence by column name as the schema spells it; columns that the reply leaves out are absent, and a
        note names them.
    """
    reply = await backbone.ask_json(
        prompts.messages(
            "describe_columns",
            table=quoted(table, view.dialect),
            columns=[quoted(name, view.dialect) if "," in name else name for name in columns],
            parts=view.render(),
        ),
        DescriptionsReply,
        otherwise="no column was described",
    )
    given = {
        name.column: text or ""
        for written, text in (reply.descriptions.items() if reply else ())
        for name in read_link(view.schema, (), (written,)).columns
        if name.table == table
    }
    described = {name: text for name in columns if (text := " ".join(given.get(name, "").split()))}
    if left_out := [name for name in columns if name not in described]:
        backbone.note(f"not described: {', '.join(left_out)}")
    return described
