"""Services of `crosscheck up`: Prefect's server, MLflow's server and a worker, on the working folder's stores."""

import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from flows.orchestration.prefect_app import local_origins
from flows.orchestration.settings import SERVER, local_settings
from flows.runtime.running_servers import LOCALHOST, Addresses
from tasks.core.errors import ConfigurationError, CrosscheckError
from tasks.settings.home import Home
from tasks.tracking.mlflow import store
from tasks.tracking.warehouse.runs import Warehouse

POOL = "nightly"
HEALTH_TIMEOUT_S = 5.0
_SHUTDOWN_DELAY_S = 8.0

WORKER = {
    # Logs of task runs repeat their states and would fill the log of a nightly run.
    "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL": "WARNING",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}


@dataclass(frozen=True)
class Service:
    """Process that `crosscheck up` keeps running."""

    name: str  # shown to users: "Prefect", "MLflow", "worker"
    command: tuple[str, ...]  # program and arguments
    environment: Mapping[str, str] = field(repr=False)  # the whole environment of the process
    log: Path  # file for its output
    is_healthy: Callable[[], bool] = field(repr=False)  # health check
    after: str = ""  # name of the service that must be healthy before this one starts; "": none
    # seconds that it continues after `crosscheck up` was killed, so that the other services can report their end to
    # it
    shutdown_delay_s: float = 0.0


def worker_name() -> str:
    """Return the name of this machine's worker in Prefect."""
    return f"crosscheck-{socket.gethostname()}"


def check_ports(addresses: Addresses) -> None:
    """Check that the ports are free.

    Raises:
        ConfigurationError: a port is in use, or both are the same.
    """
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


def services(home: Home, addresses: Addresses) -> tuple[Service, ...]:
    """Return the services, in the order in which they start."""
    prefect = _prefect_server(home, addresses)
    return prefect, _mlflow_server(home, addresses), _worker(home, addresses)


def answers(url: str) -> bool:
    """Return whether a GET request succeeds."""
    import httpx

    try:
        return httpx.get(url, timeout=HEALTH_TIMEOUT_S).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def worker_is_online(addresses: Addresses) -> bool:
    """Return whether Prefect lists this machine's worker as online."""
    import httpx

    try:
        response = httpx.post(
            f"{addresses.prefect_api}/work_pools/{POOL}/workers/filter", json={}, timeout=HEALTH_TIMEOUT_S
        )
        found = response.json() if response.status_code == httpx.codes.OK else []
    except (httpx.HTTPError, ValueError):
        return False
    return any(worker["name"] == worker_name() and worker["status"] == "ONLINE" for worker in found)


def _prefect_server(home: Home, addresses: Addresses) -> Service:
    serving = ("-P", "-m", "flows.orchestration.prefect_app", str(addresses.prefect_port))
    return Service(
        name="Prefect",
        command=(sys.executable, *serving),
        environment={"PREFECT_UI_URL": addresses.prefect}
        | local_origins(addresses.prefect_port)
        | _environment(home)
        | {"PREFECT_UI_API_URL": addresses.prefect_api},
        log=home.services / "prefect.log",
        is_healthy=partial(answers, f"{addresses.prefect_api}/health"),
        shutdown_delay_s=_SHUTDOWN_DELAY_S,
    )


def mlflow_page(home: Home, addresses: Addresses) -> str:
    """Return the address of the view of the latest run's benchmark in MLflow; of MLflow where there is no such run."""
    served = store.Store(addresses.mlflow)
    try:
        latest = next(iter(Warehouse(home.warehouse, wait_s=0).finished_runs()), None)
    except CrosscheckError:  # another process has it
        latest = None
    logged = latest.record.mlflow if latest else None
    if not logged or logged.tracking_uri not in (home.mlflow_uri, served.uri) or not logged.experiment_id:
        return served.uri
    return store.ui_url(served, logged.experiment_id)


def _mlflow_server(home: Home, addresses: Addresses) -> Service:
    embedded = store.Store(home.mlflow_uri, home.path / "mlartifacts")
    return Service(
        name="MLflow",
        command=(*store.server_words(embedded, addresses.mlflow_port), "--host", LOCALHOST),
        environment=_environment(home) | store.SERVER,
        log=home.services / "mlflow.log",
        is_healthy=partial(answers, f"{addresses.mlflow}/health"),
        shutdown_delay_s=_SHUTDOWN_DELAY_S,
    )


def _worker(home: Home, addresses: Addresses) -> Service:
    options = ("--pool", POOL, "--type", "process", "--name", worker_name())
    notifying = (sys.executable, "-P", "-m", "flows.orchestration.automations")
    return Service(
        name="worker",
        command=(*notifying, sys.executable, "-m", "prefect", "worker", "start", *options),
        environment=WORKER | _environment(home) | addresses.environment,
        log=home.services / "worker.log",
        is_healthy=partial(worker_is_online, addresses),
        after="Prefect",
    )


def _environment(home: Home) -> dict[str, str]:
    """Return the environment of a service: defaults, overridden by the user's variables except those naming servers."""
    servers = ("PREFECT_API_URL", "MLFLOW_TRACKING_URI")
    user = {name: value for name, value in os.environ.items() if name not in servers}
    defaults = {**local_settings(home), **SERVER, "PREFECT_CLI_PROMPT": "false"}
    return {**defaults, **user, "CROSSCHECK_HOME": str(home.path), "PYTHONUNBUFFERED": "1"}
