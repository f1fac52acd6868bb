"""Prefect's server, MLflow's server and a worker on the working folder's stores: started in order, restarted, ended."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from flows.prefect.automations import find_webhook
from flows.prefect.prefect_app import local_origins
from flows.prefect.settings import SERVER, local_settings
from flows.runtime.folder_use import LOCALHOST, Addresses, exclusive_servers, require_room
from flows.runtime.signals import stopped_by_signals
from tasks.core.errors import ConfigurationError, CrosscheckError
from tasks.results.mlflow import own_server, store
from tasks.settings.home import Home

POOL = "nightly"
WORKER = {
    # Logs of task runs repeat their states and would fill the log of a nightly run.
    "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL": "WARNING",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}
UPDATE_INTERVAL_S = 0.2
HEALTH_TIMEOUT_S = 5.0
EARLY_EXIT_S = 20.0
"""A service that ends sooner after its start has exited early."""
MAX_EARLY_EXITS = 5
"""A service with this many early exits in a row has failed."""
RESTART_DELAY_S = 2.0
MAX_LOG_BYTES = 20_000_000
_PYTHON = (sys.executable, "-P", "-m")


class ServiceFailedError(CrosscheckError):
    """A service ended too often right after its start."""

    exit_code = 1


@dataclass
class Service:
    """Process that `crosscheck up` keeps running."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)  # the whole environment of the process
    log: Path
    is_healthy: Callable[[], bool] = field(repr=False)
    after: "Service | None" = None  # the service that must be healthy before this one starts
    process: "subprocess.Popen[bytes] | None" = None
    changed_at: float = 0.0  # when it last started or ended, by the monotonic clock
    healthy: bool = False  # whether it has been healthy since its start
    early_exits: int = 0  # early exits in a row

    def update(self, report: Callable[[str], None]) -> bool:
        """Start the process, or start it again if it has ended; return whether it is healthy."""
        elapsed = time.monotonic() - self.changed_at
        self._shorten_log()
        if self.process is None:
            if elapsed >= RESTART_DELAY_S and (self.after is None or self.after.healthy):
                self._start()
        elif (status := self.process.poll()) is not None:
            report(self._note_end(self.process, status, elapsed))
        elif not self.healthy and self.is_healthy():
            self.healthy = True
            report(f"{self.name[0].upper()}{self.name[1:]} is ready after {elapsed:.0f} s.")
        return self.healthy

    def stop(self) -> None:
        """Request the end of the process, and wait for it."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait()

    def _shorten_log(self) -> None:
        """Copy a log that is too large to `.log.1`, and empty it: the process goes on appending to it."""
        with suppress(OSError):  # no log yet, or a full disk
            if self.log.stat().st_size > MAX_LOG_BYTES:
                shutil.copyfile(self.log, self.log.with_suffix(".log.1"))
                os.truncate(self.log, 0)

    def _start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - this project's module around this project's command
                [*_PYTHON, "flows.prefect.process_tree", *self.command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A session of its own: Ctrl-C reaches this process only, which stops the services in order.
                start_new_session=True,
                env=dict(self.environment),
            )
        self.changed_at = time.monotonic()

    def _note_end(self, process: "subprocess.Popen[bytes]", status: int, uptime: float) -> str:
        # If the wrapper itself was killed, its command is still in its process group and holds the port.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self.process = None
        self.healthy = False
        self.changed_at = time.monotonic()
        self.early_exits = self.early_exits + 1 if uptime < EARLY_EXIT_S else 0
        if self.early_exits >= MAX_EARLY_EXITS:
            last_lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
            raise ServiceFailedError(
                f"{self.name} ended {self.early_exits} times within {EARLY_EXIT_S:g} s of its start and is not started "
                f"again. Its log, {self.log}, ends with:\n" + "\n".join(f"  {line}" for line in last_lines)
            )
        signal_number = -status if status < 0 else status - 128  # the wrapper ends with 128 + n for signal n
        how = f"was killed by signal {signal_number}" if signal_number > 0 else f"ended with status {status}"
        return f"{self.name} {how} after {uptime:.0f} s; it starts again. Its log: {self.log}"


@contextmanager
def stopping(services: Sequence[Service]) -> Iterator[None]:
    """Stop services at the end, in reverse order."""
    try:
        yield
    finally:
        for service in reversed(services):
            service.stop()


def run_servers(
    home: Home, addresses: Addresses, on_ready: Callable[[], object], report: Callable[[str], None]
) -> None:
    """Run the services until Ctrl-C or SIGTERM; `report` gets a sentence per event."""
    require_room(home)
    with exclusive_servers(home, addresses):
        check_ports(addresses)
        find_webhook()  # an address that is not valid is an error before anything is started
        report(f"Starting Prefect, MLflow and a worker. Their logs are in {home.services}.")
        all_services = services(home, addresses)
        ready = False
        with (
            stopped_by_signals(lambda: report("Stopping the worker and the servers.")) as stop,
            stopping(all_services),
        ):
            while not stop.wait(UPDATE_INTERVAL_S):
                healthy = [service.update(report) for service in all_services]
                if all(healthy) and not ready:
                    ready = True
                    on_ready()


def services(home: Home, addresses: Addresses) -> tuple[Service, ...]:
    """Return the services, in the order in which they start."""
    environment = _environment(home)  # the user's variables, which replace values to their left
    prefect = Service(
        name="Prefect",
        command=(*_PYTHON, "flows.prefect.prefect_app", str(addresses.prefect_port)),
        environment={"PREFECT_UI_URL": addresses.prefect}
        | local_origins(addresses.prefect_port)
        | environment
        | {"PREFECT_UI_API_URL": addresses.prefect_api},
        log=home.services / "prefect.log",
        is_healthy=partial(_answers, f"{addresses.prefect_api}/health"),
    )
    mlflow_store = store.Store(home.mlflow_uri, home.path / "mlartifacts")
    options = store.server_options(mlflow_store, addresses.mlflow_port)
    mlflow = Service(
        name="MLflow",
        command=(*_PYTHON, own_server.__name__, *options, "--host", LOCALHOST),
        environment=own_server.origins(addresses.mlflow_port) | environment | store.SERVER,
        log=home.services / "mlflow.log",
        is_healthy=partial(_answers, f"{addresses.mlflow}/health"),
    )
    name = f"crosscheck-{socket.gethostname()}"
    start = ("prefect", "worker", "start", "--pool", POOL, "--type", "process", "--name", name)
    worker = Service(
        name="worker",
        command=(*_PYTHON, "flows.prefect.automations", sys.executable, "-m", *start),
        environment=WORKER | environment | addresses.environment,
        log=home.services / "worker.log",
        is_healthy=partial(_worker_is_online, addresses, name),
        after=prefect,
    )
    return prefect, mlflow, worker


def check_ports(addresses: Addresses) -> None:
    """Check that the ports of Prefect and MLflow differ and are free."""
    ports = {"--prefect-port": addresses.prefect_port, "--mlflow-port": addresses.mlflow_port}
    if addresses.prefect_port == addresses.mlflow_port:
        raise ConfigurationError("--prefect-port and --mlflow-port are the same; two servers need two ports.")
    for option, port in ports.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOCALHOST, port))
            except OSError as error:
                raise ConfigurationError(
                    f"Port {port} of {LOCALHOST} cannot be used ({error.strerror}). Stop the program that uses it, "
                    f"or name another port with {option}."
                ) from error


def _environment(home: Home) -> dict[str, str]:
    """Return the environment of a service: defaults, overridden by the user's variables except those naming servers."""
    servers = ("PREFECT_API_URL", "MLFLOW_TRACKING_URI")
    user = {name: value for name, value in os.environ.items() if name not in servers}
    defaults = {**local_settings(home), **SERVER, "PREFECT_CLI_PROMPT": "false"}
    return {**defaults, **user, "CROSSCHECK_HOME": str(home.path), "PYTHONUNBUFFERED": "1"}


def _answers(url: str) -> bool:
    import httpx

    try:
        return httpx.get(url, timeout=HEALTH_TIMEOUT_S).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def _worker_is_online(addresses: Addresses, name: str) -> bool:
    import httpx

    url = f"{addresses.prefect_api}/work_pools/{POOL}/workers/filter"
    try:
        response = httpx.post(url, json={}, timeout=HEALTH_TIMEOUT_S)
        workers = response.json() if response.status_code == httpx.codes.OK else []
    except (httpx.HTTPError, ValueError):
        return False
    return any(worker["name"] == name and worker["status"] == "ONLINE" for worker in workers)
