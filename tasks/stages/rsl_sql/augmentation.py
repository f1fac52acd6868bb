"""Contextual information augmentation: elements, keywords and conditions (RSL-SQL, section 3.2)."""

from collections.abc import Iterable

from tasks.backbone.metered import MeteredBackbone
from tasks.core.records import Link, Question
from tasks.database.schema_view import SchemaView
from tasks.stage_runs import prompts
from tasks.stage_runs.stage import stage
from tasks.stages.links import read_link
from tasks.stages.replies import ConditionsReply, KeywordsReply, LinkReply


@stage(version=2, prompts=("forward_link",))
async def augmentation_elements(
    question: Question, view: SchemaView, max_columns_per_table: int, backbone: MeteredBackbone
) -> Link:
    """Return H_E: ask the forward link's prompt again, on the reduced schema with its descriptions.

    Names that the reduced schema does not have are dropped and noted. An unreadable reply links nothing; a note
    says so.
    """
    reply = await backbone.ask_json(
        prompts.messages(
            "forward_link",
            question=question,
            dialect=view.dialect_name,
            parts=view.render(),
            max_columns_per_table=max_columns_per_table,
            hints=(),
        ),
        LinkReply,
        otherwise="no element was named",
    )
    link = read_link(view.schema, reply.tables, reply.columns) if reply else Link()
    if link.dropped:
        backbone.note(f"not in the reduced schema: {', '.join(link.dropped)}")
    return link


@stage(prompts=("augmentation_keywords",))
async def augmentation_keywords(
    question: Question, view: SchemaView, backbone: MeteredBackbone
) -> tuple[str, ...]:
    """Return H_K: the SQL keywords that the question needs; none, with a note, when no reply could be read."""
    reply = await backbone.ask_json(
        prompts.messages(
            "augmentation_keywords", question=question, dialect=view.dialect_name, parts=view.render()
        ),
        KeywordsReply,
        otherwise="no keyword was named",
    )
    return _on_one_line(reply.sql_keywords) if reply else ()


@stage(prompts=("augmentation_conditions",))
async def augmentation_conditions(question: Question, backbone: MeteredBackbone) -> tuple[str, ...]:
    """Return H_C: the question's conditions, from its text alone; none, with a note, when no reply could be read."""
    reply = await backbone.ask_json(
        prompts.messages("augmentation_conditions", question=question),
        ConditionsReply,
        otherwise="no condition was named",
    )
    return _on_one_line(reply.conditions) if reply else ()


def _on_one_line(texts: Iterable[str]) -> tuple[str, ...]:
    lines = (" ".join(text.split()) for text in texts)
    return tuple(dict.fromkeys(line for line in lines if line))
