"""A fine-tuning as an MLflow run: parameters, metrics by step, the adapter as an artifact. One run per folder."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.core.files import atomic_write_text
from tasks.settings.home import Home
from tasks.tracking.mlflow.experiment import find_or_create
from tasks.tracking.mlflow.store import attempt, find_store, ui_url
from tasks.tracking.parameters import flatten

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "crosscheck/finetuning"
RUN_FILE = "mlflow_run.txt"
ADAPTER = "adapter"


class FinetuningTracker:
    """Logger of one fine-tuning to MLflow. If MLflow cannot be reached, training continues and `problem` is set.

    Attributes:
        problem: why something was not logged, "" if everything was.
    """

    def __init__(self, home: Home, output: Path) -> None:
        self.store = find_store(home)
        self.problem = ""
        self._file = output / RUN_FILE
        self._run_id = ""
        self._experiment_id = ""

    def start(self, name: str, settings: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        """Open the folder's run again, or begin one, with its settings as parameters and its provenance as tags."""

        def begin(client: "MlflowClient") -> None:
            from mlflow.entities import Param

            experiment = find_or_create(client, EXPERIMENT, self.store.artifacts)
            self._experiment_id = str(experiment.experiment_id)
            if self._file.is_file():
                self._run_id = client.get_run(self._file.read_text(encoding="utf-8").strip()).info.run_id
                client.update_run(self._run_id, status="RUNNING")
                return
            self._run_id = client.create_run(self._experiment_id, run_name=name, tags=dict(tags)).info.run_id
            params = [Param(key, value) for key, value in flatten(dict(settings)).items()]
            client.log_batch(self._run_id, params=params)
            atomic_write_text(self._file, self._run_id)

        self._attempt(begin)

    def resume(self) -> None:
        """Find the run of the folder, to log something more to it; without one, nothing is logged."""
        if self._file.is_file():
            self._run_id = self._file.read_text(encoding="utf-8").strip()

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log the metrics of one step."""

        def send(client: "MlflowClient") -> None:
            from mlflow.entities import Metric

            now = int(time.time() * 1000)
            client.log_batch(
                self._run_id, [Metric(name, value, now, step) for name, value in metrics.items()]
            )

        if self._run_id:
            self._attempt(send)

    def finish(self, adapter: Path | None, status: str = "FINISHED") -> None:
        """End the run with a status of MLflow's, with the adapter's files as artifacts where there is one."""

        def end(client: "MlflowClient") -> None:
            if adapter is not None:
                client.log_artifacts(self._run_id, str(adapter), ADAPTER)
            client.set_terminated(self._run_id, status=status)

        if self._run_id:
            self._attempt(end)

    @property
    def page(self) -> str:
        """Where the run is in MLflow's UI, "" when there is none."""
        return ui_url(self.store, self._experiment_id, self._run_id) if self._run_id else ""

    def _attempt(self, work: Callable[["MlflowClient"], None]) -> None:
        problem = attempt(self.store, work, retries=2, seconds=30)
        self.problem = self.problem or problem
