"""Soft-F1 of BIRD mini-dev, as published: reported, never ranked by.

Runs inside the sandboxed workers, so it imports nothing heavy. Rows are de-duplicated and then compared by
position: the same rows in another order can score 0.
"""

from collections.abc import Sequence

from tasks.scoring.execution.cells import Cells, Row, comparable
from tasks.scoring.metric import METRICS, result_metric


@METRICS.register("soft_f1")
@result_metric("Soft-F1", order=60, remark="published rule, never to rank by")
def soft_f1(gold: Sequence[Row], predicted: Sequence[Row]) -> float:
    """Return the overlap of cells of rows at the same position, as F1 in 0..1.

    >>> soft_f1.compare([(1, 2)], [(1, 3)])
    0.5
    >>> soft_f1.compare([(1,), (2,)], [(2,), (1,)])
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


def _distinct(rows: Sequence[Row]) -> list[Cells]:
    return list(dict.fromkeys(tuple(comparable(cell) for cell in row) for row in rows))
