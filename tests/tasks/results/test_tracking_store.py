"""Where MLflow's store is, how it is opened, and that nothing of it reaches the terminal."""

import json
import os
import re
import shlex
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tasks.core.errors import ConfigurationError
from tasks.results.mlflow import store as mlflow_store
from tasks.results.mlflow.store import (
    Store,
    attempt,
    check,
    find_store,
    http_limits,
    is_known,
    reason_of,
    remember,
    ui_command,
    ui_url,
)
from tasks.results.mlflow.tracker import Tracker
from tasks.results.run_record import Tracked
from tasks.settings.home import Home
from tests.support.command_line import free_ports
from tests.support.http_server import refusing_server
from tests.tasks.results.samples import make_record, make_run

EVALUATE = """
import logging, sys
from pathlib import Path
logging.basicConfig(level=logging.INFO)
from tasks.settings.home import Home
from tasks.results.mlflow.store import check
from tasks.results.mlflow.tracker import Tracker
from tests.tasks.results.samples import make_record, make_run
tracker = Tracker(Home(Path(sys.argv[1])))
check(tracker.store)
tracker.start(make_run())
assert tracker.finish(make_record(30)).mlflow.problem == ""
"""


@pytest.mark.slow
def test_the_first_use_of_a_store_says_nothing(tmp_path: Path) -> None:
    home = tmp_path / "a home of 'ours'"
    done = subprocess.run([sys.executable, "-c", EVALUATE, str(home)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (home / "mlflow.db").is_file()


def test_a_new_store_waits_for_the_disk(tmp_path: Path) -> None:
    from sqlalchemy import text

    store = find_store(Home(tmp_path / "new"))
    engine = store.client()._tracking_client.store.engine
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("nonsense://x", "unsupported URI"),
        ("http://127.0.0.1:9", "no server answers at 127.0.0.1:9"),
        ("http://me:hunter22@127.0.0.1:9", "no server answers at 127.0.0.1:9"),
        ("sqlite:////proc/no/such/store.db", "No such file or directory"),
    ],
)
def test_a_store_that_cannot_be_used_is_said_at_once(
    uri: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(ConfigurationError) as caught:
        check(find_store(Home(tmp_path)))
    assert said in str(caught.value)
    assert "unset it to log to a file" in str(caught.value)
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize("body", [b"You are not authenticated.", b'{"detail": "no token"}'])
def test_a_server_that_wants_a_login_names_the_variables_of_it(body: bytes) -> None:
    with refusing_server(body) as url, pytest.raises(ConfigurationError) as refused:
        check(Store(url))
    assert "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD" in str(refused.value)
    assert "Correct MLFLOW_TRACKING_URI" not in str(refused.value)


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_answers_with_an_error_is_said_to_answer(status: int) -> None:
    with refusing_server(b"", status) as url, pytest.raises(ConfigurationError) as refused:
        check(Store(url))
    assert f"the server at {url.removeprefix('http://')} answers with HTTP {status}." in str(refused.value)


def test_a_server_that_never_answers_is_given_up_after_a_minute_and_sooner_the_next_time() -> None:
    limits = []

    def ask(client: MlflowClient) -> None:
        limits.append([int(os.environ[f"MLFLOW_HTTP_REQUEST_{name}"]) for name in ("MAX_RETRIES", "TIMEOUT")])
        with http_limits(0, 1):
            client.search_experiments()

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        store = Store(f"http://127.0.0.1:{silent.getsockname()[1]}")
        reasons = [attempt(store, ask) for _ in range(2)]
    assert all(reason.startswith("no server answers") for reason in reasons)
    assert [(retries + 1) * seconds for retries, seconds in limits] == [60, 10]


def test_limits_of_requests_leave_every_variable_and_what_a_user_has_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with http_limits(0, 1):
        during = set(os.environ)
    assert during <= set(os.environ)
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_TIMEOUT", raising=False)
    with http_limits(0, 1):
        assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "1"
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "120"
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "7")
    for _ in range(2):
        with http_limits(0, 1):
            assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "7"
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "7"


def test_a_good_store_is_found_good(store: Store) -> None:
    check(store)


def test_reasons_are_one_sentence() -> None:
    assert reason_of(ValueError("first line\nsecond line")) == "first line."
    assert reason_of(ValueError()) == "ValueError."
    assert reason_of(ValueError("x" * 1000)) == f"{'x' * 300} ..."


def test_a_server_needs_no_command(tmp_path: Path) -> None:
    served = Store("https://me:pw@mlflow.example/base/")
    assert ui_command(served) is None
    assert ui_url(served, "7").startswith("https://***@mlflow.example/base/#/experiments/7/runs?")


