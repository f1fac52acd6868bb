"""Services of `crosscheck up`: the address in MLflow that it prints."""

import subprocess
import sys
from pathlib import Path

import pytest

from flows.runtime.running_servers import Addresses
from flows.servers.services import mlflow_page
from tasks.settings.home import Home
from tasks.tracking.build_record import record_of
from tasks.tracking.run_record import Tracked
from tasks.tracking.warehouse.runs import Warehouse
from tests.tasks.tracking.samples import make_report, make_run

ADDRESSES = Addresses(4200, 5000)


def log_run(home: Home, tracking_uri: str) -> None:
    run, report = make_run(), make_report()
    logged = record_of(run, report, mlflow=Tracked(tracking_uri, "abc", "7"))
    Warehouse(home.warehouse).finish(run, report, logged)


def test_it_is_mlflow_itself_where_no_run_is_there(tmp_path: Path) -> None:
    assert mlflow_page(Home(tmp_path), ADDRESSES) == "http://127.0.0.1:5000"


@pytest.mark.parametrize("own", [True, False])
def test_it_is_the_view_of_the_latest_run_where_its_own_server_has_that(own: bool, tmp_path: Path) -> None:
    home = Home(tmp_path)
    log_run(home, home.mlflow_uri if own else "http://elsewhere:5000")
    page = mlflow_page(home, ADDRESSES)
    assert page.startswith("http://127.0.0.1:5000")
    assert ("/#/experiments/7/runs" in page) is own


def test_a_warehouse_that_is_in_use_does_not_keep_it_from_starting(tmp_path: Path) -> None:
    home = Home(tmp_path)
    log_run(home, home.mlflow_uri)
    hold = (
        "import duckdb, sys; file = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(home.warehouse)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        assert mlflow_page(home, ADDRESSES) == "http://127.0.0.1:5000"
        holder.communicate()
