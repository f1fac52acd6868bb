"""Soft-F1 of BIRD mini-dev, measured inside the sandboxed workers: this module imports nothing heavy."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tasks.core.wording import counted, percent
from tasks.scoring.execution.rules import Row, comparable_rows
from tasks.scoring.metric import ScoredRun, metric
from tasks.scoring.scores import Measurement, Ratio

if TYPE_CHECKING:
    from tasks.database.database import Database
    from tasks.database.sandbox.session import SqlSession
    from tasks.database.sandbox.workers import SqlWorkers


def overlap(gold: Sequence[Row], predicted: Sequence[Row]) -> float:
    """Return Soft-F1 of BIRD mini-dev, as published: the overlap of cells of rows at the same position, in 0..1.

    Rows are de-duplicated and then compared by position: the same rows in another order can score 0.

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


def soft_f1_in_worker(session: "SqlSession", gold_sql: str, sql: str, timeout_s: float) -> float | None:
    """Execute gold and prediction inside a worker and return Soft-F1; None if the gold does not finish."""
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
        job = (soft_f1_in_worker, database, gold_sql, sql, timeout_s)
        value: float | None = await workers.call(*job, timeout_s=2 * timeout_s)  # two queries
    except WorkerLost:  # by the gold or by the prediction
        finishes = (await workers.execute(database, gold_sql, rows=0, timeout_s=timeout_s)).ok
        return 0.0 if finishes else None
    return value


@metric("Soft-F1", order=60)
def soft_f1(run: ScoredRun) -> Measurement | None:
    """Report the mean Soft-F1 of the scored questions if the settings request it: every query is executed again."""
    values: Mapping[str, float | None] | None = run.measured.get("soft_f1")
    if values is None:
        return None
    total = Ratio(sum(values.get(row.question.id) or 0.0 for row in run.scored), len(run.scored))
    questions = counted(len(run.scored), "question")
    line = f"Soft-F1: {percent(total)} (mean over {questions}; published rule, never to rank by)"
    data = {"sum": total.correct, "total": total.total, "value": total.value}
    headline = {"Soft-F1 in %": Ratio(100 * total.correct, len(run.scored))} if run.scored else {}
    return Measurement(total, by_question=values, data=data, headline=headline, lines=(line,))
