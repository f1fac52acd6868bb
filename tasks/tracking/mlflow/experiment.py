"""One MLflow experiment per benchmark, with Crosscheck's columns in its UI."""

import hashlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core.errors import ConfigurationError
from tasks.tracking.mlflow.experiment_view import nights_view, view, view_tag
from tasks.tracking.mlflow.store import Store, attempt, ui_url

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

_LOG = logging.getLogger(__name__)


COLOURS = "crosscheck.colours"
"""Tag of an experiment: digests of names of runs, in the order of their colours."""
_PALETTE = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#7f3c8d", "#8c6d31", "#a5aa99", "#000000",
    "#b5cf6b", "#e7969c", "#3969ac", "#f2b701", "#11a579", "#e73f74",
)  # fmt: skip
"""Colours that differ for colour-blind readers, too, as far as so many can: the first are those of Okabe and Ito."""


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

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            client.create_experiment(name, artifacts.as_uri() if artifacts else None, tags)
        except MlflowException:  # another process was faster
            if client.get_experiment_by_name(name) is None:
                raise
        found = client.get_experiment_by_name(name)
    assert found is not None
    return found


def open_experiment(
    client: "MlflowClient", benchmark: str, artifacts: Path | None, *, nights: bool = False
) -> str:
    """Return the id of a benchmark's experiment; create it if there is none, as `find_or_create`.

    With `nights` it also has a view of the runs of nightly runs.

    Raises:
        ConfigurationError: it was deleted.
    """
    name = experiment_name(benchmark)
    found = find_or_create(client, name, artifacts, _tags(benchmark))
    if found.lifecycle_stage == "deleted":
        raise ConfigurationError(
            f'MLflow\'s experiment "{name}" was deleted. Bring it back with '
            f'"mlflow experiments restore --experiment-id {found.experiment_id}", or remove it for good '
            'with "mlflow gc".'
        )
    views = {view_tag(): view()} | ({view_tag("nights"): nights_view()} if nights else {})
    for tag, content in views.items():
        if found.tags.get(tag) != content:
            client.set_experiment_tag(found.experiment_id, tag, content)
    return str(found.experiment_id)


def colour_of(client: "MlflowClient", experiment_id: str, name: str) -> str:
    """Return the colour of runs of a name in MLflow's charts: the same in every run, and another than other names'.

    The first names of an experiment get a colour each, in the order in which they come. Later ones share them.
    """
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    known = client.get_experiment(experiment_id).tags.get(COLOURS, "").split()
    if digest not in known and len(known) < len(_PALETTE):
        known.append(digest)
        client.set_experiment_tag(experiment_id, COLOURS, " ".join(known))
    place = known.index(digest) if digest in known else int(digest, 16)
    return _PALETTE[place % len(_PALETTE)]


def _tags(benchmark: str) -> dict[str, str]:
    return {
        "mlflow.note.content": f"Evaluations of {benchmark} by Crosscheck: one run per backbone and pipeline.",
        "mlflow.experimentKind": "custom_model_development",
        "mlflow.experiment.primaryMetric.name": "ex",
        "mlflow.experiment.primaryMetric.greaterIsBetter": "true",
        view_tag(): view(),
    }


def show_sweep(store: Store, mlflow_run_id: str, sweep: str) -> str:
    """Give the experiment a view of a sweep's runs alone, and return its address; "" where MLflow does not answer."""
    name, experiment_id = f"sweep-{sweep}", ""

    def add_view(client: "MlflowClient") -> None:
        nonlocal experiment_id
        experiment_id = client.get_run(mlflow_run_id).info.experiment_id
        shown = view(f"Sweep {sweep}", f"tags.sweep = '{sweep}'")
        client.set_experiment_tag(experiment_id, view_tag(name), shown)

    if problem := attempt(store, add_view):
        _LOG.warning("MLflow has no view of sweep %s: %s", sweep, problem)
        return ""
    return ui_url(store, experiment_id, view=name)
