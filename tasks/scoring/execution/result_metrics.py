"""Metrics that compare results: gold and predictions executed inside a worker, which returns numbers only.

The worker imports a metric by the place of its function; one of a user's file is imported from the file.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tasks.core.registry import USER_FILES, described, import_file
from tasks.scoring.metric import Compare, Metric, QuestionValue, Rows

if TYPE_CHECKING:
    from tasks.database.database import Database
    from tasks.database.sandbox.session import Session
    from tasks.database.sandbox.workers import SqlWorkers


class MetricReference(NamedTuple):
    """Where a worker finds a metric: its module, the file where the module is a user's, and its attribute."""

    module: str
    file: str
    attribute: str


def _reference(metric: Metric) -> MetricReference:
    module = metric.compare.__module__ if metric.compare else ""
    file = str(sys.modules[module].__file__) if module.startswith(f"{USER_FILES}.") else ""
    return MetricReference(module, file, metric.name)


def _load(reference: MetricReference) -> Compare:
    by_file = import_file(Path(reference.file), "metric") if reference.file else None
    metric: Metric = getattr(by_file or import_module(reference.module), reference.attribute)
    assert metric.compare is not None, f"{reference.attribute} compares no results"
    return metric.compare


def compare_results(
    session: "Session", gold_sql: str, sql: str, references: tuple[MetricReference, ...], timeout_s: float
) -> tuple[QuestionValue, ...]:
    """Execute gold and prediction inside a worker and compute each metric."""
    gold = session.run_known(gold_sql, timeout_s=timeout_s)
    result = session.run_known(sql, timeout_s=timeout_s)
    if not gold.ok:
        return tuple(None for _ in references)
    return tuple(_value(reference, gold.rows, result.rows) if result.ok else 0.0 for reference in references)


def _value(reference: MetricReference, gold: Rows, predicted: Rows) -> QuestionValue:
    try:
        # copies: a user's function may sort what it is given, and the worker may keep the result
        return _load(reference)(list(gold), list(predicted))
    except Exception as error:
        return described(error)


async def measure_results(
    workers: "SqlWorkers",
    database: "Database",
    gold_sql: str,
    sql: str | None,
    metrics: Sequence[Metric],
    *,
    timeout_s: float,
) -> Mapping[str, QuestionValue]:
    """Compute metrics of one question, by name; without SQL, or with one that does not finish, 0.

    None if the gold does not finish and there is nothing to compare with. An error message if a metric's function
    failed.
    """
    from tasks.database.sandbox.workers import WorkerLost

    names = [metric.name for metric in metrics]
    if not metrics or not sql or sql.isspace():
        return dict.fromkeys(names, 0.0)
    references = tuple(map(_reference, metrics))
    try:
        values = await workers.call(
            compare_results, database, gold_sql, sql, references, timeout_s, timeout_s=2 * timeout_s
        )
    except WorkerLost:
        finishes = (await workers.execute(database, gold_sql, rows=0, timeout_s=timeout_s)).ok
        return dict.fromkeys(names, 0.0 if finishes else None)
    return dict(zip(names, values, strict=True))
