"""Comparison of two candidates by the backbone, which sees their results (CHASE-SQL, arXiv 2410.01943, section 3.4)."""

from tasks.backbone.metered import MeteredBackbone
from tasks.core.records import Question
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema_view import SchemaView
from tasks.stage_runs.stage import stage
from tasks.stages.candidates.records import Comparison, Preference
from tasks.stages.replies import BetterReply
from tasks.stages.schema_prompt import schema_messages
from tasks.stages.shown_results import ExecutedSql, show_result


@stage(prompts=("compare_candidates",))
async def compare_candidates(
    question: Question,
    view: SchemaView,
    pair: Comparison,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Preference:
    """Execute two queries, and ask which answers the question; "neither" where the reply cannot be read.

    The paper trains a model for this; here the run's backbone is used unchanged.
    """
    tried = [
        ExecutedSql(sql, show_result(await runner.run(sql, pair.rows), pair.rows, counts=True))
        for sql in (pair.first, pair.second)
    ]
    reply = await backbone.ask_json(
        schema_messages(
            "compare_candidates",
            view,
            question=question,
            candidates=tried,
        ),
        BetterReply,
        temperature=pair.temperature,
        otherwise="neither query was preferred",
    )
    if reply is None:
        return Preference("neither")
    return Preference("first" if reply.better == 1 else "second")
