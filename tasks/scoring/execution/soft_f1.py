"""Soft-F1 of BIRD mini-dev, as published: reported, never ranked by.

Runs inside the sandboxed workers, so it imports nothing heavy. Rows are de-duplicated and then compared by
position: the same rows in another order can score 0.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tasks.scoring.execution.rules import Cells, Row, comparable

if TYPE_CHECKING:
    from tasks.database.database import Database
    from tasks.database.sandbox.connection import Session
    from tasks.database.sandbox.workers import SqlWorkers


def soft_f1(gold: Sequence[Row], predicted: Sequence[Row]) -> float:
    """Return the overlap of cells of rows at the same position, as F1 in 0..1.

    >>> soft_f1([(1, 2)], [(1, 3)])
    0.5
    >>> soft_f1([(1,), (2,)], [(2,), (1,)])
    0.0
    """
    if not gold and not predicted:
        return 1.0
    wanted, given = _distinct(gold), _distinct(predicted)
    shared = predicted_only = gold_only = 0.0
    for one, other in zip(wanted, given, strict=False):
        width = len(one)
        shared += sum(cell in one for cell in other) / width
        predicted_only += sum(cell not in one for cell in other) / width
        gold_only += sum(cell not in other for cell in one) / width
    gold_only += max(len(wanted) - len(given), 0)
    predicted_only += max(len(given) - len(wanted), 0)
    precision = shared / (shared + predicted_only) if shared + predicted_only else 0.0
    recall = shared / (shared + gold_only) if shared + gold_only else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def run_soft_f1(
    session: "Session", gold_sql: str, sqls: tuple[str, ...], timeout_s: float
) -> tuple[float | None, ...]:
    """Execute gold and predictions inside a worker and score each; None if the gold does not finish."""
    gold = session.run(gold_sql, timeout_s=timeout_s)
    scores: list[float | None] = []
    for sql in sqls:
        result = session.run(sql, timeout_s=timeout_s)
        scores.append((soft_f1(gold.rows, result.rows) if result.ok else 0.0) if gold.ok else None)
    return tuple(scores)


async def judge_soft_f1(
    workers: "SqlWorkers",
    database: "Database",
    gold_sql: str,
    candidates: Mapping[str, str | None],
    *,
    timeout_s: float,
) -> Mapping[str, float | None]:
    """Score the candidates of one question; without SQL, or with one that does not finish, 0.

    None where the gold does not finish: there is nothing to compare with, which is no fault of the candidate.
    """
    from tasks.database.sandbox.workers import WorkerLost

    known: dict[str, float | None] = {}
    for sql in dict.fromkeys(sql for sql in candidates.values() if sql and not sql.isspace()):
        try:
            (known[sql],) = await workers.call(
                run_soft_f1, database, gold_sql, (sql,), timeout_s, timeout_s=2 * timeout_s
            )
        except WorkerLost:
            known[sql] = 0.0 if await _finishes(workers, database, gold_sql, timeout_s) else None
    return {name: known.get(sql or "", 0.0) for name, sql in candidates.items()}


async def _finishes(workers: "SqlWorkers", database: "Database", sql: str, timeout_s: float) -> bool:
    return (await workers.execute(database, sql, rows=0, timeout_s=timeout_s)).ok


def _distinct(rows: Sequence[Row]) -> list[Cells]:
    return list(dict.fromkeys(tuple(comparable(cell) for cell in row) for row in rows))
