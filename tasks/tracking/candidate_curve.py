"""Execution accuracy against cost over the number of candidates, from the summaries of one or two runs."""

from collections.abc import Mapping, Sequence
from math import floor
from typing import Any

from tasks.documents.charts import Line, LinePoint, Lines
from tasks.documents.html import svg
from tasks.scoring.candidate_bill import UNITS

_TITLES = {"usd": "USD per question", "tokens": "tokens per question", "calls": "calls per question"}


def candidate_chart(runs: Sequence[tuple[str, str, Mapping[str, Any] | None]]) -> Lines | None:
    """Return the chart of the runs that have candidates; None where none has.

    A run is given as the kind that draws it, its name and the object "candidates" of its summary. The line of pass@k
    is dashed, that of the majority solid, with intervals.
    """
    known = [(kind, name, data["curve"]) for kind, name, data in runs if data]
    if not known:
        return None
    unit = next((unit for unit in UNITS if all(curve[-1][unit] for _, _, curve in known)), "calls")
    lines, said = [], []
    for kind, name, curve in known:
        points = tuple(_point(each, unit, kind, name) for each in curve)
        shares = [100 * each["pass"]["value"] for each in curve]
        passed = tuple(LinePoint(at.x, y, y, y, kind) for at, y in zip(points, shares, strict=True))
        lines += [Line(passed, kind, dashed=True, marked=False), Line(points, kind)]
        first, last = points[0], points[-1]
        said.append(f"{name}: {first.y:.1f} % with one candidate, {last.y:.1f} % by majority of {last.label}")
    ticks = _round_steps(max(line.points[-1].x for line in lines) or 1.0)
    label = f"Execution accuracy against {_TITLES[unit]}. {'; '.join(said)}"
    return Lines(tuple(lines), label, tuple((tick, f"{tick:g}") for tick in ticks), _TITLES[unit])


def candidate_figure(data: Mapping[str, Any] | None, title: str) -> bytes | None:
    """Draw the chart of one run's object "candidates" as an SVG file; None without candidates."""
    chart = candidate_chart([("b", title, data)])
    if chart is None:
        return None
    heading = f"k candidates: majority@k (solid, 95 % interval) and pass@k (dashed); {title}"
    return svg(chart, heading).encode("utf-8", "replace")


def _point(plain: Mapping[str, Any], unit: str, kind: str, name: str) -> LinePoint:
    majority, cost = plain["majority"], plain[unit] or 0.0
    low, high = majority["interval"]
    tip = (
        f"{name}: k = {plain['k']}, majority {100 * majority['value']:.2f} % ({100 * low:.1f} to {100 * high:.1f} %), "
        f"pass {100 * plain['pass']['value']:.2f} %, {cost:g} {_TITLES[unit]}"
    )
    return LinePoint(
        cost, 100 * majority["value"], 100 * low, 100 * high, kind, tip, str(plain["k"]), emphasised=True
    )


def _round_steps(most: float) -> tuple[float, ...]:
    """Return at most six round values from 0 to the highest cost.

    >>> _round_steps(0.0123), _round_steps(8)
    ((0.0, 0.005, 0.01), (0.0, 2.0, 4.0, 6.0, 8.0))
    """
    decades = (digit * 10.0**power for power in range(-9, 12) for digit in (1, 2, 5))
    step = next(step for step in decades if most / step <= 5)
    return tuple(float(f"{place * step:.6g}") for place in range(floor(most / step) + 1))
