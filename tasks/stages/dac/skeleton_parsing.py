"""Skeleton parsing: the structure of the SQL from the question alone (DAC, section 3.3)."""

from tasks.backbone.metered import MeteredBackbone
from tasks.core.dac_records import ParsedSkeleton
from tasks.core.records import Demonstration, Question
from tasks.database.schema import dialect_name
from tasks.retrieval.alignment import GroundedDemonstration
from tasks.sql.skeleton import read_skeleton
from tasks.stage_runs import prompts
from tasks.stage_runs.stage import stage
from tasks.stages.replies import SqlReply, sql_answer

NO_SKELETON = "no skeleton was parsed"


@stage(version=3, prompts=("skeleton_parsing",))
async def skeleton_parsing(
    question: Question,
    dialect: str,
    demonstrations: tuple[GroundedDemonstration, ...],
    backbone: MeteredBackbone,
) -> ParsedSkeleton:
    """Have a SQL written with invented names, and keep its skeleton.

    The evidence of the question and of the demonstrations is shown where they have one.

    Returns:
        The skeleton; None, with a note, when the reply held no SQL or one that cannot be parsed.
    """
    reply = await backbone.ask_json(
        prompts.messages(
            "skeleton_parsing",
            question=question,
            dialect=dialect_name(dialect),
            demonstrations=[Demonstration(one.question, one.sql, "", one.evidence) for one in demonstrations],
        ),
        SqlReply,
    )
    answer = sql_answer(reply, backbone, otherwise=NO_SKELETON)
    if answer.sql is None:
        return ParsedSkeleton(None, note=answer.note)
    reading = read_skeleton(answer.sql, dialect)
    if reading.text is None:
        backbone.note(f"the SQL for the skeleton cannot be parsed: {reading.reason}")
        backbone.fall_back(NO_SKELETON)
    return ParsedSkeleton(reading.text, answer.sql, reading.reason)
