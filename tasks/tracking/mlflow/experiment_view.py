"""What MLflow's pages of an experiment show at first: columns, order and charts.

Left to itself the run table shows no metric at all, and the chart view one chart for each of a hundred metrics, in
alphabetical order. A view is a tag of the experiment; MLflow 3.17 lists it under "Views" and reads the layout from
`state`, earlier releases open it by its address and read columns and order from the object itself.
"""

import json
from collections.abc import Mapping
from typing import Any

from tasks.tracking.mlflow.store import VIEW

COLUMNS = (
    "metrics.`ex`",
    "metrics.`questions/unanswered`",
    "metrics.`usage/cost_usd`",
    "tags.`verdict`",
)
"""Columns of the run table beside MLflow's own."""
_WIDTHS = {"attributes.`Run Name`": 240} | dict(zip(COLUMNS, (80, 130, 130, 110), strict=True))
"""Widths in pixels, by column, in the order of the table; MLflow's own are too narrow for the names."""

TREND = "ex_by_night"
"""Metric with a value per night: the scores of the same combination up to the run's own, at the nights' times."""
_SHOWN_RUNS = "FIRST_20_RUNS"
_COLLAPSED = ("ex_by_difficulty", "stage_ex", "questions", "usage", "Model metrics")
"""Sections that MLflow makes of metrics' names and that a reader may open first; the others follow them."""


def view_tag(view: str = VIEW) -> str:
    """Return the name of the experiment's tag that holds a view."""
    return f"mlflow.sharedViewState.{view}"


def nights_view() -> str:
    """Return the view of the runs of nightly runs, the newest first, with the name of their night."""
    cards = {"Nights": (_line(TREND, "time"), _bar("ex"), _bar("usage/cost_usd")), **_CARDS}
    return view("Nights", "tags.night LIKE '%'", order="attributes.start_time", cards=cards)


def view(
    name: str = "Crosscheck",
    search: str = "",
    *,
    order: str = "metrics.`ex`",
    cards: Mapping[str, tuple[dict[str, Any], ...]] | None = None,
) -> str:
    """Return a view as its tag holds it.

    Args:
        name: shown under "Views".
        search: which runs it shows, in MLflow's search syntax; "" for all.
        order: by what the runs are ordered, from the highest to the lowest.
        cards: the charts that come first, by section; None: the usual ones.
    """
    shown = _CARDS if cards is None else cards
    table = {"orderByKey": order, "orderByAsc": False, "selectedColumns": COLUMNS}
    state = table | {
        "searchFilter": search,
        "columnOrder": list(_WIDTHS),
        "columnWidths": _WIDTHS,
        "runsHiddenMode": _SHOWN_RUNS,
        "hideEmptyCharts": True,
        "isAccordionReordered": True,
        "compareRunSections": [_section(name, display=True) for name in shown]
        + [_section(name, display=False) for name in _COLLAPSED],
        "compareRunCharts": [
            card | {"uuid": f"crosscheck-{name}-{number}", "metricSectionId": _uuid(name)}
            for name, charts in shown.items()
            for number, card in enumerate(charts)
        ],
    }
    return json.dumps({"name": name, "createdAt": 0, "updatedAt": 0, "state": json.dumps(state), **table})


def _section(name: str, *, display: bool) -> dict[str, Any]:
    return {
        "uuid": _uuid(name),
        "name": name,
        "display": display,
        "isReordered": True,
        "deleted": False,
        "isGenerated": False,
    }


def _uuid(section: str) -> str:
    return f"crosscheck-{section}"


def _card(kind: str, **content: Any) -> dict[str, Any]:
    return {"type": kind, "runsCountToCompare": 20, "deleted": False, "isGenerated": False, **content}


def _bar(metric: str) -> dict[str, Any]:
    return _card("BAR", metricKey=metric)


def _line(metric: str, across: str = "step") -> dict[str, Any]:
    return _card(
        "LINE",
        metricKey=metric,
        selectedMetricKeys=[metric],
        lineSmoothness=0,
        scaleType="linear",
        xAxisKey=across,
        xAxisScaleType="linear",
        selectedXAxisMetricKey="",
        yAxisKey="metric",
        yAxisExpressions=[],
        range={},
        displayPoints=True,
        ignoreOutliers=False,
        useGlobalXaxisKey=False,
        useGlobalLineSmoothing=False,
    )


def _scatter(across: str, up: str) -> dict[str, Any]:
    return _card("SCATTER", xaxis={"key": across, "type": "METRIC"}, yaxis={"key": up, "type": "METRIC"})


def _parallel(params: tuple[str, ...], metrics: tuple[str, ...]) -> dict[str, Any]:
    return _card("PARALLEL", selectedParams=params, selectedMetrics=metrics, showAllRuns=False)


_CARDS = {
    "Score": (
        _bar("ex"),
        _line("ex_by_stage"),
        _scatter("usage/from_scratch_usd", "ex"),
        _bar("questions/failed"),
        _parallel(("Backbone", "Pipeline"), ("ex",)),
    ),
    "What it took": (
        _bar("usage/from_scratch_usd"),
        _bar("usage/cost_usd"),
        _bar("usage/calls"),
        _bar("usage/seconds"),
    ),
}
"""The charts that come first, by section."""