@contextmanager
def running(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Run a server in a folder while the block lasts."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, cwd=folder, env=os.environ | environment, **quiet) as process:
        try:
            yield
        finally:
            process.terminate()


@pytest.mark.slow
def test_the_printed_command_opens_the_store_and_runs_with_and_without_that_server_meet_in_one_experiment(
    store: Store, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    command = ui_command(store, port)
    assert " " in str(store.sqlite_file)
    words = shlex.split(command)
    assert words[words.index("--backend-store-uri") + 1] == store.uri
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with running(["sh", "-c", f"exec env {command}"], tmp_path, {"PATH": path}):
        served = Store(f"http://127.0.0.1:{port}")
        assert re.search(r"<title>\s*MLflow", wait_for(f"{served.uri}/"))
        assert '"Default"' in wait_for(f"{served.uri}/api/2.0/mlflow/experiments/get?experiment_id=0")
        assert [each.name for each in tmp_path.iterdir()] == ["the home"], (
            "it writes nothing where it is started"
        )
        for benchmark, stores in {"first": (served, store), "second": (store, served)}.items():
            runs = [tracked_run(benchmark, Home(tmp_path), used) for used in stores]
            assert [run.problem for run in runs] == ["", ""]
            assert runs[0].experiment_id == runs[1].experiment_id
            for run in runs:
                for client in (served.client(), store.client()):
                    assert client.get_run(str(run.run_id)).info.status == "FINISHED"
                    assert client.list_artifacts(str(run.run_id))
                table = f"{served.uri}/get-artifact?path=predictions.json&run_uuid={run.run_id}"
                assert json.loads(wait_for(table))["columns"]


def tracked_run(benchmark: str, home: Home, store: Store) -> Tracked:
    """Log a run of a benchmark to a store."""
    tracker = Tracker(home, store)
    tracker.start(make_run(benchmark=benchmark))
    return tracker.finish(make_record(5)).mlflow


def wait_for(url: str) -> str:
    for _ in range(480):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return str(answer.read().decode())
        except OSError:
            time.sleep(0.25)
    raise AssertionError(f"nobody answered at {url}")


def test_a_server_that_restarts_costs_a_deployed_evaluation_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(f"http://127.0.0.1:{free_ports(1)[0]}")
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", "01a21773-8d7b-76b3-b25b-b43e7e200d5c")
    check(store)
    assert "runs are logged later" in caplog.text
    monkeypatch.delenv("PREFECT__FLOW_RUN_ID")
    with pytest.raises(ConfigurationError, match="Correct MLFLOW_TRACKING_URI"):
        check(store)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """The tables of a store that are looked at."""
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('abc')")
        connection.execute("CREATE TABLE experiments (name TEXT, lifecycle_stage TEXT)")
        connection.execute(
            "INSERT INTO experiments VALUES ('crosscheck/gone', 'deleted'), ('crosscheck/demo', 'active')"
        )
    return path


def test_a_store_is_known_once_it_was_opened_until_mlflow_or_its_tables_change(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_known(tables)
    remember(tables)
    assert is_known(tables) and is_known(tables, "crosscheck/demo") and is_known(tables, "crosscheck/new")
    assert not is_known(tables, "crosscheck/gone")
    tables.with_name(f"{tables.name}.checked").write_bytes(b"\xff")
    assert not is_known(tables)
    remember(tables)
    with monkeypatch.context() as patch:
        patch.setattr(mlflow_store, "version", lambda name: "another")
        assert not is_known(tables)
    with closing(sqlite3.connect(tables)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'abd'")
    assert not is_known(tables)


def test_a_store_that_will_be_made_is_known_and_one_that_is_damaged_is_not(tmp_path: Path) -> None:
    assert is_known(tmp_path / "mlflow.db")
    assert not is_known(tmp_path / "absent" / "mlflow.db")
    (tmp_path / "mlflow.db").write_bytes(b"no database")
    remember(tmp_path / "mlflow.db")
    assert not is_known(tmp_path / "mlflow.db")


def test_a_store_that_cannot_be_opened_is_given_up_at_once(tmp_path: Path) -> None:
    started = time.monotonic()
    for name, reason in (
        ("folder.db", "unable to open database file."),
        ("text.db", "file is not a database."),
    ):
        (tmp_path / name).mkdir() if name == "folder.db" else (tmp_path / name).write_text("text " * 100)
        store = Store(f"sqlite:///{tmp_path / name}")
        assert attempt(store, lambda client: client.search_experiments()) == reason
    assert time.monotonic() - started < 30, "MLflow would try for a hundred seconds"
