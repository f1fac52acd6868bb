"""One evaluation as one flat MLflow run, visible from its first minute.

If MLflow cannot be reached, the run is kept, and logged with the next run that MLflow takes.
"""

import datetime
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from tasks.core.errors import CrosscheckError
from tasks.core.files import atomic_write_text
from tasks.core.registry import described
from tasks.core.wording import p_value, storable
from tasks.results.build_record import storable_record
from tasks.results.compare import compare_with_previous
from tasks.results.mlflow.experiment import TREND, experiment_name, open_experiment
from tasks.results.mlflow.package import MAX_TAG, PAGE, Completion, Package, closing, in_short, opening
from tasks.results.mlflow.store import Store, attempt, find_store, is_known
from tasks.results.mlflow.traces import Exchanges, TraceChoice, log_traces
from tasks.results.parameters import name_for_mlflow, redact
from tasks.results.run_record import (
    NIGHT,
    NOISE,
    VERDICT,
    RunHeader,
    RunRecord,
    Tracked,
    Unfinished,
    adapter_of,
    json_of,
)
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.letters import pairwise_p_values
from tasks.scoring.significance import LEVEL
from tasks.settings.home import Home

if TYPE_CHECKING:
    from mlflow import MlflowClient


_LOG = logging.getLogger(__name__)

COMPLETE = Completion()


class Tracker:
    """Logger of one evaluation to MLflow.

    Call `start` when the evaluation begins, then `finish` or `abandon`. If the server cannot be reached,
    `Tracked.problem` of the result holds the reason, the run is kept in the working folder, and the next `finish` that
    succeeds sends it, too.
    """

    def __init__(self, home: Home, store: Store | None = None) -> None:
        self._home = home
        self.store = store or find_store(home)
        self._waiting = home.path / "unlogged"
        self._run: RunRecord  # since `start` or `finish`
        self._tracked = Tracked(self.store.printable)
        self._opened = False
        self._on_created: Callable[[str], None] = lambda run_id: None

    def may_start_later(self, run: RunRecord) -> bool:
        """Return whether `start` is known to succeed, so that questions may be asked before it."""
        file = self.store.sqlite_file
        return file is not None and is_known(file, experiment_name(run.benchmark))

    def start(self, run: RunRecord, on_created: Callable[[str], None] = lambda run_id: None) -> Tracked:
        """Create the run in MLflow, with the status RUNNING and with its settings, provenance and dataset.

        `on_created` is called with MLflow's id of the run as soon as it exists.
        """
        self._run = run
        self._on_created = on_created
        package = opening(run)
        if problem := attempt(self.store, lambda client: self._open(client, package)):
            _LOG.warning("MLflow does not show run %s yet: %s", run.run_id, problem)
        return self._tracked

    def trace(self, choice: TraceChoice, exchanges: Exchanges) -> str:
        """Write the traces of a run that is going on; return what kept them from being written, "" for nothing.

        They are not kept for later.
        """
        return log_traces(self.store, self._run, self._tracked, choice, exchanges)

    def finish(self, record: RunRecord, completion: Completion = COMPLETE) -> RunRecord:
        """Log metrics, description and artifacts in bulk, close the run, and return its record."""
        run = self._run = record
        problem = ""  # why MLflow does not have the run
        if not self._opened:
            problem = attempt(self.store, lambda client: self._open(client, opening(run)))
        facts = {
            "finished": datetime.datetime.now(datetime.UTC),
            "seconds": round(completion.seconds, 3) if completion.seconds else completion.seconds,
            "prefect": completion.prefect,
            "mlflow": self._tracked,
            "mlflow_run_id": self._tracked.run_id,
            **completion.facts,
        }
        record = self._add_comparison(storable_record(record.model_copy(update=facts)))
        package = closing(record, completion)
        problem = problem or attempt(self.store, lambda client: self._send(client, package, "FINISHED"))
        if problem:
            kept_file = self._waiting / f"{run.run_id}.json"
            atomic_write_text(kept_file, json.dumps(json_of(replace(package, tracked=self._tracked))))
            problem = (
                f"MLflow does not have run {run.run_id}: {problem} Its results are kept in {kept_file}. The next "
                f"evaluation logs them, once {self.store.printable} answers."
            )
            self._tracked = replace(self._tracked, problem=problem)
        else:
            self._log_waiting()
        return record.model_copy(update={"mlflow": self._tracked, "mlflow_run_id": self._tracked.run_id})

    def _add_comparison(self, record: RunRecord) -> RunRecord:
        """Add the comparison with the previous run; if it fails, add a remark: the run is logged without it."""
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
        """Close the run without a report, with the status of its end; the reason goes into its description.

        The returned `problem` says why MLflow could not close it; "" if it did.
        """
        run = self._run
        begun = opening(run)
        ended = {"status": status, "mlflow.note.content": f"{status.capitalize()}: {redact(reason)}"}
        package = replace(begun, tags={**begun.tags, **ended})
        ending = "FAILED" if status == "failed" else "KILLED"
        problem = attempt(self.store, lambda client: self._send(client, package, ending))
        if problem:
            _LOG.warning("MLflow does not know that run %s has ended (%s): %s", run.run_id, status, problem)
        return replace(self._tracked, problem=problem)

    def _log_waiting(self) -> None:
        """Log the runs that were kept because MLflow could not be reached, unless another process is doing so.

        It stops at the first run that cannot be logged: MLflow does not answer yet. The next evaluation tries again.
        """
        if not self._waiting.is_dir():
            return
        with suppress(Timeout, CrosscheckError), FileLock(self._waiting / ".lock").acquire(blocking=False):
            for file in sorted(self._waiting.glob("*.json")):
                tracker = Tracker(self._home, self.store)
                if problem := attempt(self.store, partial(tracker._log_kept, file)):
                    _LOG.warning("The run that is kept in %s is not logged yet: %s", file, problem)
                    return

    def _log_kept(self, file: Path, client: "MlflowClient") -> None:
        package: Package = adapter_of(Package).validate_python(json.loads(file.read_text(encoding="utf-8")))
        tracked = package.tracked
        if tracked and tracked.run_id and tracked.tracking_uri == self.store.printable:
            self._tracked = tracked
        self._send(client, package, "FINISHED")
        file.unlink(missing_ok=True)
        if not any(self._waiting.glob("*.json")):
            shutil.rmtree(self._waiting, ignore_errors=True)

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
        self._on_created(created.info.run_id)

    def _run_name(self, run: RunRecord) -> str:
        """Return the name of a run in MLflow; with its time if a run of that day, in the working folder, has it."""
        try:
            runs = Warehouse(self._home.warehouse).runs()
        except CrosscheckError:  # the run itself reports a warehouse that cannot be read
            runs = ()
        labels = {(other.label, other.started.date()) for other in runs if other.run_id != run.run_id}
        is_taken = (run.label, run.started.date()) in labels
        return f"{run.label}, {run.started:%H:%M:%S}" if is_taken else run.label

    def _send(self, client: "MlflowClient", package: Package, ending: str) -> None:
        """Log metrics, tags and files of the run, and close it; create it before if it does not exist."""
        if not self._opened:
            self._open(client, package)
        run_id = str(self._tracked.run_id)
        _log_metrics(client, run_id, package)
        try:
            for path, content in package.files.items():
                client.log_text(run_id, content.decode(), path)
        finally:  # even if a file cannot be logged, the run does not stay RUNNING
            client.set_terminated(run_id, status=ending)


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
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.data.meta_dataset import MetaDataset
    from mlflow.entities import DatasetInput, InputTag

    source = CodeDatasetSource(dict(questions))
    digest = questions["sha256"][:12]
    dataset = MetaDataset(source, name=questions["benchmark"], digest=digest)  # type: ignore[abstract]
    tags = [InputTag("mlflow.data.context", "evaluation")]
    client.log_inputs(run_id, datasets=[DatasetInput(dataset._to_mlflow_entity(), tags)])


