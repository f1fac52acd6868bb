"""An evaluation's own Prefect server that the system kills, or somebody stops, in the middle of a run."""

import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from flows.prefect.server import MAX_RESTARTS, LocalServer
from tasks.settings.home import Home
from tests.support.command_line import CommandLine, finish, start_module, wait_until
from tests.support.demo import write_backbone
from tests.support.fake_openai import FakeOpenAI

pytestmark = pytest.mark.slow


@pytest.fixture
def without_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Forget the server of other tests."""
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))


@pytest.mark.usefixtures("without_server")
def test_one_that_does_not_answer_is_started_again_at_the_same_address(tmp_path: Path) -> None:
    def answers() -> bool:
        try:
            with urlopen(f"{url}/health", timeout=2) as response:
                return own_servers(os.getpid()) != [first] and response.status == 200
        except OSError:
            return False

    before = own_servers(os.getpid())
    with LocalServer(Home(tmp_path)) as server:
        url = server.wait()
        (first,) = (each for each in own_servers(os.getpid()) if each not in before)
        first.send_signal(signal.SIGSTOP)
        wait_until(lambda: not first.is_running() or first.status() == psutil.STATUS_ZOMBIE)
        wait_until(answers)
        assert len(own_servers(os.getpid())) == len(before) + 1
    assert own_servers(os.getpid()) == before


def test_servers_on_this_machine_are_reached_without_the_proxy_of_the_environment(demo: CommandLine) -> None:
    proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    without = {**demo.environment, "no_proxy": "", "NO_PROXY": "intranet.example", **proxies}
    ran = replace(demo, environment=without).run(
        "evaluate", "--pipeline", "zero-shot", "--limit", "2", timeout=100
    )
    assert ran.code == 0, ran.err
    assert "Prefect has recorded 2 of 2 task runs" in ran.err


def flow_run_has_begun(home: Path) -> bool:
    """Return whether the evaluation of a working folder has a flow run in Prefect."""
    return any('"flow_run"' in file.read_text(encoding="utf-8") for file in (home / "runs").glob("*.json"))


def own_servers(pid: int) -> list[psutil.Process]:
    """Return the processes of Prefect's server that an evaluation has started."""
    found = []
    for each in psutil.Process(pid).children():
        with suppress(psutil.Error):
            if "flows.prefect.server" in each.cmdline():
                found.append(each)
    return found


def test_one_that_is_killed_again_and_again_is_given_up_and_the_score_is_shown(
    tmp_path: Path, built_demo: Path, fake_openai: FakeOpenAI
) -> None:
    fake_openai.latency = 2.0
    backbone = write_backbone(tmp_path / "fake.yaml", fake_openai, concurrency=1)
    line = CommandLine(Path(shutil.copytree(built_demo, tmp_path / "home")))
    few = ("--benchmark", "demo", "--pipeline", "zero-shot", "--limit", "5", "--json")
    process = line.start("evaluate", "--backbone", backbone, *few)
    wait_until(lambda: flow_run_has_begun(line.home), timeout=120)
    for _ in range(MAX_RESTARTS + 1):
        wait_until(lambda: bool(own_servers(process.pid)), timeout=60)
        (server,) = own_servers(process.pid)
        server.kill()
        wait_until(lambda pid=server.pid: pid not in [each.pid for each in own_servers(process.pid)])
    ran = finish(process, timeout=90)
    assert ran.code == 0, ran.err
    assert ran.json["questions"] == 5
    assert "EventsWorker" not in ran.err


@pytest.mark.usefixtures("without_server")
def test_the_next_evaluation_of_a_process_starts_another_in_place_of_one_that_was_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.prefect.server.MAX_RESTARTS", 0)
    monkeypatch.setenv("PREFECT_CLIENT_MAX_RETRIES", "7")
    with LocalServer(Home(tmp_path)) as server:
        first = server.wait()
        (process,) = own_servers(os.getpid())
        process.kill()
        wait_until(lambda: os.environ["PREFECT_CLIENT_MAX_RETRIES"] == "0")
        wait_until(lambda: server._given_up)
        with urlopen(f"{server.wait()}/health", timeout=10) as answer:
            assert answer.status == 200
        assert server.url != first
        assert os.environ["PREFECT_CLIENT_MAX_RETRIES"] == "7"
        # set to Prefect's own value, not removed: a thread that reads the environment meanwhile would fail
        assert os.environ["PREFECT_LOGGING_TO_API_ENABLED"] == "true"


EVALUATE = ("evaluate", "--pipeline", "zero-shot", "--limit", "3", "--json")


def assert_all_recorded(home: Path, script: str, words: Sequence[str]) -> None:
    """Assert that a command, run by a script, ends well and Prefect has recorded all of its task runs."""
    environment = CommandLine(home).all_of_environment
    ran = finish(start_module("tests.support.script", (script, *words), environment), timeout=300)
    assert ran.code == 0, ran.err
    counts = ran.json["prefect"]
    assert counts["recorded"] == counts["task_runs"] > 0


def test_a_flow_run_begins_after_its_server_has_died_and_been_started_again(
    tmp_path: Path, built_demo: Path
) -> None:
    shutil.copytree(built_demo, tmp_path / "home")
    script = (
        "import sys; from flows.prefect.server import LocalServer; from flows.cli.program import run\n"
        "wait, died = LocalServer.wait, []\n"
        "def answering_once(self, control=None):\n"
        "    wait(self, control)\n"
        "    if not died:\n"
        "        died.append(self._process)\n"
        "        self._process.kill()\n"
        "        self._process.wait()\n"
        "LocalServer.wait = answering_once\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    assert_all_recorded(tmp_path / "home", script, EVALUATE)
    assert_all_recorded(tmp_path / "home", script, ("rerun", "latest", "--questions", "0-2", "--json"))


def test_the_last_task_runs_are_recorded_without_waiting_for_prefects_interval(
    tmp_path: Path, built_demo: Path
) -> None:
    shutil.copytree(built_demo, tmp_path / "home")
    script = (
        "import sys; from flows.prefect import server; from flows.cli.program import run; "
        "server.OWN_SERVER['PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL'] = '3600'; "
        "sys.exit(run(sys.argv[1:]))"
    )
    assert_all_recorded(tmp_path / "home", script, EVALUATE)
