"""One MLflow experiment per benchmark, with Crosscheck's columns in its UI."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import ConfigurationError
from tasks.tracking.store import VIEW

if TYPE_CHECKING:
    from mlflow import MlflowClient

_COLUMNS = (
    "metrics.`ex`",
    "metrics.`ex_correct`",
    "metrics.`ex_total`",
    "metrics.`ex_strict`",
    "metrics.`questions/failed`",
    "metrics.`usage/calls`",
    "metrics.`usage/cached_calls`",
    "metrics.`usage/cost_usd`",
    "tags.`status`",
)
"""Columns of the run table; MLflow puts metrics before tags and sorts each by name."""

_VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"


def experiment_name(benchmark: str) -> str:
    """Return the experiment's name."""
    return f"crosscheck/{benchmark}"


def open_experiment(client: "MlflowClient", benchmark: str, artifacts: Path | None) -> str:
    """Return the id of a benchmark's experiment; make it when it is not there.

    Args:
        client: MLflow.
        benchmark: its name.
        artifacts: folder for the artifacts of a new experiment; None: the server decides.

    Raises:
        ConfigurationError: it is there but deleted.
    """
    from mlflow.exceptions import MlflowException

    name = experiment_name(benchmark)
    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return client.create_experiment(
                name, artifact_location=artifacts.as_uri() if artifacts else None, tags=_tags(benchmark)
            )
        except MlflowException:
            found = client.get_experiment_by_name(name)  # another process was faster
            if found is None:
                raise
    if found.lifecycle_stage == "deleted":
        raise ConfigurationError(
            f'MLflow\'s experiment "{name}" was deleted. Bring it back with '
            f'"mlflow experiments restore --experiment-id {found.experiment_id}", or remove it for good '
            'with "mlflow gc".'
        )
    if found.tags.get(_VIEW_TAG) != _view():
        client.set_experiment_tag(found.experiment_id, _VIEW_TAG, _view())
    return str(found.experiment_id)


def _tags(benchmark: str) -> dict[str, str]:
    return {
        "mlflow.note.content": f"Evaluations of {benchmark} by Crosscheck: one run per backbone and pipeline.",
        "mlflow.experimentKind": "custom_model_development",
        "mlflow.experiment.primaryMetric.name": "ex",
        "mlflow.experiment.primaryMetric.greaterIsBetter": "true",
        _VIEW_TAG: _view(),
    }


def _view() -> str:
    """Return a saved view of MLflow's run table: left to itself the table shows no metric at all.

    MLflow 3.17 lists it under "Views" and reads the layout from `state`; earlier releases open it by its
    address and read the layout from the object itself.
    """
    layout = {
        "orderByKey": "metrics.`ex`",
        "orderByAsc": False,
        "selectedColumns": _COLUMNS,
    }
    return json.dumps(
        {"name": "Crosscheck", "createdAt": 0, "updatedAt": 0, "state": json.dumps(layout), **layout}
    )
