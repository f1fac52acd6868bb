"""Soft-F1 of BIRD mini-dev, as published: reported, never ranked by. A worker executes both SQLs and returns a number.

Runs inside the sandboxed workers, so it imports nothing heavy. Rows are de-duplicated and then compared by
position: the same rows in another order can score 0.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tasks.scoring.execution.rules import Row, comparable_rows

if TYPE_CHECKING:
    from tasks.database.database import Database
    from tasks.database.sandbox.session import Session
    from tasks.database.sandbox.workers import SqlWorkers


def overlap(gold: Sequence[Row], predicted: Sequence[Row]) -> float:
    """Return the overlap of cells of rows at the same position, as F1 in 0..1.

    >>> overlap([(1, 2)], [(1, 3)])
    0.5
    >>> overlap([(1,), (2,)], [(2,), (1,)])
    0.0
    """
    if not gold and not predicted:
        return 1.0
    gold_rows = list(dict.fromkeys(comparable_rows(gold)))
    predicted_rows = list(dict.fromkeys(comparable_rows(predicted)))
    shared = predicted_only = gold_only = 0.0
    for expected, row in zip(gold_rows, predicted_rows, strict=False):
        width = len(expected)
        shared += sum(cell in expected for cell in row) / width
        predicted_only += sum(cell not in expected for cell in row) / width
        gold_only += sum(cell not in row for cell in expected) / width
    gold_only += max(len(gold_rows) - len(predicted_rows), 0)
    predicted_only += max(len(predicted_rows) - len(gold_rows), 0)
    precision = shared / (shared + predicted_only) if shared + predicted_only else 0.0
    recall = shared / (shared + gold_only) if shared + gold_only else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def compare_results(session: "Session", gold_sql: str, sql: str, timeout_s: float) -> float | None:
    """Execute gold and prediction inside a worker, and compare their rows; None if the gold does not finish."""
    gold = session.run_known(gold_sql, timeout_s=timeout_s)
    result = session.run_known(sql, timeout_s=timeout_s)
    if not gold.ok:
        return None
    return overlap(gold.rows, result.rows) if result.ok else 0.0


async def measure_soft_f1(
    workers: "SqlWorkers", database: "Database", gold_sql: str, sql: str | None, *, timeout_s: float
) -> float | None:
    """Return Soft-F1 of one question: 0 without SQL, or with one that does not finish; None if the gold does not."""
    from tasks.database.sandbox.workers import WorkerLost

    if not sql or sql.isspace():
        return 0.0
    try:
        value: float | None = await workers.call(
            compare_results, database, gold_sql, sql, timeout_s, timeout_s=2 * timeout_s
        )
    except WorkerLost:
        finishes = (await workers.execute(database, gold_sql, rows=0, timeout_s=timeout_s)).ok
        return 0.0 if finishes else None
    return value
