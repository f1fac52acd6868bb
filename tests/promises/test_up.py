"""`crosscheck up` when a port is taken, a server dies, or the terminal closes; the real servers are in tests/flows."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from flows.prefect import up
from flows.prefect.up import Service, ServiceFailedError, stopping
from tests.support import in_process
from tests.support.command_line import ROOT, free_ports, wait_until
from tests.support.counting import Count

pytestmark = pytest.mark.slow

SLEEPS = "import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'a'), flush=True); time.sleep(3600)"
PROGRAM = """
import os, pathlib, sys
from flows.runtime.folder_use import Addresses
from flows.prefect import up
from tasks.settings.home import Home
folder = pathlib.Path(sys.argv[1])
command = (sys.executable, "-c", sys.argv[2], str(folder / "pids"))
up.services = lambda home, addresses: (
    up.Service("thing", command, dict(os.environ), folder / "thing.log", (folder / "pids").exists),
)
say = lambda text: print(text, flush=True)
up.run_servers(Home(folder), Addresses(int(sys.argv[3]), int(sys.argv[4])), lambda: say("ready"), say)
"""
ENDS = {signal.SIGTERM: 0, signal.SIGHUP: 0, signal.SIGKILL: -signal.SIGKILL}


def pids(folder: Path) -> list[int]:
    path = folder / "pids"
    return [int(line) for line in path.read_text().split("\n") if line] if path.exists() else []


def start(folder: Path, ports: list[int]) -> "subprocess.Popen[str]":
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", PROGRAM, str(folder), SLEEPS, *map(str, ports)]
    return subprocess.Popen(
        words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=not_under_nohup
    )


def not_under_nohup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def until(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"it ended without {text!r}")


@pytest.mark.promise("up")
def test_taken_chosendying_servers_and_closing_terminals_are_survived_or_said(
    tmp_path: Path, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, *ports = free_ports(8)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        refused = (
            (first, second, (f"Port {first}", "--prefect-port")),
            (second, first, (f"Port {first}", "--mlflow-port")),
            (1, 1, ("need two ports",)),
        )
        for prefect, mlflow, named in refused:
            with count.fault(f"ports {prefect} and {mlflow}"):
                chosen = ("--prefect-port", str(prefect), "--mlflow-port", str(mlflow))
                ran = in_process.run("up", "--home", str(tmp_path / "x"), *chosen)
                ran.assert_refused(*named)
    running = {
        how: start(tmp_path / how.name, ports[2 * place : 2 * place + 2]) for place, how in enumerate(ENDS)
    }
    for how, process in running.items():
        folder = tmp_path / how.name
        until(process, "ready")
        if how == signal.SIGTERM:
            with count.fault("a server is killed"):
                os.kill(pids(folder)[0], signal.SIGKILL)
                until(process, "was killed by signal 9")
                wait_until(lambda folder=folder: len(pids(folder)) == 2)
        with count.fault(how.name):
            process.send_signal(how)
            assert process.wait(300) == ENDS[how]
            wait_until(lambda folder=folder: not any(psutil.pid_exists(pid) for pid in pids(folder)))
    with count.fault("a server that always ends"), monkeypatch.context() as patch:
        patch.setattr(up, "RESTART_DELAY_S", 0.01)
        patch.setattr(up, "EARLY_EXIT_S", 3600.0)
        words = (sys.executable, "-S", "-c", "print('no space left'); raise SystemExit(7)")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        thing = Service("thing", words, environment, tmp_path / "thing.log", lambda: True)
        said: list[str] = []
        with (
            pytest.raises(ServiceFailedError, match=r"not started again(.|\n)*no space left") as ended,
            stopping([thing]),
        ):
            wait_until(lambda: thing.update(said.append) and False)
        assert str(thing.log) in str(ended.value)
        restarts = [text for text in said if "is ready" not in text]
        assert len(restarts) == up.MAX_EARLY_EXITS - 1 and "status 7" in restarts[0]


def test_the_end_of_a_long_run_is_no_early_exit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (sys.executable, "-S", "-c", "")
    thing = Service("thing", words, dict(os.environ), tmp_path / "log", is_healthy=lambda: False)
    monkeypatch.setattr(up, "RESTART_DELAY_S", 0.01)
    counts: list[int] = []

    def has_ended(times: int) -> bool:
        thing.update(lambda _: counts.append(thing.early_exits))
        return len(counts) == times

    for times, early_exit_s in enumerate((3600.0, 0.0, 3600.0), 1):
        monkeypatch.setattr(up, "EARLY_EXIT_S", early_exit_s)
        wait_until(lambda times=times: has_ended(times))  # type: ignore[misc]
    assert counts == [1, 0, 1]
