"""`crosscheck log`, on a run that MLflow missed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tasks.settings.home import Home
from tasks.tracking.mlflow.package import Completion
from tasks.tracking.mlflow.store import Store
from tasks.tracking.mlflow.tracker import Tracker
from tests.support.command_line import Ran
from tests.tasks.tracking.samples import make_report, make_run

Run = Callable[..., Ran]


def test_a_run_that_mlflow_missed_is_logged_later_by_the_command_that_the_summary_names(
    run_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    tracker = Tracker(Home(tmp_path / "home"), Store("http://127.0.0.1:9"))
    tracker.start(make_run())
    problem = tracker.finish(make_report(5), Completion(seconds=1.0)).problem
    monkeypatch.undo()
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    command = problem.split('"')[1].split()
    assert command[:2] == ["crosscheck", "log"]

    logged = run_here(*command[1:], "--json")
    assert logged.code == 0, logged.err
    run_id = logged.json["mlflow_run_id"]
    run = MlflowClient(f"sqlite:///{tmp_path / 'home' / 'mlflow.db'}").get_run(run_id)
    assert run.info.status == "FINISHED"
    again = run_here(*command[1:])
    assert again.code == 2
    assert "is not among the runs that are still to be logged" in again.err
