"""The command line as users run it: a process of its own, against a Prefect server that all tests share."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.process_template import ROOT, Forked, start

PIPES: Any = {
    "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
}  # fmt: skip
"""How a process of a test is started: its output is read, and it can ask for nothing."""


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON object that it must be."""
        return json.loads(self.out)

    def assert_refused(self, *said: str, code: int = 2) -> None:
        """Assert that it ended with one message, which has these parts, no traceback and no output."""
        assert (self.code, self.out) == (code, ""), self.err
        message = " ".join(self.err.rpartition("crosscheck: ")[2].split())
        assert self.err.count("crosscheck: ") == 1 and "Traceback" not in self.err, self.err
        assert [part for part in said if part not in message] == [], message


@dataclass
class CommandLine:
    """Runs `crosscheck` with a working folder of its own."""

    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: Path = ROOT

    @property
    def all_of_environment(self) -> dict[str, str]:
        """The environment of its processes."""
        ours = {"CROSSCHECK_HOME": str(self.home), "PYTHONPATH": str(ROOT)}
        return {**os.environ, **ours, **self.environment}

    def command(self, *arguments: str) -> list[str]:
        """Return the words that run a command."""
        return [sys.executable, "-m", "flows.cli", *arguments]

    def start(self, *arguments: str) -> "Forked | subprocess.Popen[str]":
        """Start a command and return its process."""
        return start_module("flows.cli", arguments, self.all_of_environment, self.cwd)

    def start_anew(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command in a Python process of its own, which imports everything, as a user's does."""
        return subprocess.Popen(self.command(*arguments), cwd=self.cwd, env=self.all_of_environment, **PIPES)

    def run(self, *arguments: str, timeout: float = 480) -> Ran:
        """Run a command to its end."""
        return finish(self.start(*arguments), timeout)


def start_module(
    module: str, arguments: Sequence[str], environment: Mapping[str, str], cwd: Path = ROOT
) -> "Forked | subprocess.Popen[str]":
    """Start `python -m module`, forked where the system has process file descriptors."""
    if hasattr(os, "pidfd_open"):
        return start(arguments, environment, cwd, module)
    return subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=cwd, env=environment, **PIPES)


def finish(process: "Forked | subprocess.Popen[str]", timeout: float = 480) -> Ran:
    """Wait for the end of a process."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        raise
    return Ran(process.returncode, out, err)


def prefect(*arguments: str, environment: Mapping[str, str]) -> Ran:
    """Run Prefect's command line in the checkout."""
    return finish(start_module("prefect", arguments, environment), timeout=200)


def end(process: "Forked | subprocess.Popen[str]", how: signal.Signals, timeout: float = 300) -> Ran:
    """Send a process a signal and wait until it is gone."""
    process.send_signal(how)
    out, err = process.communicate(timeout=timeout)
    return Ran(process.returncode, out, err)


def stop(process: "subprocess.Popen[bytes]", timeout: float = 5) -> None:
    """End a service: a worker waits for the flow runs that it started, so it is killed if it takes too long."""
    process.terminate()
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def read_until(process: "Forked | subprocess.Popen[str]", text: str) -> str:
    """Read standard error until it contains a text; return what was read."""
    assert process.stderr is not None
    read = b""
    while text.encode() not in read:
        part = os.read(process.stderr.fileno(), 65536)
        assert part, f"it ended without {text!r}: {read.decode()}"
        read += part
    return read.decode()


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a real Prefect server, the same for all tests of a session; it takes seconds to start."""
    with started_prefect_server(tmp_path_factory.mktemp("prefect-server")) as (url, _):
        yield url


@contextmanager
def started_prefect_server(home: Path) -> "Iterator[tuple[str, subprocess.Popen[str]]]":
    """Start a real Prefect server with its files in a folder; give its address, and the process that it ends with."""
    environment = {
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_LOCAL_STORAGE_PATH": str(home / "storage"),
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "storage"),
    }
    script = (
        "import sys, pathlib\n"
        "from flows.prefect.server import LocalServer\n"
        "from tasks.settings.home import Home\n"
        "with LocalServer(Home(pathlib.Path(sys.argv[1]))) as server:\n"
        "    print(server.wait(), flush=True)\n"
        "    sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(home)],
        cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdin is not None
    url = process.stdout.readline().strip()
    assert url.startswith("http"), "Prefect's server did not start"
    yield url, process
    process.stdin.close()
    process.wait(timeout=300)


@pytest.fixture(scope="session")
def built_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with the demo benchmark and an empty MLflow store, to be copied."""
    from tasks.benchmarks.demo import build_demo
    from tasks.results.mlflow.store import check, find_store
    from tasks.settings.home import Home

    home = tmp_path_factory.mktemp("built-demo")
    check(find_store(Home(home)))
    build_demo(home / "benchmarks" / "demo", sources=ROOT / "conf" / "benchmarks" / "demo")
    return home


def served(home: Path, server: str) -> CommandLine:
    """Return the command line with a working folder and the address of a Prefect server."""
    return CommandLine(
        home,
        {
            "PREFECT_API_URL": server,
            "PREFECT_HOME": str(home / "prefect"),
            "PREFECT_LOCAL_STORAGE_PATH": str(home / "prefect" / "storage"),
            "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "prefect" / "storage"),
        },
    )


@pytest.fixture
def crosscheck(tmp_path: Path, prefect_server: str) -> CommandLine:
    """The command line with an empty working folder."""
    home = tmp_path / "home"
    home.mkdir()
    return served(home, prefect_server)


def free_ports(count: int) -> list[int]:
    """Return so many ports of this machine that nobody listens on."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]


def wait_until(condition: Any, timeout: float = 300, pause: float = 0.05) -> None:
    """Wait until a condition holds; a server that is asked for it needs the longer pauses for its work."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(pause)
