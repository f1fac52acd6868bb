"""Merge revision: one query from those with the most frequent results (CSC-SQL, arXiv 2505.13271)."""

from tasks.backbone.metered import MeteredBackbone
from tasks.core.records import Question
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema_view import SchemaView
from tasks.sql.parsing import normalise_sql
from tasks.stage_runs.stage import stage
from tasks.stages.candidates.records import Merged, MergeRequest
from tasks.stages.replies import SqlReply, sql_answer
from tasks.stages.schema_prompt import schema_messages
from tasks.stages.shown_results import ExecutedSql, show_result


@stage(version=2, prompts=("merge_candidates",))
async def merge_candidates(
    question: Question,
    view: SchemaView,
    request: MergeRequest,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Merged:
    """Show a query of each group with its result and its votes, the most frequent first, and ask for the right one.

    The paper trains a model for this; here the run's backbone is used unchanged. A query that fails to execute is not
    taken: the first one is kept.
    """
    sqls = [group.sql for group in request.groups]
    tried = [
        ExecutedSql(sql, show_result(await runner.run(sql, request.rows), request.rows, counts=True))
        for sql in sqls
    ]
    reply = await backbone.ask_json(
        schema_messages(
            "merge_candidates",
            view,
            question=question,
            candidates=tried,
            votes=[group.votes for group in request.groups],
        ),
        SqlReply,
        temperature=request.temperature,
    )
    answer = sql_answer(reply, backbone, otherwise="the vote's query was kept")
    if answer.sql is None or not (await runner.run(answer.sql, 0)).ok:
        backbone.note(f"{answer.note or 'the merged query does not run'}; the vote's was kept")
        return Merged(sqls[0], "kept")
    normal = normalise_sql(answer.sql, view.dialect)
    known = normal in (normalise_sql(sql, view.dialect) for sql in sqls)
    return Merged(answer.sql, "chosen" if known else "written")
