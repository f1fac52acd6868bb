"""Runs the services of `crosscheck up`, and reports the status of running ones."""

from collections.abc import Callable
from dataclasses import dataclass

from flows.orchestration.automations import find_webhook
from flows.runtime.folder_use import require_room
from flows.runtime.running_servers import Addresses, RunningServers, exclusive_servers, find_running_servers
from flows.runtime.signals import stopped_by_signals
from flows.servers.services import answers, check_ports, services, worker_is_online
from flows.servers.supervisor import Supervisor
from tasks.settings.home import Home

UPDATE_INTERVAL_S = 0.2


@dataclass(frozen=True)
class ServiceStatus:
    """Status of one service."""

    name: str  # name of the service
    up: bool  # whether it is healthy
    url: str = ""  # address of its web page; "" if it has none


@dataclass(frozen=True)
class ServersStatus:
    """Status of all services of a working folder."""

    running: RunningServers | None  # the `crosscheck up` of the working folder; None if none is running
    addresses: Addresses  # the addresses that were checked
    services: tuple[ServiceStatus, ...]  # in the order in which they start

    @property
    def all_up(self) -> bool:
        """Whether `crosscheck up` runs and all its services are healthy."""
        return self.running is not None and all(service.up for service in self.services)


def run_servers(
    home: Home, addresses: Addresses, on_ready: Callable[[], object], report: Callable[[str], None]
) -> None:
    """Run the services until Ctrl-C or SIGTERM; a second signal kills them.

    Args:
        home: the working folder.
        addresses: addresses of the servers.
        on_ready: called once, when all services are healthy.
        report: receives one sentence per event.

    Raises:
        NoRoomError: the disk of the working folder is full or read-only.
        ConfigurationError: a port is in use, CROSSCHECK_NOTIFY has no address, or another `crosscheck up` runs for the
            working folder.
        ServiceFailedError: a service ended too often right after its start.
    """
    require_room(home)
    with exclusive_servers(home, addresses):
        check_ports(addresses)
        find_webhook()
        report(f"Starting Prefect, MLflow and a worker. Their logs are in {home.services}.")
        with (
            Supervisor(services(home, addresses), report) as supervisor,
            stopped_by_signals(
                on_first=lambda: report("Stopping the worker and the servers (again to stop at once)."),
                on_repeat=supervisor.kill,
            ) as stop,
        ):
            ready = False
            while not stop.is_set():
                supervisor.update()
                if supervisor.all_healthy and not ready:
                    ready = True
                    on_ready()
                stop.wait(UPDATE_INTERVAL_S)
            supervisor.stop()


def servers_status(home: Home, default: Addresses) -> ServersStatus:
    """Return the status of the services of a working folder; if no `crosscheck up` runs for it, at the default."""
    running = find_running_servers(home)
    addresses = running.addresses if running else default
    return ServersStatus(
        running,
        addresses,
        (
            ServiceStatus("Prefect", answers(f"{addresses.prefect_api}/health"), addresses.prefect),
            ServiceStatus("MLflow", answers(f"{addresses.mlflow}/health"), addresses.mlflow),
            ServiceStatus("worker", worker_is_online(addresses)),
        ),
    )