def kill_mlflow_run(uri: str, run_id: str, *, lost: bool) -> bool:
    """Mark a run as killed if MLflow has it as running, or as finished although its record is `lost`.

    Return whether it did. A store that does not answer is left alone: nothing depends on the mark.
    """
    killed = False
    wrong_statuses = ("RUNNING", "FINISHED") if lost else ("RUNNING",)

    def kill(client: "MlflowClient") -> None:
        nonlocal killed
        if client.get_run(run_id).info.status in wrong_statuses:
            client.set_tag(run_id, "status", "killed")
            client.set_terminated(run_id, status="KILLED")
            killed = True

    if problem := attempt(Store(uri), kill):
        _LOG.warning("MLflow run %s could not be marked as killed: %s", run_id, problem)
    return killed


def log_page(store: Store, run_id: str | None, page: str) -> str:
    """Store a page as the artifact `PAGE` of an MLflow run; return why it could not be stored, "" if it was."""
    if run_id is None:
        return "MLflow does not have the run."
    return attempt(store, lambda client: client.log_text(run_id, page, PAGE))


def log_night(
    store: Store, record: RunRecord, verdict: str, scores: Sequence[tuple[datetime.datetime, float]]
) -> str:
    """Add a night's verdict to its run, and the scores of the nights up to it as a series; return a problem, or "".

    `scores`: start and execution accuracy of the runs of the same combination, the oldest first.
    """
    if record.mlflow_run_id is None:
        return "MLflow does not have the run."
    run_id = record.mlflow_run_id

    def log(client: "MlflowClient") -> None:
        from mlflow.entities import Metric, RunTag

        series = [
            Metric(key=TREND, value=round(score, 6), timestamp=int(moment.timestamp() * 1000), step=night)
            for night, (moment, score) in enumerate(scores, 1)
        ]
        tags = {VERDICT: verdict, "mlflow.source.name": in_short(record, verdict)}
        client.log_batch(run_id, metrics=series, tags=[RunTag(key, value) for key, value in tags.items()])

    return attempt(store, log)


