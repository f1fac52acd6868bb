"""The stages that select among candidates: vote, comparison (CHASE-SQL, arXiv 2410.01943), merge revision (CSC-SQL)."""

from dataclasses import dataclass
from typing import Literal

from tasks.backbone.metered import MeteredBackbone
from tasks.core.records import Question
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema_text import SchemaView
from tasks.scoring.execution.accuracy import group_by_result
from tasks.scoring.execution.judge_job import Ballot
from tasks.sql.same_query import query_key
from tasks.stages.replies import BetterReply, SqlReply, sql_answer
from tasks.stages.schema_prompt import ExecutedSql, schema_messages, show_result
from tasks.stages.stage import stage


@dataclass(frozen=True, slots=True)
class CandidateGroup:
    """A candidate's SQL, and how many candidates return what it returns, itself among them."""

    sql: str
    votes: int


@dataclass(frozen=True, slots=True)
class QueryPair:
    """Two queries to compare, in the order in which they are shown."""

    first: str
    second: str
    rows: int  # rows of their results that are shown
    temperature: float | None = None  # of the requests; None: the backbone's own


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Queries to make one of."""

    # a query of each group of equal results, the group that the vote prefers first
    groups: tuple[CandidateGroup, ...]
    rows: int  # rows of their results that are shown
    temperature: float | None = None  # of the requests; None: the backbone's own


@dataclass(frozen=True, slots=True)
class Preference:
    """Which of two queries the backbone prefers; "neither" where its reply could not be read."""

    preferred: Literal["first", "second", "neither"]


@dataclass(frozen=True, slots=True)
class Merged:
    """The query that the backbone wrote from several."""

    sql: str  # the query that goes on
    # "chosen", it repeated a candidate; "written", it wrote another; "kept", the vote's candidate goes on, because
    # there was no reply to read or its query does not run
    outcome: Literal["chosen", "written", "kept"]


@stage(prompts=("compare_candidates",))
async def compare_candidates(
    question: Question,
    view: SchemaView,
    pair: QueryPair,
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
    normal = query_key(answer.sql, view.dialect)
    known = normal in (query_key(sql, view.dialect) for sql in sqls)
    return Merged(answer.sql, "chosen" if known else "written")


@stage()
async def vote(candidates: tuple[str | None, ...], rule: str, runner: DatabaseRunner) -> Ballot:
    """Run every candidate and group those with equal results; `Ballot.winner` is the vote's choice.

    Self-consistency over results (Wang et al., arXiv 2203.11171), as CHASE-SQL and CSC-SQL use it as a baseline.
    """
    return await group_by_result(candidates, rule, runner)
