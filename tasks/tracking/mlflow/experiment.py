"""One MLflow experiment per benchmark, with Crosscheck's columns in its UI."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import ConfigurationError
from tasks.tracking.mlflow.experiment_view import view, view_tag
from tasks.tracking.mlflow.quiet import http_limits
from tasks.tracking.mlflow.store import Store, ui_url

if TYPE_CHECKING:
    from mlflow import MlflowClient

_LOG = logging.getLogger(__name__)


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
    if found.tags.get(view_tag()) != view():
        client.set_experiment_tag(found.experiment_id, view_tag(), view())
    return str(found.experiment_id)


def _tags(benchmark: str) -> dict[str, str]:
    return {
        "mlflow.note.content": f"Evaluations of {benchmark} by Crosscheck: one run per backbone and pipeline.",
        "mlflow.experimentKind": "custom_model_development",
        "mlflow.experiment.primaryMetric.name": "ex",
        "mlflow.experiment.primaryMetric.greaterIsBetter": "true",
        view_tag(): view(),
    }


def show_sweep(store: Store, mlflow_run_id: str, sweep: str) -> str:
    """Give the experiment a view of a sweep's runs alone, and return its address; "" where MLflow does not answer.

    Args:
        store: MLflow's store.
        mlflow_run_id: a run of the sweep.
        sweep: the tag `sweep` of its runs.
    """
    name = f"sweep-{sweep}"
    try:
        with http_limits(retries=1, seconds=10):
            client = store.client()
            experiment_id = client.get_run(mlflow_run_id).info.experiment_id
            shown = view(f"Sweep {sweep}", f"tags.sweep = '{sweep}'")
            client.set_experiment_tag(experiment_id, view_tag(name), shown)
    except Exception as error:  # no error of MLflow may fail the sweep, which is done
        _LOG.warning("MLflow has no view of sweep %s: %s", sweep, error)
        return ""
    return ui_url(store, experiment_id, view=name)
