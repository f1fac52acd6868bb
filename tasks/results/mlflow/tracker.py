"""One evaluation as one flat MLflow run, visible from its first minute.

If MLflow cannot be reached, the run is kept, and logged with the next run that MLflow takes.
"""

import datetime
import logging
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from filelock import FileLock, Timeout

from tasks.core.errors import CrosscheckError
from tasks.core.registry import described
from tasks.core.wording import storable
from tasks.results.build_record import record_of
from tasks.results.compare import compare_with_previous
from tasks.results.mlflow.experiment import TREND, experiment_name, open_experiment
from tasks.results.mlflow.package import (
    MAX_TAG,
    PAGE,
    Completion,
    Package,
    closing,
    drop,
    fetch,
    in_short,
    keep,
    opening,
)
from tasks.results.mlflow.store import Store, attempt, check, find_store, is_known
from tasks.results.mlflow.traces import Exchanges, TraceChoice, log_traces
from tasks.results.parameters import name_for_mlflow, redact
from tasks.results.run_record import NIGHT, VERDICT, RunRecord, Tracked, Unfinished
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.report import Report
from tasks.settings.home import Home

if TYPE_CHECKING:
    from mlflow import MlflowClient


_LOG = logging.getLogger(__name__)

Ending = Literal["FINISHED", "FAILED", "KILLED"]
COMPLETE = Completion()


class Tracker:
    """Logger of one evaluation to MLflow.

    Call `check` before the first paid call, `start` when the evaluation begins, then `finish` or `abandon`.
    Only `check` raises: if the server cannot be reached later, `Tracked.problem` of the result holds the reason, the
    run is kept in the working folder, and the next `finish` that succeeds sends it, too.
    """

    def __init__(self, home: Home, store: Store | None = None) -> None:
        self._home = home
        self.store = store or find_store(home)
        self._waiting = home.path / "unlogged"
        self._run: RunRecord | None = None
        self._tracked = Tracked(self.store.printable)
        self._opened = False
        self._made: Callable[[str], None] = lambda run_id: None

    def check(self) -> None:
        """Open the store."""
        check(self.store)

    def may_start_later(self, run: RunRecord) -> bool:
        """Return whether `start` is known to succeed, so that questions may be asked before it."""
        file = self.store.sqlite_file
        return file is not None and is_known(file, experiment_name(run.benchmark))

    def start(self, run: RunRecord, made: Callable[[str], None] = lambda run_id: None) -> Tracked:
        """Make the run, RUNNING, with its settings, provenance and dataset.

        `made` is called with MLflow's id of the run as soon as it exists.
        """
        self._run, self._opened, self._made = run, False, made
        self._tracked = Tracked(self.store.printable)
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

    def finish(self, report: Report, completion: Completion = COMPLETE) -> RunRecord:
        """Log metrics, description and artifacts in bulk, close the run, and return its record."""
        run = self._started()
        run = self._run = run.model_copy(update={"tags": {**run.tags, **completion.tags}})
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
        record = self._compared(record)
        package = closing(record, report, completion)
        problem = problem or self._attempt(lambda client: self._send(client, package, "FINISHED"))
        if problem:
            kept = keep(replace(package, tracked=self._tracked), self._waiting)
            self._tracked = Tracked(
                self.store.printable,
                self._tracked.run_id,
                self._tracked.experiment_id,
                f"MLflow does not have run {run.run_id}: {problem} Its results are kept in {kept}. The next "
                f"evaluation logs them, once {self.store.printable} answers.",
            )
        else:
            self._log_waiting()
        return record.model_copy(update={"mlflow": self._tracked, "mlflow_run_id": self._tracked.run_id})

    def _compared(self, record: RunRecord) -> RunRecord:
        """Add the comparison with the previous run; one that fails costs no run, and is a remark and in the log."""
        try:
            comparison = compare_with_previous(record, Warehouse(self._home.warehouse))
        except Exception as error:
            _LOG.exception("run %s is not compared with the previous one", record.run_id)
            remark = (
                f"The comparison with the previous run failed ({described(error)}); crosscheck.log has more."
            )
            return record.model_copy(update={"remarks": (*record.remarks, remark)})
        return record.model_copy(update={"before": comparison})

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

    def _log_waiting(self) -> None:
        """Log the runs that were kept because MLflow could not be reached, unless another process is doing so."""
        if not self._waiting.is_dir():
            return
        with suppress(Timeout, CrosscheckError), FileLock(self._waiting / ".lock").acquire(blocking=False):
            for file in sorted(self._waiting.glob("*.json")):
                later = Tracker(self._home, self.store)
                problem = self._attempt(partial(later._log_kept, file))
                if problem:
                    _LOG.warning("The run that is kept in %s is not logged yet: %s", file, problem)
                    return

    def _log_kept(self, file: Path, client: "MlflowClient") -> None:
        package = fetch(file)
        tracked = package.tracked
        if tracked and tracked.run_id and tracked.tracking_uri == self.store.printable:
            self._tracked = tracked
        self._send(client, package, "FINISHED")
        drop(file)

    def _started(self) -> RunRecord:
        if self._run is None:
            raise RuntimeError("start the tracker before finishing it")
        return self._run

    def _attempt(self, work: Callable[["MlflowClient"], None]) -> str:
        return attempt(self.store, work, retries=3, seconds=60)

    def _open(self, client: "MlflowClient", package: Package) -> None:
        if self._tracked.run_id is None:
            self._create(client, package)
        from mlflow.entities import Param

        run_id = str(self._tracked.run_id)
        client.log_batch(run_id, params=[Param(name, value) for name, value in package.params.items()])
        _log_dataset(client, run_id, package.dataset)
        self._opened = True

    def _create(self, client: "MlflowClient", package: Package) -> None:
        experiment_id = open_experiment(
            client, package.run.benchmark, self.store.artifacts, nights=NIGHT in package.run.tags
        )
        created = client.create_run(
            experiment_id,
            start_time=int(package.run.started.timestamp() * 1000),
            run_name=self._run_name(package.run),
            tags=dict(package.tags),
        )
        self._tracked = Tracked(self.store.printable, created.info.run_id, experiment_id)
        self._made(created.info.run_id)

    def _run_name(self, run: RunRecord) -> str:
        """Return the name of a run in MLflow; with its time if a run of that day, in the working folder, has it."""
        try:
            runs = Warehouse(self._home.warehouse).runs()
        except CrosscheckError:  # the run itself reports a warehouse that cannot be read
            runs = ()
        labels = {(other.label, other.started.date()) for other in runs if other.run_id != run.run_id}
        same = (run.label, run.started.date()) in labels
        return f"{run.label}, {run.started:%H:%M:%S}" if same else run.label

    def _send(self, client: "MlflowClient", package: Package, ending: Ending) -> None:
        if not self._opened:
            self._open(client, package)
        run_id = str(self._tracked.run_id)
        _log_metrics(client, run_id, package)
        try:
            _log_files(client, run_id, package.files)
        finally:  # no run stays RUNNING; a kept one is sent again
            client.set_terminated(run_id, status=ending)


