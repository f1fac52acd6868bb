"""One MLflow experiment per benchmark, and what its pages show at first: columns, order and charts.

Left to itself the run table shows no metric at all, and the chart view one chart for each of a hundred metrics, in
alphabetical order. A view is a tag of the experiment; MLflow 3.17 lists it under "Views" and reads the layout from
`state`, earlier releases open it by its address and read columns and order from the object itself.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.core.errors import ConfigurationError
from tasks.results.mlflow.store import VIEW, Store, attempt, check, find_store, ui_url
from tasks.settings.home import Home

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment


COLUMNS = {
    "tags.`score`": 215,
    "tags.`vs_best`": 250,
    "metrics.`usage/from_scratch_usd`": 120,
    "metrics.`questions/unanswered`": 110,
    "tags.`verdict`": 100,
}
"""Columns of the run table beside MLflow's own, with their widths in pixels: all are seen at 1,440 pixels."""
_WIDTHS = {"attributes.`Run Name`": 230, **COLUMNS}
"""Widths by column, in the order of the table; MLflow's own are too narrow for the names."""

TREND = "ex_by_night"
"""Metric with a value per night: the scores of the same combination up to the run's own, at the nights' times."""
_COLLAPSED = ("ex_by_difficulty", "stage_ex", "questions", "usage", "Model metrics")
"""Sections that MLflow makes of metrics' names and that a reader may open first; the others follow them."""


def view_tag(view: str = VIEW) -> str:
    """Return the name of the experiment's tag that holds a view."""
    return f"mlflow.sharedViewState.{view}"


def view(
    name: str = "Crosscheck",
    search: str = "",
    *,
    order: str = "metrics.`ex`",
    cards: Mapping[str, tuple[dict[str, Any], ...]] | None = None,
) -> str:
    """Return a view of an experiment as the JSON that MLflow's UI keeps in a tag.

    It shows the runs that `search` finds, in MLflow's syntax, ordered from the highest to the lowest; `cards` are the
    charts that come first, by section.
    """
    sections = _CARDS if cards is None else cards
    table = {"orderByKey": order, "orderByAsc": False, "selectedColumns": tuple(COLUMNS)}
    state = table | {
        "searchFilter": search,
        "columnOrder": list(_WIDTHS),
        "columnWidths": _WIDTHS,
        "runsHiddenMode": "FIRST_20_RUNS",
        "hideEmptyCharts": True,
        "isAccordionReordered": True,
        "compareRunSections": [_section(section, display=True) for section in sections]
        + [_section(section, display=False) for section in _COLLAPSED],
        "compareRunCharts": [
            card | {"uuid": f"crosscheck-{section}-{number}", "metricSectionId": f"crosscheck-{section}"}
            for section, charts in sections.items()
            for number, card in enumerate(charts)
        ],
    }
    return json.dumps({"name": name, "createdAt": 0, "updatedAt": 0, "state": json.dumps(state), **table})


def _section(name: str, *, display: bool) -> dict[str, Any]:
    flags = {"display": display, "isReordered": True, "deleted": False, "isGenerated": False}
    return {"uuid": f"crosscheck-{name}", "name": name, **flags}


def _card(kind: str, **content: Any) -> dict[str, Any]:
    return {"type": kind, "runsCountToCompare": 20, "deleted": False, "isGenerated": False, **content}


def _bar(metric: str) -> dict[str, Any]:
    return _card("BAR", metricKey=metric)


def _line(metric: str, across: str = "step") -> dict[str, Any]:
    """Return a chart of a metric over its steps, or `across` "time"."""
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


_CARDS = {
    "Score": (
        _bar("ex"),
        _line("ex_by_stage"),
        _card(
            "SCATTER",
            xaxis={"key": "usage/from_scratch_usd", "type": "METRIC"},
            yaxis={"key": "ex", "type": "METRIC"},
        ),
        _bar("questions/failed"),
        _card(
            "PARALLEL", selectedParams=("Backbone", "Pipeline"), selectedMetrics=("ex",), showAllRuns=False
        ),
    ),
    "What it took": tuple(
        _bar(f"usage/{name}") for name in ("from_scratch_usd", "cost_usd", "calls", "seconds")
    ),
}


