"""The SQL of a reply to `ask_json(..., SqlReply)`: the step that most stages share."""

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.replies.reading import read_sql
from tasks.records import Answer
from tasks.stages.replies import SqlReply


def sql_answer(reply: SqlReply | None, backbone: MeteredBackbone) -> Answer:
    """Return the one statement of a reply; without one, an Answer with a note.

    Args:
        reply: as read from the backbone's reply; None where it could not be read.
        backbone: the stage's backbone, which notes a reply without SQL.
    """
    if reply is None:
        return Answer(None, "the reply could not be read")
    sql = read_sql(reply.sql)
    if sql is None:
        backbone.note(f'no SQL in the reply: "{" ".join(reply.sql[:80].split())}"')
        return Answer(None, "the reply held no SQL")
    return Answer(sql)
