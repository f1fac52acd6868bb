"""Entity linking: which word of the question means which table, column or value (DAC, section 3.2)."""

from tasks.backbone.metered import MeteredBackbone
from tasks.core.dac_records import Alignment
from tasks.core.records import Question
from tasks.database.schema_view import SchemaView
from tasks.retrieval.alignment import GroundedDemonstration, whole_question
from tasks.settings.stages import Names
from tasks.sql.elements import Elements, used_elements
from tasks.stage_runs.stage import stage
from tasks.stages.dac.alignment_reply import AlignmentReply
from tasks.stages.dac.entity_alignment import AlignmentItem, entities_of, link_by_name, resolve_given
from tasks.stages.dac.examples import shown_examples
from tasks.stages.schema_prompt import schema_messages


@stage(version=5, prompts=("entity_linking",))
async def entity_linking(
    question: Question,
    view: SchemaView,
    demonstrations: tuple[GroundedDemonstration, ...],
    sql: str | None,
    names: Names,
    backbone: MeteredBackbone,
) -> Alignment:
    """Align the tokens of the question and its evidence with the schema, given a SQL that was written for it.

    The backbone sees the tables of the SQL only; without a SQL, all tables. Tokens that it leaves unlinked are then
    compared with the names of the full schema, so that a table which the SQL misses can be found; with the names
    "unlisted", only those that the reply does not list. A demonstration of an unknown database is not shown.

    Returns:
        The alignment. Entities that the schema does not have are dropped and noted. After an unreadable reply all
        links come from the names; a note says so.
    """
    used = used_elements(sql, view.schema) if sql else Elements((), ())
    shown = view.limited_to(used.tables)
    reply = await backbone.ask_json(
        schema_messages(
            "entity_linking",
            shown,
            question=question,
            examples=shown_examples((one for one in demonstrations if one.database is not None), view.prompt),
            sql=sql or "",
        ),
        AlignmentReply,
        otherwise="linked by names alone",
    )
    given = [AlignmentItem(one.token, one.entity, one.type) for one in reply.alignment] if reply else []
    resolved = resolve_given(
        whole_question(question.text, question.evidence), given, shown.schema, view.schema
    )
    if resolved.dropped:
        backbone.note(f"not in the schema: {', '.join(resolved.dropped)}")
    but = resolved.without_meaning if names == "unlisted" else ()
    tokens = link_by_name(resolved.tokens, shown.schema, view.schema, used, but)
    by_name = sum(one.type != before.type for one, before in zip(tokens, resolved.tokens, strict=True))
    note = "" if reply else "the reply could not be read: linked by names alone"
    return Alignment(tokens, entities_of(tokens, view.schema), resolved.dropped, by_name, note)
