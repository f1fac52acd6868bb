"""Groups of SQL that returns the same, under a rule of execution accuracy and without any gold."""

from collections.abc import Sequence

from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.sandbox.workers import WorkerLost
from tasks.scoring.candidates import Ballot
from tasks.scoring.execution.accuracy import COMPARING_S
from tasks.scoring.execution.judge_job import Grouped, Query, group_results
from tasks.scoring.execution.rules import RULES, GoldOrder
from tasks.sql.rewriting import as_spider_executes, ordering


async def group_by_result(sqls: Sequence[str | None], rule: str, runner: DatabaseRunner) -> Ballot:
    """Run every SQL and return which of them have equal results.

    Two results are equal where the rule calls either right with the other in the gold's place: rules treat gold and
    prediction differently (ORDER BY, further columns), and here neither is a gold. A SQL joins the group of the first
    one that it equals. None or blank is "no_answer".
    """
    distinct = list(dict.fromkeys(sql for sql in sqls if sql and not sql.isspace()))
    grouped = await _grouped(distinct, rule, runner) if distinct else []
    by_sql = dict(zip(distinct, grouped, strict=True))
    statuses, leaders = [], []
    for number, sql in enumerate(sqls):
        result = by_sql.get(sql or "")
        statuses.append(result.status if result else "no_answer")
        ran = result and result.status in ("ok", "empty")
        leaders.append(sqls.index(distinct[result.leader]) if result and ran else number)
    return Ballot(tuple(statuses), tuple(leaders))


async def _grouped(sqls: Sequence[str], rule: str, runner: DatabaseRunner) -> list[Grouped]:
    """Group in one call of a worker; where that ends the worker, in calls of two SQLs each."""
    try:
        return await _group(sqls, rule, runner)
    except WorkerLost:
        alone = [await _alone(sql, rule, runner) for sql in sqls]
    grouped: list[Grouped] = []
    for number, (sql, result) in enumerate(zip(sqls, alone, strict=True)):
        leader = number
        for earlier in dict.fromkeys(group.leader for group in grouped if group.status == result.status):
            if result.status in ("ok", "empty") and await _equal(sqls[earlier], sql, rule, runner):
                leader = earlier
                break
        grouped.append(Grouped(result.status, leader))
    return grouped


async def _alone(sql: str, rule: str, runner: DatabaseRunner) -> Grouped:
    try:
        return (await _group([sql], rule, runner))[0]
    except WorkerLost as lost:
        return Grouped(lost.status, 0)


async def _equal(one: str, other: str, rule: str, runner: DatabaseRunner) -> bool:
    try:
        return (await _group([one, other], rule, runner))[1].leader == 0
    except WorkerLost:
        return False


async def _group(sqls: Sequence[str], rule: str, runner: DatabaseRunner) -> list[Grouped]:
    dialect, strips = runner.database.dialect, RULES[rule].strips_distinct
    queries = tuple(Query(sql, as_spider_executes(sql, dialect) if strips else sql) for sql in sqls)
    orderings = [ordering(sql, dialect) for sql in sqls]
    orders = tuple(GoldOrder(order.anywhere, order.outermost) for order in orderings)
    limit = runner.timeout_s
    budget = limit * sum(1 + (query.plain != query.sql) for query in queries) + COMPARING_S
    grouped: list[Grouped] = await runner.workers.call(
        group_results, runner.database, queries, orders, rule, limit, timeout_s=budget
    )
    return grouped
