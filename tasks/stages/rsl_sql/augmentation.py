"""Contextual information augmentation: elements, keywords and conditions (RSL-SQL, section 3.2)."""

from collections.abc import Iterable

from tasks.backbone.metered import MeteredBackbone
from tasks.core.records import Augmentation, Link, Question
from tasks.database.schema_view import SchemaView
from tasks.settings.stages import AugmentationPart
from tasks.stage_runs import prompts
from tasks.stage_runs.stage import stage
from tasks.stages.links import read_link
from tasks.stages.replies import AugmentationReply, ConditionsReply, KeywordsReply, LinkReply
from tasks.stages.schema_prompt import schema_messages


@stage(version=2, prompts=("forward_link",))
async def augmentation_elements(
    question: Question, view: SchemaView, max_columns_per_table: int, backbone: MeteredBackbone
) -> Link:
    """Return H_E: ask the forward link's prompt again, on the reduced schema with its descriptions.

    Names that the reduced schema does not have are dropped and noted. An unreadable reply links nothing; a note
    says so.
    """
    reply = await backbone.ask_json(
        schema_messages(
            "forward_link",
            view,
            question=question,
            max_columns_per_table=max_columns_per_table,
            hints=(),
        ),
        LinkReply,
        otherwise="no element was named",
    )
    return _linked(view, reply.tables, reply.columns, backbone) if reply else Link()


@stage(prompts=("augmentation_keywords",))
async def augmentation_keywords(
    question: Question, view: SchemaView, backbone: MeteredBackbone
) -> tuple[str, ...]:
    """Return H_K: the SQL keywords that the question needs; none, with a note, when no reply could be read."""
    reply = await backbone.ask_json(
        schema_messages(
            "augmentation_keywords",
            view,
            question=question,
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


_KEYS = {
    "elements": '"tables" (a list of table names), "columns" (a list of "table.column")',
    "keywords": '"sql_keywords" (a list of strings)',
    "conditions": '"conditions" (a list of strings)',
}


@stage(prompts=("augmentation_together",))
async def augmentation_together(
    question: Question,
    view: SchemaView,
    parts: tuple[AugmentationPart, ...],
    max_columns_per_table: int,
    backbone: MeteredBackbone,
) -> Augmentation:
    """Return elements, keywords and conditions from one call, which sends the schema once (our extension).

    A part that is not in `parts` is None. If the reply cannot be read, every part is empty and a note says so.
    """
    reply = await backbone.ask_json(
        schema_messages(
            "augmentation_together",
            view,
            question=question,
            parts_on=parts,
            max_columns_per_table=max_columns_per_table,
            keys=", ".join(_KEYS[part] for part in parts),
        ),
        AugmentationReply,
        otherwise="nothing was named",
    ) or AugmentationReply(tables=[])
    return Augmentation(
        _linked(view, reply.tables, reply.columns, backbone) if "elements" in parts else None,
        _on_one_line(reply.sql_keywords) if "keywords" in parts else None,
        _on_one_line(reply.conditions) if "conditions" in parts else None,
    )


def _linked(
    view: SchemaView, tables: Iterable[str], columns: Iterable[str], backbone: MeteredBackbone
) -> Link:
    link = read_link(view.schema, tables, columns)
    if link.dropped:
        backbone.note(f"not in the reduced schema: {', '.join(link.dropped)}")
    return link


def _on_one_line(texts: Iterable[str]) -> tuple[str, ...]:
    lines = (" ".join(text.split()) for text in texts)
    return tuple(dict.fromkeys(line for line in lines if line))