_LOG = logging.getLogger(__name__)


def experiment_name(benchmark: str) -> str:
    """Return the experiment's name."""
    return f"crosscheck/{benchmark}"


def find_or_create(
    client: "MlflowClient", name: str, artifacts: Path | None, tags: dict[str, str] | None = None
) -> "Experiment":
    """Return an experiment; create it with these tags if there is none of that name.

    A new one has its artifacts in the folder; None: where the server decides.
    """
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            client.create_experiment(name, artifacts.as_uri() if artifacts else None, tags)
        except MlflowException:  # another process was faster
            if client.get_experiment_by_name(name) is None:
                raise
        experiment = client.get_experiment_by_name(name)
    assert experiment is not None
    return experiment


@contextmanager
def logged_by_library(
    home: Home, experiment: str, name: str, register: Callable[..., None]
) -> Iterator[None]:
    """Let a library that logs to MLflow by itself log to a new run of an experiment of the working folder's store.

    The run ends with the block, as FAILED if that raises. `register` is called with the address of the store and the id
    of the new run, as in `Control`.
    """
    import mlflow

    store = find_store(home)
    check(store)
    find_or_create(store.client(), experiment, store.artifacts)
    settings = {"MLFLOW_TRACKING_URI": store.uri, "MLFLOW_EXPERIMENT_NAME": experiment}
    before = {variable: os.environ[variable] for variable in settings if variable in os.environ}
    os.environ.update(settings)
    try:
        with mlflow.start_run(run_name=name) as run:
            register(tracking_uri=store.uri, mlflow_run=run.info.run_id)
            yield
    finally:
        for variable in settings:
            os.environ.pop(variable, None)
        os.environ.update(before)


def open_experiment(client: "MlflowClient", benchmark: str, artifacts: Path | None, *, nights: bool) -> str:
    """Return the id of a benchmark's experiment; create it if there is none, as `find_or_create`."""
    name = experiment_name(benchmark)
    experiment = find_or_create(client, name, artifacts, _tags(benchmark))
    if experiment.lifecycle_stage == "deleted":
        raise ConfigurationError(
            f'MLflow\'s experiment "{name}" was deleted. Bring it back with '
            f'"mlflow experiments restore --experiment-id {experiment.experiment_id}", or remove it for good '
            'with "mlflow gc".'
        )
    views = {view_tag(): view()}
    if nights:  # the newest first
        cards = {"Nights": (_line(TREND, "time"), _bar("ex"), _bar("usage/cost_usd")), **_CARDS}
        views[view_tag("nights")] = view(
            "Nights", "tags.night LIKE '%'", order="attributes.start_time", cards=cards
        )
    for tag, content in views.items():
        if experiment.tags.get(tag) != content:
            client.set_experiment_tag(experiment.experiment_id, tag, content)
    return str(experiment.experiment_id)


def _tags(benchmark: str) -> dict[str, str]:
    return {
        "mlflow.note.content": f"Evaluations of {benchmark} by Crosscheck, each of a pipeline with a backbone.",
        "mlflow.experimentKind": "custom_model_development",
        "mlflow.experiment.primaryMetric.name": "ex",
        "mlflow.experiment.primaryMetric.greaterIsBetter": "true",
        view_tag(): view(),
    }


def show_sweep(store: Store, mlflow_run_id: str, sweep: str) -> str:
    """Give the experiment a view of a sweep's runs alone, and return its address; "" where MLflow does not answer."""
    name = f"sweep-{sweep}"
    experiment_id = ""

    def add_view(client: "MlflowClient") -> None:
        nonlocal experiment_id
        experiment_id = client.get_run(mlflow_run_id).info.experiment_id
        sweep_view = view(f"Sweep {sweep}", f"tags.sweep = '{sweep}'")
        client.set_experiment_tag(experiment_id, view_tag(name), sweep_view)

    if problem := attempt(store, add_view):
        _LOG.warning("MLflow has no view of sweep %s: %s", sweep, problem)
        return ""
    return ui_url(store, experiment_id, view=name)
