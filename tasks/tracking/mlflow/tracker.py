"""One evaluation as one flat MLflow run, visible from its first minute.

If MLflow cannot be reached, the run is kept for `crosscheck log`.
"""

import datetime
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tasks.core.errors import ConfigurationError
from tasks.core.wording import storable
from tasks.scoring.report import Report
from tasks.settings.home import Home
from tasks.tracking.build_record import record_of
from tasks.tracking.evaluation import NIGHT, EvaluationRun, Unfinished
from tasks.tracking.known_store import is_known
from tasks.tracking.mlflow.experiment import colour_of, experiment_name, open_experiment
from tasks.tracking.mlflow.package import (
    MAX_TAG,
    Completion,
    Package,
    closing,
    drop,
    fetch,
    keep,
    opening,
)
from tasks.tracking.mlflow.question_spans import Exchanges
from tasks.tracking.mlflow.store import Store, attempt, check, find_store
from tasks.tracking.mlflow.trace_choice import TraceChoice
from tasks.tracking.mlflow.traces import log_traces
from tasks.tracking.parameters import name_for_mlflow, redact
from tasks.tracking.run_record import RunRecord, Tracked

if TYPE_CHECKING:
    from mlflow import MlflowClient

_LOG = logging.getLogger(__name__)

LOG_AGAIN = "crosscheck log {run_id}"
"""Command that sends a kept run (`Tracker.log_again`)."""

Ending = Literal["FINISHED", "FAILED", "KILLED"]
COMPLETE = Completion()


