"""Keeping processes running, with real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from flows.prefect.up import Service, stopping
from flows.runtime.signals import stopped_by_signals
from tests.support.command_line import ROOT, wait_until

pytestmark = pytest.mark.slow


def service(tmp_path: Path, script: str, **changes: object) -> Service:
    plain = {
        "name": "thing",
        "command": (sys.executable, "-c", script),
        "environment": {**os.environ, "PYTHONPATH": str(ROOT)},
        "log": tmp_path / "thing.log",
        "is_healthy": lambda: True,
    }
    return Service(**(plain | changes))


def update_until(
    condition: Callable[[], bool], *services: Service, report: Callable[[str], None] = print
) -> None:
    def updated() -> bool:
        for service in services:
            service.update(report)
        return condition()

    wait_until(updated, pause=0.02)


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_it_is_said_when_a_service_is_ready(tmp_path: Path) -> None:
    reported: list[str] = []
    sleeping = service(tmp_path, "import time; time.sleep(600)")
    with stopping([sleeping]):
        update_until(lambda: sleeping.healthy, sleeping, report=reported.append)
        sleeping.update(reported.append)
    assert [text.partition(" after ")[0] for text in reported] == ["Thing is ready"]


def test_a_service_starts_only_when_the_one_it_needs_is_healthy(tmp_path: Path) -> None:
    sleeping = "import time; time.sleep(3600)"
    first = service(tmp_path, sleeping, name="first", is_healthy=(tmp_path / "ready").exists)
    touching = f"import pathlib; pathlib.Path({str(tmp_path / 'second')!r}).touch(); {sleeping}"
    second = service(tmp_path, touching, name="second", after=first)
    with stopping([first, second]):
        for _ in range(40):
            first.update(print)
            second.update(print)
            time.sleep(0.02)
        assert not (tmp_path / "second").exists()
        (tmp_path / "ready").touch()
        update_until((tmp_path / "second").exists, first, second)


@pytest.mark.skipif(
    sys.platform != "linux", reason="orphans in sessions of their own are only found on Linux"
)
@pytest.mark.parametrize("how", ["standard input closes", "the command ends"])
def test_nothing_outlives_a_process_tree_not_even_an_orphan_with_a_session_of_its_own(
    tmp_path: Path, how: str
) -> None:
    pids = tmp_path / "pids"
    orphan = (
        f"import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}} '); time.sleep(3600)"
    )
    middle = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {orphan!r}], start_new_session=True)"
    begun = f"pathlib.Path({str(pids)!r}).exists()"
    child = (
        f"import subprocess, sys, time, pathlib\nsubprocess.run([sys.executable, '-c', {middle!r}])\n"
        f"while {'True' if how == 'standard input closes' else f'not {begun}'}: time.sleep(0.1)"
    )
    wrapper = subprocess.Popen(
        [sys.executable, "-c",
         "import flows.prefect.process_tree as p, sys; p.GRACE_PERIOD_S = 0.3; sys.exit(p.run(sys.argv[1:]))",
         sys.executable, "-c", child],
        cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    wait_until(lambda: pids.exists() and bool(pids.read_text()))
    (pid,) = map(int, pids.read_text().split())
    assert alive(pid)
    if how == "standard input closes":
        wrapper.stdin.close()
    assert wrapper.wait(timeout=300) == (0 if how == "the command ends" else 128 + 15)
    wait_until(lambda: not alive(pid))


def test_a_log_that_grows_large_is_emptied_while_the_service_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.prefect.up.MAX_LOG_BYTES", 10_000)
    script = (
        "import itertools, time\nfor n in itertools.count():\n    print(n, flush=True); time.sleep(0.0005)"
    )
    thing, earlier = service(tmp_path, script), tmp_path / "thing.log.1"
    thing.log.write_text("of an earlier start\n" * 1000)
    with stopping([thing]):
        update_until(lambda: earlier.exists() and "earlier start" in earlier.read_text(), thing)
        update_until(lambda: "earlier start" not in earlier.read_text(), thing)
        process = thing.process
        assert process is not None and process.poll() is None
        size = thing.log.stat().st_size
        update_until(lambda: thing.log.stat().st_size != size, thing)
    assert "\0" not in thing.log.read_text()


def test_a_log_that_cannot_be_copied_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.prefect.up.MAX_LOG_BYTES", 10)
    thing = service(tmp_path, "import time; time.sleep(3600)")
    thing.log.write_text("old and long enough")
    (tmp_path / "thing.log.1").mkdir()
    with stopping([thing]):
        update_until(lambda: thing.healthy, thing)
    assert thing.log.read_text() == "old and long enough"


def test_under_nohup_a_closing_terminal_stops_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopped_by_signals() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.is_set() and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
