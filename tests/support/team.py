"""A team's machines, as processes: a Prefect server, workers with homes of their own, stores that all of them share."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from flows.prefect.settings import SERVER
from flows.prefect.up import POOL, WORKER
from tests.support.command_line import ROOT, CommandLine, prefect, wait_until
from tests.support.processes import processes_of
from tests.support.schedule import ask

OFTEN = {"PREFECT_WORKER_QUERY_SECONDS": "2"}
"""Environment of a worker that asks for flow runs often enough for a test."""
UNFINISHED = ["SCHEDULED", "PENDING", "RUNNING", "CANCELLING"]


@dataclass
class Team:
    """Processes that know each other by a Prefect server and by shared stores alone.

    Attributes:
        folder: below it each machine has a home of its own.
        port: of Prefect's server.
        database: Prefect's database, as SQLAlchemy names it.
        stores: environment that names the shared stores.
    """

    folder: Path
    port: int
    database: str
    stores: Mapping[str, str]
    _processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    def home(self, machine: str) -> Path:
        return self.folder / machine

    def environment(self, machine: str, **more: str) -> dict[str, str]:
        home = self.home(machine)
        ours = {
            "CROSSCHECK_HOME": str(home),
            "PREFECT_HOME": str(home / "prefect"),
            "PREFECT_API_URL": self.api,
            "PWD": str(ROOT),
        }
        return {**os.environ, **WORKER, **OFTEN, **ours, **self.stores, **more}

    def shell(self, machine: str, **more: str) -> CommandLine:
        """The command line on one of the machines."""
        return CommandLine(self.home(machine), self.environment(machine, **more))

    def start_server(self) -> None:
        address = ("--host", "127.0.0.1", "--port", str(self.port))
        ours = {**SERVER, "PREFECT_API_DATABASE_CONNECTION_URL": self.database}
        self._start("server", ("server", "start", *address), ours)
        wait_until(self._answers)

    def deploy(self) -> None:
        """Deploy what prefect.yaml lists, with the command that it names."""
        self.post("/work_pools/", {"name": POOL, "type": "process"})
        words = ("--no-prompt", "deploy", "--all", "--prefect-file", "deployments/prefect.yaml")
        ran = prefect(*words, environment=self.environment("server"))
        assert ran.code == 0, ran.out + ran.err

    def start_worker(self, machine: str, **more: str) -> None:
        options = ("--pool", POOL, "--type", "process", "--name", machine, "--limit", "2")
        self._start(machine, ("worker", "start", *options), more)
        wait_until(lambda: self._is_online(machine))

    def lose(self, machine: str) -> None:
        """Kill every process of a machine at once."""
        for number in processes_of(self.home(machine)):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self._processes.pop(machine).wait(timeout=300)

    def stop(self) -> None:
        for machine in list(self._processes):
            self.lose(machine)

    def post(self, path: str, body: Any) -> Any:
        return ask(f"{self.api}{path}", body)

    def flow_runs(self, *states: str) -> list[dict[str, Any]]:
        """Flow runs in one of these states; all of them where none is named."""
        chosen = {"flow_runs": {"state": {"type": {"any_": list(states)}}}} if states else {}
        found: list[dict[str, Any]] = self.post("/flow_runs/filter", chosen)
        return [run for run in found if not run["auto_scheduled"]]

    def log(self, machine: str) -> str:
        return (self.folder / f"{machine}.log").read_text(encoding="utf-8", errors="replace")

    def _start(self, machine: str, words: tuple[str, ...], more: Mapping[str, str]) -> None:
        self.home(machine).mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{machine}.log").open("ab") as log:
            self._processes[machine] = subprocess.Popen(
                [sys.executable, "-m", "prefect", *words],
                cwd=ROOT, env=self.environment(machine, **more), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def _answers(self) -> bool:
        time.sleep(0.2)
        with suppress(httpx.HTTPError):
            return bool(ask(f"{self.api}/health"))
        return False

    def _is_online(self, machine: str) -> bool:
        time.sleep(0.2)
        found = self.post(f"/work_pools/{POOL}/workers/filter", {})
        return any(worker["name"] == machine and worker["status"] == "ONLINE" for worker in found)
