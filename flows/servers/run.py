"""What `crosscheck up` does: keeps the services running until told to stop, and says what is running."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flows.runtime.addresses import Addresses
from flows.runtime.running_servers import RunningServers, find_running_servers, holding
from flows.servers.services import answers, check_ports, services, worker_is_online
from flows.servers.supervisor import Supervisor
from tasks.settings.home import Home

TICK_S = 0.2


@dataclass(frozen=True)
class Condition:
    """Whether a service is at work.

    Attributes:
        name: which.
        up: whether it is.
        url: where a person looks at it; "" where there is nothing to see.
    """

    name: str
    up: bool
    url: str = ""


@dataclass(frozen=True)
class Checked:
    """What is running.

    Attributes:
        running: the `crosscheck up` that has the working folder; None where none has.
        addresses: where was looked.
        services: in the order in which they start.
    """

    running: RunningServers | None
    addresses: Addresses
    services: tuple[Condition, ...]

    @property
    def all_up(self) -> bool:
        """Whether everything is at work."""
        return self.running is not None and all(service.up for service in self.services)


def keep_up(home: Home, addresses: Addresses, ready: Callable[[], None], tell: Callable[[str], None]) -> None:
    """Run the services until Ctrl-C or SIGTERM; a second one ends them at once.

    Args:
        home: the working folder, with the stores.
        addresses: where the servers shall answer.
        ready: called once all of them do.
        tell: hears what happens, in one sentence each.

    Raises:
        ConfigurationError: a port is taken, or another `crosscheck up` has the working folder.
        GivenUpError: a service cannot be kept running.
    """
    with holding(home, addresses):
        check_ports(addresses)
        tell(f"Starting Prefect, MLflow and a worker. Their logs are in {home.services}.")
        with (
            Supervisor(services(home, addresses), tell) as supervisor,
            _told_to_stop(supervisor, tell) as stop,
        ):
            told = False
            while not stop.is_set():
                supervisor.tend()
                if supervisor.up and not told:
                    told = True
                    ready()
                stop.wait(TICK_S)


def check(home: Home, otherwise: Addresses) -> Checked:
    """Say what is running for a working folder.

    Args:
        home: the working folder.
        otherwise: where to look when no `crosscheck up` has it.
    """
    found = find_running_servers(home)
    addresses = found.addresses if found else otherwise
    return Checked(
        found,
        addresses,
        (
            Condition("Prefect", answers(f"{addresses.prefect_api}/health"), addresses.prefect),
            Condition("MLflow", answers(f"{addresses.mlflow}/health"), addresses.mlflow),
            Condition("worker", worker_is_online(addresses)),
        ),
    )


@contextmanager
def _told_to_stop(supervisor: Supervisor, tell: Callable[[str], None]) -> Iterator[threading.Event]:
    """Give an event that the first Ctrl-C or SIGTERM sets; the second ends the services at once."""
    stop = threading.Event()

    def on_signal(_number: int, _frame: object) -> None:
        if stop.is_set():
            supervisor.hurry()
        else:
            stop.set()
            tell("Stopping the worker and the servers (again to stop at once).")

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
        supervisor.stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
