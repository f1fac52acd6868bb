"""Execution accuracy: whether a SQL returns what the gold returns, executed in sandboxed workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers, WorkerLost
from tasks.scoring.execution.judge_job import Compared, JudgeJob, Query, compare
from tasks.scoring.execution.rules import GoldOrder, SubsetGold
from tasks.scoring.execution.verdict_cache import VerdictCache, VerdictKey
from tasks.scoring.report import Verdict
from tasks.sql.rewriting import as_spider_executes, ordering

REPEATABLE = frozenset({"ok", "error"})
"""Statuses that a repetition on the same database would give again."""
COMPARING_S = 15.0
"""Seconds beyond those of its queries that a worker may take to compare; a million rows take a few."""


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
        """Judge the candidates of one question, SQL by name; each distinct SQL is executed once.

        All of them share one worker call. If that worker is lost, each goes alone, so that a query that kills its
        worker costs no other its verdict. A gold that does not finish makes every candidate wrong, but for rules
        that have accepted results; `gold_status` says so.

        No SQL, or a blank one, is "no_answer". The gold is "" where there are accepted results only; these count as
        right under "subset" in the place of the gold's.
        """
        stored = {} if self.cache is None else self.cache
        nothing = VerdictKey(
            database.digest, gold_sql, "", self.rules, self.timeout_s, accepted.digest if accepted else ""
        )
        distinct = list(dict.fromkeys(sql for sql in candidates.values() if sql and not sql.isspace()))
        keys = {sql: nothing._replace(sql=sql) for sql in distinct}
        verdicts = {sql: verdict for sql, key in keys.items() if (verdict := stored.get(key)) is not None}
        to_judge = [sql for sql in distinct if sql not in verdicts]
        gold_status = next((verdict.gold_status for verdict in verdicts.values()), "")
        if not (to_judge or gold_status) and (without := stored.get(nothing)) is not None:
            gold_status = without.gold_status
        if to_judge or not gold_status:
            job = self._job(database, gold_sql, to_judge, accepted)
            compared = await _compare(self.workers, database, job)
            gold_status = compared.gold_status
            verdicts.update(zip(to_judge, compared.verdicts, strict=True))
        missing = Verdict(dict.fromkeys(self.rules, False), "no_answer", gold_status=gold_status)
        if gold_status in REPEATABLE:
            for sql in to_judge:
                if verdicts[sql].status in REPEATABLE:
                    stored[keys[sql]] = verdicts[sql]
            if not distinct:
                stored[nothing] = missing
        return {name: verdicts.get(sql or "", missing) for name, sql in candidates.items()}

    def _job(
        self, database: Database, gold_sql: str, sqls: Sequence[str], accepted: SubsetGold | None
    ) -> JudgeJob:
        gold, *predicted = (
            Query(sql, as_spider_executes(sql, database.dialect)) for sql in (gold_sql, *sqls)
        )
        order = ordering(gold_sql, database.dialect)
        return JudgeJob(
            gold if gold_sql else None,
            tuple(predicted),
            self.rules,
            GoldOrder(order.anywhere, order.outermost),
            self.timeout_s,
            accepted,
        )


async def _compare(workers: SqlWorkers, database: Database, job: JudgeJob) -> Compared:
    """Compare in one call, or, when that kills its worker, query by query."""
    try:
        return await _call(workers, database, job)
    except WorkerLost as lost:
        if not job.predicted:
            return Compared(lost.status, ())
    alone = await _compare(workers, database, job._replace(predicted=()))
    gold = job.gold if alone.gold_status == "ok" else None
    verdicts = []
    for query in job.predicted:
        try:
            compared = await _call(workers, database, job._replace(gold=gold, predicted=(query,)))
            verdicts.append(replace(compared.verdicts[0], gold_status=alone.gold_status))
        except WorkerLost as lost:
            wrong = dict.fromkeys(job.rules, False)
            verdicts.append(Verdict(wrong, lost.status, str(lost), gold_status=alone.gold_status))
    return Compared(alone.gold_status, tuple(verdicts))


async def _call(workers: SqlWorkers, database: Database, job: JudgeJob) -> Compared:
    budget = job.timeout_s * job.executions + COMPARING_S
    compared: Compared = await workers.together.call(compare, database, job, timeout_s=budget)
    return compared
