"""Execution accuracy against cost over the number of candidates, from the summaries of one or two runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from tasks.documents.html import Scale
from tasks.scoring.candidate_bill import UNITS
from tasks.tracking.pages.template import render

LEFT, RIGHT, TOP, BOTTOM = 56, 620, 24, 300
_TITLES = {"usd": "USD per question", "tokens": "tokens per question", "calls": "calls per question"}


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What k candidates are worth, in percent, and cost per question; `low` and `high` are of the majority."""

    k: int
    cost: float
    passed: float
    majority: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CandidateCurve:
    """The points of one run; `kind` is "a" or "b", the colour of the run."""

    kind: str
    name: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True)
class CurveChart:
    """One or two curves on common scales."""

    curves: tuple[CandidateCurve, ...]
    title: str
    across: Scale
    up: Scale
    ticks: tuple[float, ...]

    @property
    def label(self) -> str:
        """The picture in words."""
        said = (
            f"{curve.name}: {curve.points[0].majority:.1f} % with one candidate, "
            f"{curve.points[-1].majority:.1f} % by majority of {curve.points[-1].k}"
            for curve in self.curves
        )
        return f"Execution accuracy against {self.title}. {'; '.join(said)}"


def candidate_chart(runs: Sequence[tuple[str, str, Mapping[str, Any] | None]]) -> CurveChart | None:
    """Return the chart of the runs that have candidates; None where none has.

    A run is given as its kind, its name and the object "candidates" of its summary.
    """
    known = [(kind, name, data["curve"]) for kind, name, data in runs if data]
    if not known:
        return None
    unit = next((unit for unit in UNITS if all(points[-1][unit] for _, _, points in known)), "calls")
    curves = tuple(
        CandidateCurve(kind, name, tuple(_point(each, unit) for each in points))
        for kind, name, points in known
    )
    most = max(curve.points[-1].cost for curve in curves) or 1.0
    every = [
        value for curve in curves for each in curve.points for value in (each.low, each.high, each.passed)
    ]
    return CurveChart(
        curves,
        _TITLES[unit],
        Scale(0, 1.05 * most, LEFT, RIGHT),
        Scale(max(0.0, min(every) - 3), min(100.0, max(every) + 3), BOTTOM, TOP),
        _round_steps(most),
    )


def candidate_figure(data: Mapping[str, Any] | None, title: str) -> bytes | None:
    """Draw the chart of one run's object "candidates" as an SVG file; None without candidates."""
    chart = candidate_chart([("b", title, data)])
    if chart is None:
        return None
    return render("candidate_curve.svg.jinja", chart=chart, detail=title).encode("utf-8", "replace")


def _point(plain: Mapping[str, Any], unit: str) -> CurvePoint:
    passed, majority = plain["pass"], plain["majority"]
    low, high = majority["interval"]
    return CurvePoint(
        plain["k"],
        plain[unit] or 0.0,
        100 * passed["value"],
        100 * majority["value"],
        100 * low,
        100 * high,
    )


def _round_steps(most: float) -> tuple[float, ...]:
    """Return at most six round values from 0 to the highest cost.

    >>> _round_steps(0.0123), _round_steps(8)
    ((0.0, 0.005, 0.01), (0.0, 2.0, 4.0, 6.0, 8.0))
    """
    decades = (digit * 10.0**power for power in range(-9, 12) for digit in (1, 2, 5))
    step = next(step for step in decades if most / step <= 5)
    return tuple(float(f"{place * step:.6g}") for place in range(floor(most / step) + 1))
