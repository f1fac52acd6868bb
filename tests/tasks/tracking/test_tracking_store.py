"""Where MLflow's store is, how it is opened, and that nothing of it reaches the terminal."""

import os
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tasks.core.errors import ConfigurationError
from tasks.settings.home import Home
from tasks.tracking.mlflow.store import (
    Store,
    check,
    find_store,
    reason_of,
    ui_command,
    ui_url,
)
from tests.support.postgres import postgres_database

__all__ = ["postgres_database"]

EVALUATE = """
import logging, sys
from pathlib import Path
logging.basicConfig(level=logging.INFO)
from tasks.settings.home import Home
from tasks.tracking.mlflow.tracker import Tracker
from tests.tasks.tracking.samples import make_report, make_run
tracker = Tracker(Home(Path(sys.argv[1])))
tracker.check()
tracker.start(make_run())
assert tracker.finish(make_report(30)).problem == ""
"""


@pytest.mark.slow
def test_the_first_use_of_a_store_says_nothing(tmp_path: Path) -> None:
    home = tmp_path / "a home of 'ours'"
    done = subprocess.run([sys.executable, "-c", EVALUATE, str(home)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (home / "mlflow.db").is_file()


def test_nothing_of_mlflow_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, tasks.tracking.mlflow.tracker, tasks.tracking.warehouse.runs\n"
        "import tasks.tracking.run_display.document\n"
        "print(*sorted({'mlflow', 'duckdb', 'pandas', 'pyarrow', 'matplotlib', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the command is for a POSIX shell")
def test_the_printed_command_opens_the_store_when_copied(store: Store, tmp_path: Path) -> None:
    port = free_port()
    command = ui_command(store, port)
    assert command is not None
    assert " " in str(store.sqlite_file)
    words = shlex.split(command)
    assert words[words.index("--backend-store-uri") + 1] == store.uri
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.Popen(
        ["sh", "-c", f"exec env {command}"],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        page = wait_for(f"http://127.0.0.1:{port}/")
        assert re.search(r"<title>\s*MLflow", page)
        assert '"Default"' in wait_for(
            f"http://127.0.0.1:{port}/api/2.0/mlflow/experiments/get?experiment_id=0"
        )
        assert [each.name for each in tmp_path.iterdir()] == ["the home"], (
            "it writes nothing where it is started"
        )
    finally:
        process.terminate()
        process.wait(300)


def wait_for(url: str) -> str:
    for _ in range(480):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return str(answer.read().decode())
        except OSError:
            time.sleep(0.25)
    raise AssertionError(f"nobody answered at {url}")