class Tracker:
    """Logger of one evaluation to MLflow.

    Call `check` before the first paid call, `start` when the evaluation begins, then `finish` or `abandon`.
    Only `check` raises: if the server cannot be reached later, `Tracked.problem` of the result holds the reason, the
    run is kept in the working folder, and `log_again` sends it.
    """

    def __init__(self, home: Home, store: Store | None = None) -> None:
        self.store = store or find_store(home)
        self._waiting = home.path / "unlogged"
        self._run: EvaluationRun | None = None
        self._tracked = Tracked(self.store.shown)
        self._opened = False
        self._made: Callable[[str], None] = lambda run_id: None
        self._record: RunRecord | None = None

    def check(self) -> None:
        """Open the store.

        Raises:
            ConfigurationError: it cannot be used; the message explains how to run without it.
        """
        check(self.store)

    def may_start_later(self, run: EvaluationRun) -> bool:
        """Return whether `start` is known to succeed, so that questions may be asked before it."""
        file = self.store.sqlite_file
        return file is not None and is_known(file, experiment_name(run.benchmark))

    def start(self, run: EvaluationRun, made: Callable[[str], None] = lambda run_id: None) -> Tracked:
        """Make the run, RUNNING, with its settings, provenance and dataset.

        `made` is called with MLflow's id of the run as soon as it exists.

        Raises:
            ConfigurationError: the experiment was deleted in MLflow.
        """
        self._run, self._opened, self._made = run, False, made
        self._tracked = Tracked(self.store.shown)
        package = opening(run)
        problem = self._attempt(lambda client: self._open(client, package))
        if problem:
            _LOG.warning("MLflow does not show run %s yet: %s", run.run_id, problem)
        return self._tracked

    def trace(self, choice: TraceChoice, exchanges: Exchanges) -> str:
        """Write the traces of a run that is going on; return what kept them from being written, "" for nothing.

        They are not kept for later.
        """
        return log_traces(self.store, self._started(), self._tracked, choice, exchanges)

    def finish(self, report: Report, completion: Completion = COMPLETE) -> Tracked:
        """Log metrics, description and artifacts in bulk and close the run."""
        run = self._started()
        run = self._run = replace(run, tags={**run.tags, **completion.tags})
        problem = "" if self._opened else self._attempt(lambda client: self._open(client, opening(run)))
        record = record_of(
            run,
            report,
            completion.status,
            finished=datetime.datetime.now(datetime.UTC),
            seconds=completion.seconds and round(completion.seconds, 3),
            prefect=completion.prefect,
            mlflow=self._tracked,
            **completion.facts,
        )
        package = closing(run, report, record, completion)
        problem = problem or self._attempt(lambda client: self._send(client, package, "FINISHED"))
        if problem:
            kept = keep(replace(package, tracked=self._tracked), self._waiting)
            self._tracked = Tracked(
                self.store.shown,
                self._tracked.run_id,
                self._tracked.experiment_id,
                f"MLflow does not have run {run.run_id}: {problem} Its results are kept in {kept}; "
                f'once {self.store.shown} answers, "{LOG_AGAIN.format(run_id=run.run_id)}" logs them.',
            )
        self._record = record
        return self._tracked

    def finished(self, notes: Iterable[str] = ()) -> RunRecord:
        """Return the record of the finished run, with where MLflow has it, and notes; empty ones are left out."""
        if self._record is None:
            raise RuntimeError("finish the tracker before reading the record")
        where = {"mlflow": self._tracked, "mlflow_run_id": self._tracked.run_id}
        return self._record.model_copy(
            update={**where, "notes": tuple(storable(note) for note in notes if note)}
        )

    def abandon(self, reason: str, status: Unfinished = "failed") -> Tracked:
        """Close the run without a report, with how it ended; the reason goes into its description."""
        run = self._started()
        before = opening(run)
        now = {"status": status, "mlflow.note.content": f"{status.capitalize()}: {redact(reason)}"}
        package = replace(before, tags={**before.tags, **now})
        ending: Ending = "FAILED" if status == "failed" else "KILLED"
        problem = self._attempt(lambda client: self._send(client, package, ending))
        if problem:
            _LOG.warning("MLflow does not know that run %s has ended (%s): %s", run.run_id, status, problem)
        return self._tracked

    def log_again(self, run_id: str) -> Tracked:
        """Send a run that was kept because MLflow could not be reached, and drop what was kept.

        Raises:
            DataError: nothing of that run is kept.
            ConfigurationError: the store still cannot be used.
        """
        package = fetch(self._waiting, run_id)
        self.check()
        self._run, self._opened = package.run, False
        made = package.tracked
        here = made is not None and made.run_id is not None and made.tracking_uri == self.store.shown
        self._tracked = made if made is not None and here else Tracked(self.store.shown)
        problem = self._attempt(lambda client: self._send(client, package, "FINISHED"))
        if problem:
            raise ConfigurationError(f"Run {run_id} could not be logged to {self.store.shown}: {problem}")
        drop(self._waiting, run_id)
        return self._tracked

    def _started(self) -> EvaluationRun:
        if self._run is None:
            raise RuntimeError("start the tracker before finishing it")
        return self._run

    def _attempt(self, work: Callable[["MlflowClient"], None]) -> str:
        return attempt(self.store, work, retries=3, seconds=60)

    def _open(self, client: "MlflowClient", package: Package) -> None:
        if self._tracked.run_id is None:
            self._create(client, package)
        run_id = str(self._tracked.run_id)
        _log_params(client, run_id, package.params)
        _log_dataset(client, run_id, package.run)
        self._opened = True

    def _create(self, client: "MlflowClient", package: Package) -> None:
        experiment_id = open_experiment(
            client, package.run.benchmark, self.store.artifacts, nights=NIGHT in package.run.tags
        )
        created = client.create_run(
            experiment_id,
            start_time=int(package.run.started.timestamp() * 1000),
            run_name=package.run.label,
            tags={
                **package.tags,
                "mlflow.runColor": colour_of(client, experiment_id, package.run.name),
            },
        )
        self._tracked = Tracked(self.store.shown, created.info.run_id, experiment_id)
        self._made(created.info.run_id)

    def _send(self, client: "MlflowClient", package: Package, ending: Ending) -> None:
        if not self._opened:
            self._open(client, package)
        run_id = str(self._tracked.run_id)
        if package.files:
            with tempfile.TemporaryDirectory() as folder:
                for path, content in package.files.items():
                    target = Path(folder) / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content)
                client.log_artifacts(run_id, folder)
        _log_metrics(client, run_id, package)
        client.set_terminated(run_id, status=ending)


def _log_params(client: "MlflowClient", run_id: str, params: Mapping[str, str]) -> None:
    from mlflow.entities import Param

    client.log_batch(run_id, params=[Param(name, value) for name, value in params.items()])


def _log_metrics(client: "MlflowClient", run_id: str, package: Package) -> None:
    from mlflow.entities import Metric, RunTag

    now = int(time.time() * 1000)
    client.log_batch(
        run_id,
        metrics=[
            Metric(name_for_mlflow(measure.name), measure.value, now, measure.step)
            for measure in package.measures
        ],
        tags=[RunTag(name, storable(value)[:MAX_TAG]) for name, value in package.tags.items()],
    )


def _log_dataset(client: "MlflowClient", run_id: str, run: EvaluationRun) -> None:
    """Name the questions as the run's dataset; its digest is the start of the file's sha256."""
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.data.meta_dataset import MetaDataset
    from mlflow.entities import DatasetInput, InputTag

    source = CodeDatasetSource(
        {
            "file": run.question_file,
            "revision": run.revision,
            "sha256": run.question_sha256,
            "benchmark": run.benchmark,
        }
    )
    dataset = MetaDataset(source, name=run.benchmark, digest=run.question_sha256[:12])  # type: ignore[abstract]
    tags = [InputTag("mlflow.data.context", "evaluation")]
    client.log_inputs(run_id, datasets=[DatasetInput(dataset._to_mlflow_entity(), tags)])
