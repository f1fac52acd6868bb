"""Entity linking: which word of the question means which table, column or value (DAC, section 3.2; spec 2)."""

from tasks import prompts
from tasks.backbone.metered import MeteredBackbone
from tasks.dac_records import Alignment
from tasks.database.schema import Schema
from tasks.records import Question
from tasks.retrieval.alignment import GroundedDemonstration, with_tables
from tasks.settings.pipeline import PromptSettings
from tasks.sql.elements import Elements
from tasks.sql.used_elements import used_elements
from tasks.stage import stage
from tasks.stages.dac.alignment_reply import AlignmentReply
from tasks.stages.dac.entity_alignment import Given, entities_of, link_by_name, resolve_given
from tasks.stages.dac.examples import shown_examples
from tasks.stages.show import show_schema


@stage(prompts=("entity_linking",))
async def entity_linking(
    question: Question,
    schema: Schema,
    prompt: PromptSettings,
    demonstrations: tuple[GroundedDemonstration, ...],
    sql: str | None,
    descriptions: bool,
    backbone: MeteredBackbone,
) -> Alignment:
    """Align the question's tokens with the schema, given a SQL that was written for it.

    The backbone sees the tables of the SQL only. Tokens that it leaves unlinked are then compared with the names
    of the full schema, so that a table which the SQL misses can be found.

    Args:
        question: the question and its evidence.
        schema: the full schema; its samples are the values to show.
        prompt: how schemas are shown.
        demonstrations: training questions with their alignment; one without a schema is not shown.
        sql: the current SQL; None shows the full schema and no SQL.
        descriptions: show column descriptions.
        backbone: who is asked.

    Returns:
        The alignment. Entities that the schema does not have are dropped and noted. An unreadable reply leaves all
        to the names; a note says so.
    """
    used = used_elements(sql, schema) if sql else Elements((), ())
    shown = with_tables(schema, used.tables)
    reply = await backbone.ask_json(
        prompts.messages(
            "entity_linking",
            question=question,
            dialect=schema.dialect_name,
            examples=shown_examples((one for one in demonstrations if one.database is not None), prompt),
            parts=show_schema(shown, prompt, descriptions=descriptions),
            sql=sql or "",
        ),
        AlignmentReply,
    )
    given = [Given(one.token, one.entity, one.type) for one in reply.alignment] if reply else []
    resolved = resolve_given(question.text, given, shown, schema)
    if resolved.dropped:
        backbone.note(f"not in the schema: {', '.join(resolved.dropped)}")
    tokens = link_by_name(resolved.tokens, shown, schema, used)
    by_name = sum(one.type != before.type for one, before in zip(tokens, resolved.tokens, strict=True))
    note = "" if reply else "the reply could not be read: linked by names alone"
    return Alignment(tokens, entities_of(tokens, schema), resolved.dropped, by_name, note)
