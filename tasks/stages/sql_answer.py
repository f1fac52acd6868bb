"""The SQL of a reply to `ask_json(..., SqlReply)`: the step that most stages share."""

from tasks.backbone.metered import NO_SQL, MeteredBackbone
from tasks.backbone.replies.reading import read_sql
from tasks.core.records import Answer
from tasks.stages.replies import SqlReply


def sql_answer(reply: SqlReply | None, backbone: MeteredBackbone, otherwise: str = NO_SQL) -> Answer:
    """Return the one statement of a reply; without one, an Answer with a note.

    Args:
        reply: as read from the backbone's reply; None where it could not be read.
        backbone: the stage's backbone, which notes and counts a reply without SQL.
        otherwise: what the stage uses where there is no SQL, as for `MeteredBackbone.fall_back`.
    """
    sql = read_sql(reply.sql) if reply else None
    if sql is not None:
        return Answer(sql)
    backbone.fall_back(otherwise)
    if reply is None:
        return Answer(None, "the reply could not be read")
    backbone.count_unusable(f'no SQL in the reply: "{" ".join(reply.sql[:80].split())}"')
    return Answer(None, "the reply held no SQL")