def _log_files(client: "MlflowClient", run_id: str, files: Mapping[str, bytes]) -> None:
    if not files:
        return
    with tempfile.TemporaryDirectory() as folder:
        for path, content in files.items():
            target = Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        client.log_artifacts(run_id, folder)


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


def _log_dataset(client: "MlflowClient", run_id: str, questions: Mapping[str, str]) -> None:
    """Name the questions as the run's dataset; its digest is the start of the file's sha256."""
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.data.meta_dataset import MetaDataset
    from mlflow.entities import DatasetInput, InputTag

    source, digest = CodeDatasetSource(dict(questions)), questions["sha256"][:12]
    dataset = MetaDataset(source, name=questions["benchmark"], digest=digest)  # type: ignore[abstract]
    tags = [InputTag("mlflow.data.context", "evaluation")]
    client.log_inputs(run_id, datasets=[DatasetInput(dataset._to_mlflow_entity(), tags)])


def kill_mlflow_run(uri: str, run_id: str) -> bool:
    """Mark a run as killed if MLflow has it as running; return whether it was.

    A store that does not answer is left alone: nothing depends on the mark.
    """
    running = False

    def kill(client: "MlflowClient") -> None:
        nonlocal running
        if client.get_run(run_id).info.status == "RUNNING":
            client.set_tag(run_id, "status", "killed")
            client.set_terminated(run_id, status="KILLED")
            running = True

    if problem := attempt(Store(uri), kill):
        _LOG.warning("MLflow run %s could not be marked as killed: %s", run_id, problem)
    return running


def log_page(store: Store, run_id: str | None, page: str) -> str:
    """Store a page as the artifact `PAGE` of an MLflow run; return why it could not be stored, "" if it was."""
    if run_id is None:
        return "MLflow does not have the run."
    return attempt(store, lambda client: client.log_text(run_id, page, PAGE), seconds=30)


def log_night(
    store: Store, record: RunRecord, verdict: str, scores: Sequence[tuple[datetime.datetime, float]]
) -> str:
    """Add a night's verdict to its run, and the scores of the nights up to it as a series; return why not, or "".

    `scores`: start and execution accuracy of the runs of the same combination, the oldest first.
    """
    if record.mlflow_run_id is None:
        return "MLflow does not have the run."
    run_id = record.mlflow_run_id

    def log(client: "MlflowClient") -> None:
        from mlflow.entities import Metric, RunTag

        series = [
            Metric(TREND, round(score, 6), int(moment.timestamp() * 1000), night)
            for night, (moment, score) in enumerate(scores, 1)
        ]
        tags = {VERDICT: verdict, "mlflow.source.name": in_short(record, verdict)}
        client.log_batch(run_id, metrics=series, tags=[RunTag(*tag) for tag in tags.items()])

    return attempt(store, log, seconds=30)
