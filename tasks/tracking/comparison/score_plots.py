"""Scores with their intervals, drawn in the cells of a table on one axis."""

from collections.abc import Iterable
from math import ceil, floor

from tasks.core.wording import counts, percent
from tasks.documents.charts import Point, Points
from tasks.scoring.score import Accuracy

AXIS = (0.0, 100.0)
"""Axis of scores that may be anywhere."""


def score_plot(*scores: tuple[str, Accuracy | None, str]) -> Points | str:
    """Return scores below each other, each as what it is of, the score, and its kind; "" if none has a question."""
    known = [(name, ex, kind) for name, ex, kind in scores if ex and ex.total]
    label = ", ".join(f"{name} {percent(ex)} ({counts(ex)})".lstrip() for name, ex, _ in known)
    return Points(tuple(point(ex, kind) for _, ex, kind in known), label) if known else ""


def point(ex: Accuracy, kind: str, label: str = "") -> Point:
    """Return a score as a point of a chart."""
    value, low, high = (100 * (share or 0.0) for share in (ex.ex, ex.low, ex.high))
    return Point(value, low, high, kind, label, percent(ex))


def axis_around(scores: Iterable[Accuracy | None]) -> tuple[float, float]:
    """Return an axis from whole tens to whole tens around the intervals of scores, at least ten points long."""
    ends = [100 * end for ex in scores if ex for end in ex.interval or ()]
    low = floor(min(ends, default=0) / 10) * 10
    return low, max(ceil(max(ends, default=100) / 10) * 10, low + 10)
