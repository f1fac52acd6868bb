"""Forward link: the backbone names the tables and columns that the question needs (RSL-SQL, section 3.1)."""

from tasks.backbone.metered import MeteredBackbone
from tasks.core.records import Link, Question
from tasks.database.schema import Schema
from tasks.database.schema_view import SchemaView
from tasks.settings.stages import HintSource
from tasks.stage_runs.stage import stage
from tasks.stages.links import hinted, make_link, read_link, shown_columns
from tasks.stages.replies import LinkReply
from tasks.stages.schema_prompt import schema_messages


@stage(version=2, prompts=("forward_link",))
async def forward_link(
    question: Question,
    view: SchemaView,
    max_columns_per_table: int,
    earlier: Link | None,
    backbone: MeteredBackbone,
) -> Link:
    """Link from the question to the full schema.

    `earlier` is the union of the links so far where this is not the first iteration (the authors' ACL code).

    Returns:
        What the backbone named and the schema has. An unreadable reply links nothing; a note says so.
    """
    reply = await backbone.ask_json(
        schema_messages(
            "forward_link",
            view,
            question=question,
            max_columns_per_table=max_columns_per_table,
            hints=shown_columns(view.schema, earlier),
        ),
        LinkReply,
        otherwise="nothing was linked",
    )
    link = read_link(view.schema, reply.tables, reply.columns) if reply else Link()
    if link.dropped:
        backbone.note(f"not in the schema: {', '.join(link.dropped)}")
    return link


def hinted_link(question: Question, schema: Schema, source: HintSource) -> Link:
    """Return every column whose name is a substring of the hint source: they join the link after SQL1."""
    texts = {
        "evidence": question.evidence,
        "question": question.text,
        "both": f"{question.text}\n{question.evidence}",
        "none": "",
    }
    return make_link(schema, hinted(schema, texts[source]))
