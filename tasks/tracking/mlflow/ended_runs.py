"""What is added to an MLflow run that the evaluation no longer writes: a page, a night's verdict, values, its death."""

import datetime
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tasks.tracking.evaluation import VERDICT
from tasks.tracking.mlflow.experiment_view import TREND
from tasks.tracking.mlflow.package import in_short
from tasks.tracking.mlflow.store import Store, attempt
from tasks.tracking.run_record import RunRecord

if TYPE_CHECKING:
    from mlflow import MlflowClient

_LOG = logging.getLogger(__name__)


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
    """Store a page as the artifact `report.html` of an MLflow run; return why it could not be stored, "" if it was.

    The run's id is None if MLflow does not have it.
    """
    if run_id is None:
        return "MLflow does not have the run."
    return attempt(store, lambda client: client.log_text(run_id, page, "report.html"), seconds=30)


def log_night(
    store: Store, record: RunRecord, verdict: str, scores: Sequence[tuple[datetime.datetime, float]]
) -> str:
    """Add a night's verdict to its run, and the scores of the nights up to it as a series; return why not, or "".

    Args:
        store: MLflow's store.
        record: the run.
        verdict: the night's verdict on it.
        scores: start and execution accuracy of the runs of the same combination, the oldest first.
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
        client.log_batch(run_id, metrics=series, tags=[RunTag(*each) for each in tags.items()])

    return attempt(store, log, seconds=30)


def log_values(store: Store, run_id: str | None, values: Mapping[str, float], tags: Mapping[str, str]) -> str:
    """Add metrics and tags to an MLflow run that has ended; return why they could not be stored, "" if they were.

    The run's id is None if MLflow does not have it.
    """
    if run_id is None:
        return "MLflow does not have the run."

    def log(client: "MlflowClient") -> None:
        for name, value in values.items():
            client.log_metric(run_id, name, value)
        for name, text in tags.items():
            client.set_tag(run_id, name, text)

    return attempt(store, log, seconds=30)
