"""A model's opinion on an answer: is it right as a reader means the question, whatever the gold says?

It sees the gold and its result, so it is requested when everything is answered, and nothing of it reaches a
stage: its prompt is rendered here, and nothing imports this module but the command `judge`.
"""

from collections.abc import Sequence

from pydantic import BaseModel

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message
from tasks.core.records import Question
from tasks.core.wording import storable
from tasks.database.schema import Schema
from tasks.database.schema_view import SchemaView
from tasks.scoring.report import Opinion
from tasks.stage_runs import prompts
from tasks.stages.shown_results import ExecutedSql

PROMPTS = ("opinion", "opinion_alone")
"""Templates of an answer beside the gold, and of an answer alone."""


class OpinionReply(BaseModel):
    """Whether the first query answers the question, and why."""

    right: bool
    reason: str


async def ask_opinion(
    question: Question, schema: Schema, shown: Sequence[ExecutedSql], backbone: MeteredBackbone, name: str
) -> Opinion | None:
    """Request an opinion on an answer, kept under a name; None where it cannot be read.

    Args:
        question: the question.
        schema: that of its database.
        shown: the answer with its result, then the gold with its own. Without a gold, the schema is shown.
        backbone: the model.
        name: name of the model.

    Raises:
        BackboneError: there is no answer.
    """
    reply = await backbone.ask_json(_messages(question, schema, shown), OpinionReply)
    return None if reply is None else Opinion(name, reply.right, storable(reply.reason))


def _messages(question: Question, schema: Schema, shown: Sequence[ExecutedSql]) -> Sequence[Message]:
    dialect = schema.dialect_name
    beside, alone = PROMPTS
    if len(shown) > 1:
        return prompts.messages(beside, question=question, dialect=dialect, candidates=shown)
    parts = SchemaView(schema, descriptions=True).render()
    return prompts.messages(alone, question=question, dialect=dialect, parts=parts, candidate=shown[0])
