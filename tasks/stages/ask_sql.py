"""Asks a backbone for one SQL: the step that most stages share."""

from collections.abc import Sequence

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message
from tasks.backbone.replies.reading import read_sql
from tasks.records import Answer
from tasks.stages.replies import SqlReply


async def ask_sql(
    backbone: MeteredBackbone,
    messages: Sequence[Message],
    *,
    sample: int = 0,
    temperature: float | None = None,
) -> Answer:
    """Ask for a JSON object with the key `sql` and return its one statement; without one, an Answer with a note.

    `sample` and `temperature` as in `MeteredBackbone.ask_json`.
    """
    reply = await backbone.ask_json(messages, SqlReply, sample=sample, temperature=temperature)
    if reply is None:
        return Answer(None, "the reply could not be read")
    sql = read_sql(reply.sql)
    if sql is None:
        backbone.note(f'no SQL in the reply: "{" ".join(reply.sql[:80].split())}"')
        return Answer(None, "the reply held no SQL")
    return Answer(sql)
