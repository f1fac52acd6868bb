"""`crosscheck up` as users run it: real servers, really killed."""

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Queue
from urllib.parse import urlsplit

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.prefect import automations
from flows.prefect.automations import WEBHOOK
from tasks.results.night import Night, all_nights, write
from tasks.settings.choices import Gate
from tasks.settings.home import Home
from tests.support.command_line import ROOT, CommandLine, free_ports, wait_until
from tests.support.http_server import webhook
from tests.support.in_process import run
from tests.support.kept_results import kept_results
from tests.support.processes import processes_of
from tests.support.schedule import OFTEN, ask, fired


@dataclass
class Up:
    """A `crosscheck up` that is running."""

    shell: CommandLine
    process: "subprocess.Popen[str]"
    ready: dict
    told: Queue

    @property
    def urls(self) -> dict[str, str]:
        return {"Prefect": self.ready["prefect"], "MLflow": self.ready["mlflow"]}


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return response.status == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    prefect, mlflow = free_ports(2)
    with webhook() as (hook, told):
        shell = CommandLine(tmp_path_factory.mktemp("up") / "home", {**OFTEN, WEBHOOK: hook})
        process = shell.start("up", "--prefect-port", str(prefect), "--mlflow-port", str(mlflow), "--json")
        line = process.stdout.readline()
        if not line:
            pytest.fail(f"it did not come up: {process.stderr.read()}")
        yield Up(shell, process, json.loads(line), told)
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def api(up: Up) -> str:
    """Deploy as `crosscheck up` prints, and return the address of Prefect's API."""
    ours = {**up.shell.all_of_environment, **up.ready["environment"], "PWD": str(ROOT)}
    deployed = subprocess.run(
        [sys.executable, "-m", "prefect", "deploy", "--all", "--prefect-file", "deployments/prefect.yaml"],
        cwd=ROOT, env=ours, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert deployed.returncode == 0, deployed.stdout + deployed.stderr
    return str(ours["PREFECT_API_URL"])


def _planned_night(api: str) -> str:
    """Return the id of a flow run of the nightly deployment that is not due for a day."""
    id_ = ask(f"{api}/deployments/name/nightly/nightly")["id"]
    due = {"scheduled_time": (datetime.now(UTC) + timedelta(days=1)).isoformat()}
    state = {"type": "SCHEDULED", "state_details": due}
    planned = {"state": state, "enforce_parameter_schema": False}
    return str(ask(f"{api}/deployments/{id_}/create_flow_run", planned)["id"])


def _set_state(api: str, flow_run: str, type_: str, **more: str) -> dict:
    answer: dict = ask(f"{api}/flow_runs/{flow_run}/set_state", {"state": {"type": type_, **more}})
    return answer


@pytest.mark.slow
class TestUp:
    def test_it_serves_both_uis_on_localhost_and_has_a_worker(self, up: Up) -> None:
        assert up.ready["pid"] == up.process.pid
        for name, marker in (("Prefect", b"Prefect"), ("MLflow", b"MLflow")):
            assert up.urls[name].startswith("http://127.0.0.1:")
            with urllib.request.urlopen(up.urls[name], timeout=120) as page:
                assert marker in page.read()
        assert up.ready["environment"] == {
            "PREFECT_API_URL": f"{up.urls['Prefect']}/api",
            "MLFLOW_TRACKING_URI": up.urls["MLflow"],
        }

    @pytest.mark.parametrize(("origin", "host", "allowed"), [
        (None, None, True),
        ("own", None, True),
        ("http://127.0.0.1:1", None, False),
        ("http://localhost:3000", None, False),
        ("null", None, False),
        (None, "evil.example", False),
    ])  # fmt: skip
    def test_mlflow_answers_its_own_pages_only(
        self, up: Up, origin: str | None, host: str | None, *, allowed: bool
    ) -> None:
        address = urlsplit(up.urls["MLflow"])
        origin = up.urls["MLflow"] if origin == "own" else origin
        given = {"Content-Type": "application/json", "Origin": origin, "Host": host}
        headers = {name: value for name, value in given.items() if value}
        for method, path in (
            ("OPTIONS", "/api/2.0/mlflow/runs/create"),
            ("POST", "/api/2.0/mlflow/experiments/search"),
            ("GET", "/api/2.0/mlflow/experiments/get?experiment_id=0"),
            ("POST", "/ajax-api/2.0/mlflow/experiments/search"),
        ):
            connection = http.client.HTTPConnection(address.netloc, timeout=60)
            connection.request(method, path, '{"max_results": 1}', headers)
            assert (connection.getresponse().status != 403) == allowed, (method, path)

    def test_a_second_one_for_the_same_folder_is_refused(self, up: Up) -> None:
        """A port that is taken is, too: see tests/promises/test_up.py."""
        up.shell.run("up").assert_refused("already runs", up.urls["Prefect"])

    def test_an_evaluation_of_the_same_folder_records_at_its_server(self, up: Up) -> None:
        ran = up.shell.run("evaluate", "--limit", "1", "--pipeline", "zero-shot", "--json")
        assert ran.code == 0, ran.err
        names = [each["name"] for each in ask(f"{up.urls['Prefect']}/api/flow_runs/filter", {})]
        assert "demo | offline | zero-shot" in names

    def test_a_night_is_deployed_as_it_prints_and_fires_by_its_schedule(self, up: Up, api: str) -> None:
        home, before = Home(up.shell.home), datetime.now(UTC) - timedelta(days=3)
        write(Night("three days ago", Gate(), (), before, before), home)
        matrix = {"pipelines": ["zero-shot"], "limit": 2}
        ran = fired(api, "nightly/nightly", {"matrix": matrix})
        assert ran["state_type"] == "COMPLETED", (up.shell.home / "services/worker.log").read_text()
        assert ran["name"].startswith("night 20")
        assert [key.partition("/")[0] for key in kept_results(home)] == ["preliminary_sql"] * 2
        night = all_nights(home)[0]
        assert len(night.missed) == 6, "of the schedule of the file and of that of this test, three each"
        assert night.expected is not None and night.expected > night.started
        assert "6 nightly runs were missed" in ran["state"]["message"]

    def test_a_night_waits_while_another_one_runs(self, api: str) -> None:
        first, second = (_planned_night(api) for _ in "12")
        assert _set_state(api, first, "PENDING")["status"] == "ACCEPT"
        answer = _set_state(api, second, "PENDING")
        assert answer["status"] == "REJECT" and answer["state"]["name"] == "AwaitingConcurrencySlot"
        assert _set_state(api, first, "COMPLETED")["status"] == "ACCEPT"
        wait_until(lambda: _set_state(api, second, "PENDING")["status"] == "ACCEPT")
        assert _set_state(api, second, "COMPLETED")["status"] == "ACCEPT"

    def test_the_server_calls_the_webhook_once_for_a_night_that_could_not_do_so_itself(
        self, up: Up, api: str
    ) -> None:
        verdict = '1 of 3 evaluations is significantly worse than the baseline: demo | "weak" | rsl-sql.'
        for type_, name, message in (
            ("COMPLETED", "Completed", "All is well."),
            ("FAILED", "Failed", verdict),
            ("COMPLETED", "Amber", "Not proven."),
            ("CRASHED", "Crashed", "Its process is gone."),
        ):
            _set_state(api, _planned_night(api), type_, name=name, message=message)
        told = {body["state"]: (path, body) for path, body in (up.told.get(timeout=60) for _ in "12")}
        assert set(told) == {"Crashed", "Failed"}, "a red or amber night calls it itself"
        time.sleep(5)
        assert up.told.empty()
        path, body = told["Failed"]
        assert path == "/hook/s3cret"
        assert body["text"].startswith("Failed: nightly run ") and body["text"].endswith(f". {verdict}")
        assert body["page"].startswith(f"{up.urls['Prefect']}/")

    def test_a_server_that_is_killed_comes_back(self, up: Up) -> None:
        def servers() -> set[int]:
            return {pid for pid, command in processes_of(up.shell.home).items() if "uvicorn" in command}

        before = servers()
        running = processes_of(up.shell.home)
        for pid in (*before, *(pid for pid, command in running.items() if "mlflow server" in command)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: servers() - before and answers(f"{up.urls['MLflow']}/health"))
        assert up.process.poll() is None

    def test_a_night_whose_machine_died_as_it_began_ends_and_the_next_one_begins(
        self, api: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It has sent no heartbeat, and holds the only slot of nightly runs until it has ended."""
        names = {each["name"] for each in ask(f"{api}/automations/filter", {})}
        assert {automations.GONE_NAME, automations.UNSTARTED_NAME} <= names, "before the first flow run"
        for name, value in (("GONE_NAME", "a"), ("UNSTARTED_NAME", "b"), ("SILENT_S", 10), ("START_S", 10)):
            monkeypatch.setattr(automations, name, value)
        with temporary_settings({PREFECT_API_URL: api}):
            asyncio.run(automations.watch_over_flow_runs())
        for name in ("Pending", "Submitting", "Running"):
            died = _planned_night(api)
            begun = "Pending" if name == "Running" else name
            while _set_state(api, died, "PENDING", name=begun)["status"] != "ACCEPT":
                time.sleep(0.5)  # the slot is freed a moment later
            if name == "Running":  # before it is due
                ask(f"{api}/flow_runs/{died}/set_state", {"state": {"type": "RUNNING"}, "force": True})
            while ask(f"{api}/flow_runs/{died}")["state_name"] != "Crashed":
                time.sleep(0.5)

    def test_ctrl_c_stops_everything_in_order(self, up: Up) -> None:
        """After a kill nothing is left either: see tests/promises/test_up.py."""
        home = up.shell.home
        assert len(processes_of(home)) > 6
        up.process.send_signal(signal.SIGINT)
        _, err = up.process.communicate(timeout=300)
        assert up.process.returncode == 0
        assert "Traceback" not in err
        wait_until(lambda: not processes_of(home))
        assert not any(answers(url) for url in up.urls.values())
        assert "stopped!" in (home / "services/worker.log").read_text()


def test_a_webhook_that_is_no_address_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WEBHOOK, "hooks.example.com/s3cret")
    prefect, mlflow = map(str, free_ports(2))
    home = str(tmp_path / "home")
    refused = run("up", "--home", home, "--prefect-port", prefect, "--mlflow-port", mlflow)
    refused.assert_refused(WEBHOOK, "begins with http")
    assert "s3cret" not in refused.err and "Starting" not in refused.err