VERSUS_BEST = "vs_best"
"""Tag of a run in MLflow: its verdict against the best run of the same questions.

The test is the exact McNemar test of `crosscheck compare BEST RUN`, of this pair alone; p of sweeps and the letters of
the leaderboard are adjusted for the number of pairs.
"""
BELOW_BEST = "ex_below_best"
"""Metric of a run in MLflow: by how much its execution accuracy is below the best run's, 0 to 1."""
ALONE = "no other run"
"""Verdict of a run whose questions no other run has."""
MAX_UPDATED = 50
"""Most earlier runs whose verdict is renewed when a better run comes: the latest."""


def keep_record(record: RunRecord, notes: Iterable[str], warehouse: Warehouse, store: Store) -> RunRecord:
    """Write the record of a run to the warehouse, and its verdict to MLflow; return the record with all notes."""
    noted = record.with_notes(notes)
    try:
        warehouse.finish(noted)
    except CrosscheckError as error:
        return noted.with_notes((*noted.notes, f"The warehouse does not have this run: {error}"))
    log_standing(store, warehouse, noted)
    return noted


def log_standing(store: Store, warehouse: Warehouse, record: RunRecord) -> None:
    """Write the verdict of a run that has just ended to MLflow, and renew those of earlier runs that it beats.

    Where that fails, the log says why: score and record are written already.
    """
    if record.mlflow_run_id is None or record.mlflow.problem:
        return
    try:
        problem = attempt(store, partial(_write_verdicts, _verdicts(warehouse, record)))
    except CrosscheckError as error:
        problem = str(error)
    if problem:
        _LOG.warning("MLflow does not show the verdict of run %s: %s", record.run_id, problem)


def _write_verdicts(verdicts: Mapping[str, tuple[float, str]], client: "MlflowClient") -> None:
    from mlflow.entities import Metric, RunTag

    now = int(time.time() * 1000)
    for run_id, (below, verdict) in verdicts.items():
        metric = Metric(BELOW_BEST, round(below, 6), now, 0)
        client.log_batch(run_id, metrics=[metric], tags=[RunTag(VERSUS_BEST, verdict)])


def _verdicts(warehouse: Warehouse, record: RunRecord) -> dict[str, tuple[float, str]]:
    """Return, by MLflow's id of each run whose verdict changes, how far it is below the best one, and its verdict."""
    group_of = attrgetter("benchmark", "revision", "rule", "question_set")
    scored = [run for run in warehouse.runs() if run.total and NOISE not in run.tags]
    peers = [run for run in scored if group_of(run) == group_of(record)]
    by_score = sorted(peers, key=lambda run: (-(run.ex or 0.0), run.started))
    stored = (warehouse.record_of(run.run_id) for run in by_score)  # read one by one, until the best is found
    may_be_best = (
        run for run in stored if run and not run.why_unranked and run.databases == record.databases
    )
    best = next(may_be_best, None)
    if best is None:
        return {}
    if len(peers) == 1:
        return {record.mlflow_run_id: (0.0, ALONE)} if record.mlflow_run_id else {}
    runs: list[RunHeader] = [record, best]
    if best.run_id == record.run_id:  # earlier runs were compared with another best one
        runs = [record, *[run for run in peers if run.run_id != record.run_id][:MAX_UPDATED]]
    right = warehouse.right_answers({best.run_id, *(run.run_id for run in runs)}, record.rule)
    return {run.mlflow_run_id: _against(best, run, right) for run in runs if run.mlflow_run_id}


def _against(best: RunRecord, run: RunHeader, right: Mapping[str, Mapping[str, bool]]) -> tuple[float, str]:
    """Return how far the EX of a run is below that of the best one, as a fraction, and its verdict in words.

    `right` says by run id, then by question id, which answers are right.
    """
    below = (best.ex or 0.0) - (run.ex or 0.0)
    if run.run_id == best.run_id:
        return below, "best"
    if not {best.run_id, run.run_id} <= right.keys():  # the questions of one of them were removed
        return below, "lower, not tested" if below > 0 else "tied with best"
    (p,) = pairwise_p_values({name: right[name] for name in (best.run_id, run.run_id)}).values()
    verdict = "lower" if p < LEVEL and below > 0 else "tied with best"
    return below, f"{verdict}, unadjusted p = {p_value(p)}"
