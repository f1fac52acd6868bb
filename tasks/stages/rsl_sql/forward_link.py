"""Forward link: the backbone names the tables and columns that the question needs (RSL-SQL, section 3.1; spec 1a)."""

from tasks import prompts
from tasks.backbone.metered import MeteredBackbone
from tasks.database.schema import Schema
from tasks.records import Link, Question
from tasks.settings.pipeline import ForwardLinkSettings, PromptSettings
from tasks.stage import stage
from tasks.stages.links import hinted, make_link, read_link, shown_columns
from tasks.stages.replies import LinkReply
from tasks.stages.show import show_schema


@stage(prompts=("forward_link",))
async def forward_link(
    question: Question,
    schema: Schema,
    prompt: PromptSettings,
    settings: ForwardLinkSettings,
    earlier: Link | None,
    backbone: MeteredBackbone,
) -> Link:
    """Link from the question to the schema.

    Args:
        question: the question and its evidence.
        schema: the full schema.
        prompt: how the schema is shown.
        settings: where further column names are looked for.
        earlier: the union of the links so far, where this is not the first iteration (acl).
        backbone: who is asked.

    Returns:
        What the backbone named and the schema has, and every column whose name is a substring of the hint source.
        An unreadable reply links nothing by itself; a note says so, and the hints remain.
    """
    reply = await backbone.ask_json(
        prompts.messages(
            "forward_link",
            question=question,
            dialect=schema.dialect_name,
            parts=show_schema(schema, prompt, descriptions=False),
            max_columns_per_table=settings.max_columns_per_table,
            hints=shown_columns(schema, earlier),
        ),
        LinkReply,
    )
    link = read_link(schema, reply.tables, reply.columns) if reply else Link()
    if link.dropped:
        backbone.note(f"not in the schema: {', '.join(link.dropped)}")
    hints = hinted(schema, _hint_text(question, settings))
    return make_link(schema, (*link.columns, *hints), link.tables, link.dropped)


def _hint_text(question: Question, settings: ForwardLinkSettings) -> str:
    texts = {
        "evidence": question.evidence,
        "question": question.text,
        "both": f"{question.text}\n{question.evidence}",
        "none": "",
    }
    return texts[settings.hint_source]
