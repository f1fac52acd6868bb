"""Execution accuracy over the turn after which an agent is stopped, from a run's summary."""

from collections.abc import Mapping
from typing import Any

from tasks.documents.charts import Line, LinePoint, Lines
from tasks.documents.html import svg
from tasks.scoring.metrics.turns import SHOWN, cost_in_words, shown_points

CAPTION = (
    "Execution accuracy if the agent is stopped after a turn, of all scored questions, with 95 % intervals"
)


def turn_chart(data: Mapping[str, Any] | None) -> Lines | None:
    """Return the chart of a run's object "turns"; None without turns."""
    if not data:
        return None
    curve = data["curve"]
    line = Line(tuple(_point(each) for each in curve), "b")
    first, last = curve[0], curve[-1]
    start, end = (f"{100 * each['value']:.1f} % after turn {each['turn']}" for each in (first, last))
    label = f"{CAPTION}: {start}, {end}"
    ticks = tuple((float(each["turn"]), str(each["turn"])) for each in shown_points(data))
    return Lines((line,), label, ticks, "turn", dense=len(curve) > max(SHOWN))


def turn_figure(data: Mapping[str, Any] | None, title: str) -> bytes | None:
    """Draw the chart as an SVG file; None without turns."""
    chart = turn_chart(data)
    return None if chart is None else svg(chart, f"{CAPTION}; {title}").encode("utf-8", "replace")


def _point(each: Mapping[str, Any]) -> LinePoint:
    low, high = each["interval"]
    tip = (
        f"stopped after turn {each['turn']}: {100 * each['value']:.2f} % ({100 * low:.1f} to {100 * high:.1f} %), "
        f"{each['running']:,} questions still running, {cost_in_words(each)} per question"
    )
    return LinePoint(
        float(each["turn"]), 100 * each["value"], 100 * low, 100 * high, "b", tip, str(each["turn"])
    )
