"""A model's opinion on an answer: is it right as a reader means the question, whatever the gold says?

It sees the gold and its result, so it is requested when everything is answered, and nothing of it reaches a
stage: its prompt is rendered here, and nothing imports this module but the command `judge`.
"""

from collections.abc import Sequence

from pydantic import BaseModel

from tasks.backbone.metered import MeteredBackbone
from tasks.core.records import Question
from tasks.core.wording import storable
from tasks.scoring.report import Opinion
from tasks.stage_runs import prompts
from tasks.stages.shown_results import ExecutedSql


class OpinionReply(BaseModel):
    """Whether the first query answers the question, and why."""

    right: bool
    reason: str


async def ask_opinion(
    question: Question, dialect: str, shown: Sequence[ExecutedSql], backbone: MeteredBackbone, name: str
) -> Opinion | None:
    """Request an opinion on an answer and a gold with their results, kept under a name; None where it cannot be read.

    Raises:
        BackboneError: there is no answer.
    """
    reply = await backbone.ask_json(
        prompts.messages("opinion", question=question, dialect=dialect, candidates=shown), OpinionReply
    )
    return None if reply is None else Opinion(name, reply.right, storable(reply.reason))
