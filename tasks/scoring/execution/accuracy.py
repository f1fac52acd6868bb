"""Execution accuracy: does a SQL return what the gold returns (spec: metrics, execution accuracy)."""

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace

from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers, WorkerLost
from tasks.scoring.execution.judge_job import Compared, Comparison, Query, compare
from tasks.scoring.execution.rules import Rule
from tasks.scoring.report import Verdict
from tasks.sql.order import ordering
from tasks.sql.rewriting import without_distinct

REPEATABLE = frozenset({"ok", "error"})
"""Statuses that a repetition on the same database would give again."""
COMPARING_S = 15.0
"""Seconds beyond those of its queries that a worker may take to compare; a million rows take a few."""


@dataclass(frozen=True, slots=True)
class VerdictKey:
    """What a verdict depends on; `database` is the digest of its file."""

    database: str
    gold_sql: str
    sql: str
    rules: tuple[Rule, ...]
    timeout_s: float
    keep_distinct: bool


async def judge(
    workers: SqlWorkers,
    database: Database,
    gold_sql: str,
    candidates: Mapping[str, str | None],
    *,
    rules: Sequence[Rule],
    timeout_s: float,
    keep_distinct: bool = False,
    cache: MutableMapping[VerdictKey, Verdict] | None = None,
) -> Mapping[str, Verdict]:
    """Judge the candidates of one question; each distinct SQL is executed once.

    All of them share one worker call. If that worker is lost, each goes alone, so that one killer query costs
    no other its verdict. A gold that does not finish makes every candidate wrong; `gold_status` says so.

    Args:
        workers: the pool that executes.
        database: the database of the question.
        gold_sql: the gold.
        candidates: SQL by name; None or blank is "no_answer".
        rules: rules to judge by.
        timeout_s: limit per query, in seconds.
        keep_distinct: do not strip DISTINCT under "spider".
        cache: verdicts known already; verdicts that a repetition could change are not put into it.

    Returns:
        A verdict per name, in the order of `candidates`.
    """

    def key(sql: str) -> VerdictKey:
        return VerdictKey(database.digest, gold_sql, sql, tuple(rules), timeout_s, keep_distinct)

    def query(sql: str) -> Query:
        return Query(sql, sql if keep_distinct else without_distinct(sql, database.dialect))

    distinct = list(dict.fromkeys(sql for sql in candidates.values() if sql and not sql.isspace()))
    known = {sql: cache[key(sql)] for sql in distinct if key(sql) in cache} if cache is not None else {}
    unknown = [sql for sql in distinct if sql not in known]
    nothing = key("")
    gold_status = next((verdict.gold_status for verdict in known.values()), "")
    if not (unknown or gold_status) and cache is not None and nothing in cache:
        gold_status = cache[nothing].gold_status
    if unknown or not gold_status:
        order = ordering(gold_sql, database.dialect)
        comparison = Comparison(
            query(gold_sql),
            tuple(query(sql) for sql in unknown),
            tuple(rules),
            order.anywhere,
            order.outermost,
            timeout_s,
        )
        compared = await _compare(workers, database, comparison)
        gold_status = compared.gold_status
        known.update(zip(unknown, compared.verdicts, strict=True))
    missing = Verdict(_all_wrong(rules), "no_answer", gold_status=gold_status)
    if cache is not None and gold_status in REPEATABLE:
        for sql in unknown:
            if known[sql].status in REPEATABLE:
                cache[key(sql)] = known[sql]
        if not distinct:
            cache[nothing] = missing
    return {name: known.get(sql or "", missing) for name, sql in candidates.items()}


async def _compare(workers: SqlWorkers, database: Database, comparison: Comparison) -> Compared:
    """Compare in one call, or, when that kills its worker, query by query."""
    try:
        return await _call(workers, database, comparison)
    except WorkerLost as lost:
        if not comparison.predicted:
            return Compared(lost.status, ())
    alone = await _compare(workers, database, replace(comparison, predicted=()))
    gold = comparison.gold if alone.gold_status == "ok" else None
    verdicts = []
    for query in comparison.predicted:
        try:
            one = await _call(workers, database, replace(comparison, gold=gold, predicted=(query,)))
            verdicts.append(replace(one.verdicts[0], gold_status=alone.gold_status))
        except WorkerLost as lost:
            wrong = _all_wrong(comparison.rules)
            verdicts.append(Verdict(wrong, lost.status, str(lost), gold_status=alone.gold_status))
    return Compared(alone.gold_status, tuple(verdicts))


async def _call(workers: SqlWorkers, database: Database, comparison: Comparison) -> Compared:
    budget = comparison.timeout_s * comparison.executions + COMPARING_S
    compared: Compared = await workers.call(compare, database, comparison, timeout_s=budget)
    return compared


def _all_wrong(rules: Iterable[str]) -> dict[str, bool]:
    return dict.fromkeys(rules, False)
