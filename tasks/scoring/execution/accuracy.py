"""Execution accuracy: whether a SQL returns what the gold returns, executed in sandboxed workers.

Without any gold, SQL that returns the same is grouped, under a rule of execution accuracy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tasks.database.database import Database
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.sandbox.workers import SqlWorkers, WorkerLost
from tasks.scoring.execution.judge_job import (
    REPEATABLE,
    Ballot,
    Compared,
    Grouped,
    JudgedQuery,
    JudgeJob,
    compare,
    group_results,
    seconds_of,
)
from tasks.scoring.execution.rules import RULES, SubsetGold
from tasks.scoring.execution.verdict_cache import VerdictCache, VerdictKey
from tasks.scoring.scores import Verdict
from tasks.sql.rewriting import Ordering, as_spider_executes, ordering


@dataclass(frozen=True, slots=True)
class Judge:
    """Comparison of SQL with gold SQL by execution."""

    workers: SqlWorkers  # the pool that executes
    rules: tuple[str, ...]  # names of the rules to judge by
    timeout_s: float  # limit per query, in seconds
    # verdicts known already; verdicts that a repetition could change are not put into it
    cache: VerdictCache | dict[VerdictKey, Verdict] | None = None

    async def verdicts(
        self,
        database: Database,
        gold_sql: str,
        candidates: Mapping[str, str | None],
        *,
        accepted: SubsetGold | None = None,
    ) -> Mapping[str, Verdict]:
        """Judge the candidates of one question; `candidates` is their SQL by name. Each distinct SQL is executed once.

        All of them share one worker call. If that worker is lost, each SQL is judged in a call of its own, so that a
        query that kills its worker costs no other query its verdict. A gold that does not finish makes every
        candidate wrong, except under rules that have accepted results; `gold_status` tells of it.

        A candidate without SQL has the status "no_answer". `gold_sql` is "" where there are accepted results only:
        under "subset" these count as right, whatever the gold returns.
        """
        cache = {} if self.cache is None else self.cache
        accepted_digest = accepted.digest if accepted else ""
        sqls = {name: "" if not sql or sql.isspace() else sql for name, sql in candidates.items()}
        keys = {
            sql: VerdictKey(database.digest, gold_sql, sql, self.rules, self.timeout_s, accepted_digest)
            for sql in sqls.values()
        }
        verdicts = {sql: verdict for sql, key in keys.items() if (verdict := cache.get(key)) is not None}
        if to_judge := [sql for sql in keys if sql not in verdicts]:
            predicted = tuple(_query(sql, database.dialect) for sql in to_judge if sql)
            gold = _query(gold_sql, database.dialect, with_order=True) if gold_sql else None
            job = JudgeJob(gold, predicted, self.rules, self.timeout_s, accepted)
            gold_status, judged, repeatable = await _compare(self.workers, database, job)
            verdicts[""] = Verdict(dict.fromkeys(self.rules, False), "no_answer", gold_status=gold_status)
            verdicts |= {query.sql: verdict for query, verdict in zip(predicted, judged, strict=True)}
            if repeatable and gold_status in REPEATABLE:
                for sql in to_judge:
                    if verdicts[sql].status in (*REPEATABLE, "no_answer"):
                        cache[keys[sql]] = verdicts[sql]
        return {name: verdicts[sql] for name, sql in sqls.items()}


def _query(sql: str, dialect: str, *, with_order: bool = False) -> JudgedQuery:
    order = ordering(sql, dialect) if with_order else Ordering()
    return JudgedQuery(sql, as_spider_executes(sql, dialect), order)


async def _compare(workers: SqlWorkers, database: Database, job: JudgeJob) -> Compared:
    """Compare in one call of a worker; if the worker is lost, call once for the gold, then once for each prediction."""
    try:
        return await _call(workers, database, job)
    except WorkerLost as lost:
        if not job.predicted:
            return Compared(lost.status, verdicts=())
    gold_alone = await _compare(workers, database, job._replace(predicted=()))
    gold = job.gold if gold_alone.gold_status == "ok" else None
    verdicts = []
    repeatable = gold_alone.repeatable
    for query in job.predicted:
        try:
            compared = await _call(workers, database, job._replace(gold=gold, predicted=(query,)))
            repeatable &= compared.repeatable
            verdicts.append(replace(compared.verdicts[0], gold_status=gold_alone.gold_status))
        except WorkerLost as lost:
            wrong = dict.fromkeys(job.rules, False)
            verdicts.append(Verdict(wrong, lost.status, str(lost), gold_status=gold_alone.gold_status))
    return Compared(gold_alone.gold_status, tuple(verdicts), repeatable)


async def _call(workers: SqlWorkers, database: Database, job: JudgeJob) -> Compared:
    compared: Compared = await workers.together.call(compare, database, job, timeout_s=job.seconds)
    return compared


async def group_by_result(sqls: Sequence[str | None], rule: str, runner: DatabaseRunner) -> Ballot:
    """Run every SQL and return which of them have equal results.

    Two results are equal if, under the rule, each is right with the other one as gold: rules treat gold and prediction
    differently (ORDER BY, further columns), and here neither is a gold. The leader of a SQL is the first SQL with an
    equal result; a SQL that does not run is its own leader. None or blank has the status "no_answer".
    """
    distinct = list(dict.fromkeys(sql for sql in sqls if sql and not sql.isspace()))
    grouped = await _group_all(distinct, rule, runner) if distinct else []
    group_of_sql = dict(zip(distinct, grouped, strict=True))
    statuses, leaders = [], []
    for number, sql in enumerate(sqls):
        group = group_of_sql.get(sql or "")
        statuses.append(group.status if group else "no_answer")
        ran = group and group.status in ("ok", "empty")
        leaders.append(sqls.index(distinct[group.leader]) if group and ran else number)
    return Ballot(tuple(statuses), tuple(leaders))


async def _group_all(sqls: Sequence[str], rule: str, runner: DatabaseRunner) -> list[Grouped]:
    """Group in one call of a worker; if the worker is lost, run each SQL alone, and compare SQLs in calls of two."""
    try:
        return await _group_in_one_call(sqls, rule, runner)
    except WorkerLost as lost:
        if len(sqls) == 1:
            return [Grouped(lost.status, leader=0)]
    grouped: list[Grouped] = []
    for number, sql in enumerate(sqls):
        status = (await _group_all([sql], rule, runner))[0].status
        leader = number
        ran = status in ("ok", "empty")
        for earlier_leader in dict.fromkeys(group.leader for group in grouped if group.status == status):
            if ran and await _equal(sqls[earlier_leader], sql, rule, runner):
                leader = earlier_leader
                break
        grouped.append(Grouped(status, leader))
    return grouped


async def _equal(first: str, second: str, rule: str, runner: DatabaseRunner) -> bool:
    try:
        return (await _group_in_one_call([first, second], rule, runner))[1].leader == 0
    except WorkerLost:
        return False


async def _group_in_one_call(sqls: Sequence[str], rule: str, runner: DatabaseRunner) -> list[Grouped]:
    """Run SQLs in one worker and group those whose results are equal under a rule."""
    dialect = runner.database.dialect
    queries = [_query(sql, dialect, with_order=True) for sql in sqls]
    if not RULES[rule].strips_distinct:  # no second run without DISTINCT
        queries = [query._replace(plain=query.sql) for query in queries]
    limit_s = seconds_of(queries, runner.timeout_s)
    grouped: list[Grouped] = await runner.workers.call(
        group_results, runner.database, tuple(queries), rule, runner.timeout_s, timeout_s=limit_s
    )
    return grouped
