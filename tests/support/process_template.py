"""Commands as processes that begin with Crosscheck's imports done: forked from a process that has imported them.

A command spends five seconds of processor time on importing Prefect and MLflow, and the suite runs some two hundred of
them. A forked command has its own process, environment, working directory, signals, output and exit code; what it does
not test is the import itself, which the tests of `answer`, `up`, the compose file and the workers do.
"""

import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO

from flows.prefect.settings import CLIENT

ROOT = Path(__file__).parents[2]
PRELOADED = (
    "flows.cli.commands.evaluate", "flows.evaluate.flow", "flows.evaluate.rerun", "flows.cli.commands.results",
    "openai",
    "mlflow.store.tracking.sqlalchemy_store", "prefect.client.orchestration", "sqlglot.optimizer", "duckdb", "pandas",
    "alembic.command", "alembic.config", "prefect.task_engine", "prefect.flow_engine", "pyarrow.pandas_compat",
    "flows.prefect.server", "flows.pipelines.dac", "flows.pipelines.rsl_sql",
    "flows.pipelines.sea_sql", "flows.runtime.summary", "flows.runtime.progress", "tasks.backbone.offline.model",
    "tasks.retrieval.demonstrations", "bm25s", "snowballstemmer", "tasks.benchmarks.demo", "flows.evaluate.run",
    "tasks.results.mlflow.tracker", "tasks.retrieval.demonstrations",
    "sqlglot.dialects.sqlite", "tasks.backbone.cache.store", "tasks.results.warehouse.views", "prefect.artifacts",
    "sqlalchemy.dialects.sqlite", "prefect.utilities.visualization",
    "tasks.backbone.replies.format", "mlflow.store.tracking.sqlalchemy_workspace_store", "anyio._backends._asyncio",
    "pydantic.v1", "tasks.results.compare", "tasks.backbone.kind", "tasks.benchmarks.layouts",
)  # fmt: skip
REGISTERED = (
    "flows.pipelines", "tasks.database.engines", "tasks.scoring.metrics",
)  # fmt: skip
"""Packages whose modules register implementations, all of which a command imports to name them."""


@dataclass
class Forked:
    """A command's process, with the methods of `subprocess.Popen` that the tests use."""

    arguments: Sequence[str]
    stdout: IO[str]
    stderr: IO[str]
    _status: socket.socket
    pid: int = 0
    returncode: int | None = None
    _read: dict[str, str] = field(default_factory=dict)

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code as soon as the process has ended."""
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(list(self.arguments), timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Return standard output and standard error when both are closed and the process has ended."""
        deadline = time.monotonic() + (timeout or 3600)
        parts: dict[IO[str], list[bytes]] = {self.stdout: [], self.stderr: []}
        waiting = set(parts)
        while waiting:
            left = deadline - time.monotonic()
            ready, _, _ = select.select(list(waiting), [], [], max(left, 0))
            if not ready:
                raise subprocess.TimeoutExpired(list(self.arguments), timeout or 0)
            for stream in ready:
                if data := os.read(stream.fileno(), 65536):
                    parts[stream].append(data)
                else:
                    waiting.discard(stream)
        self.wait(max(deadline - time.monotonic(), 1))
        return b"".join(parts[self.stdout]).decode(), b"".join(parts[self.stderr]).decode()

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            said = self._status.recv(64)
            assert said, "the process that forks commands has died"
            self.returncode = int(said)
            self._status.close()
        return self.returncode


def start(
    arguments: Sequence[str], environment: Mapping[str, str], cwd: Path, module: str = "flows.cli"
) -> Forked:
    """Start a module with these arguments; `flows.cli` is `crosscheck`."""
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    status, status_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    job = json.dumps(
        {"module": module, "arguments": [*arguments], "environment": {**environment}, "cwd": str(cwd)}
    )
    socket.send_fds(_template(), [job.encode()], [out_end, err_end, status_end.fileno()])
    for end in (out_end, err_end):
        os.close(end)
    status_end.close()
    pid = int(status.recv(64))
    streams = [os.fdopen(stream, encoding="utf-8") for stream in (out, err)]
    return Forked(arguments, streams[0], streams[1], status, pid)


@cache
def _template() -> socket.socket:
    """Return the connection to this process's template, which ends when the connection does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for side in (ours, theirs):
        side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    subprocess.Popen(
        [sys.executable, "-m", "tests.support.process_template", str(theirs.fileno())],
        cwd=ROOT, env={**os.environ, **CLIENT, "PYTHONPATH": str(ROOT)}, pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    theirs.close()
    return ours


def _become(job: dict[str, object], descriptors: list[int]) -> None:
    """Turn this forked process into the command."""
    for stream in (1, 2):
        os.dup2(descriptors[stream - 1], stream)
    for descriptor in descriptors:
        os.close(descriptor)
    # Reopened, because a text stream knows from its beginning whether it can seek.
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(job["environment"])  # type: ignore[arg-type]
    os.chdir(str(job["cwd"]))
    sys.path[0] = str(job["cwd"])
    module = str(job["module"])
    sys.argv = [module, *job["arguments"]]  # type: ignore[misc]
    random.seed()
    from prefect.context import refresh_global_settings_context

    refresh_global_settings_context()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _serve(connection: socket.socket) -> None:
    """Fork a command for each message, and tell who asked its process and its exit code."""
    asked: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for ready in select.select([connection, *asked], [], [])[0]:
            if ready is not connection:
                pid, status = asked.pop(ready)
                _, how = os.waitpid(pid, 0)
                os.close(ready)
                with suppress(OSError):
                    status.send(str(os.waitstatus_to_exitcode(how)).encode())
                status.close()
                continue
            message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
            if not message:
                return
            if (pid := os.fork()) == 0:
                for descriptor, (_, status) in asked.items():
                    os.close(descriptor)
                    status.close()
                connection.close()
                _become(json.loads(message), descriptors)
                return
            status = socket.socket(fileno=descriptors.pop())
            for descriptor in descriptors:
                os.close(descriptor)
            status.send(str(pid).encode())
            asked[os.pidfd_open(pid)] = (pid, status)


if __name__ == "__main__":
    import gc
    import importlib
    import pkgutil

    from tasks.results.mlflow.store import import_mlflow

    import_mlflow()
    for module in PRELOADED:
        importlib.import_module(module)
    for package in REGISTERED:
        for found in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(found.name)
    # What every evaluation computes once: the commands find it in these modules' caches.
    from flows.evaluate.identical_run import inputs_digest
    from tasks.stages import prompts

    prompts.check()
    inputs_digest({})
    gc.collect()
    gc.freeze()  # the commands' garbage collections pass over what is imported here
    _serve(socket.socket(fileno=int(sys.argv[1])))
