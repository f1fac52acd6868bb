"""`crosscheck up`."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from flows.cli import options
from flows.report.exit_codes import ExitCode

if TYPE_CHECKING:
    from flows.runtime.running_servers import Addresses
    from flows.servers.status import ServersStatus
    from tasks.settings.home import Home

PORT = click.IntRange(1, 65535)


@dataclass(frozen=True, kw_only=True)
class UpOptions(options.Output):
    """Options of `crosscheck up`."""

    prefect_port: int = options.option(
        "--prefect-port", type=PORT, metavar="PORT", default=4200, help="Port of Prefect's server."
    )
    mlflow_port: int = options.option(
        "--mlflow-port", type=PORT, metavar="PORT", default=5000, help="Port of MLflow's server."
    )
    only_check: bool = options.flag("--check", "Show which of the three are running; start nothing.")


@click.command(
    "up",
    epilog="\b\nExamples:\n"
    "  crosscheck up\n"
    "  crosscheck up --prefect-port 4300 --mlflow-port 5300\n"
    "  crosscheck up --check\n"
    "\n`crosscheck nights` schedules the nightly runs; deployments/README.md explains how to operate them.\n"
    "\nExit codes: 0 stopped, or with --check: all three are running; 1 one of them keeps ending, or with\n"
    "--check: one is not running; 2 bad input: a port is in use, or `crosscheck up` already runs for this folder;\n"
    "3 the disk of the working folder is full or read-only.",
)
@options.record(UpOptions)
def command(given: UpOptions) -> int:
    """Run Prefect's server, MLflow's server and a worker for nightly runs, until Ctrl-C.

    Their data is in the working folder. The servers accept connections from this machine only, because they have no
    passwords. A service that ends unexpectedly is started again. The worker takes runs from the work pool "nightly".
    """
    from flows.runtime.running_servers import Addresses
    from flows.servers.status import run_servers, servers_status

    folder, addresses = given.folder, Addresses(given.prefect_port, given.mlflow_port)

    def show(text: str) -> "ServersStatus":
        status = servers_status(folder, addresses)
        given.emit(_as_object(status), lambda stream: click.echo(text or _as_text(status, folder), stream))
        sys.stdout.flush()
        return status

    if given.only_check:
        return ExitCode.DONE if show("").all_up else ExitCode.NEGATIVE

    greeting = _greeting(addresses, folder)
    run_servers(folder, addresses, lambda: show(greeting), lambda text: click.echo(text, err=True))
    return 0


def _greeting(addresses: "Addresses", folder: "Home") -> str:
    from flows.servers.services import POOL, mlflow_page

    exports = "\n".join(f"  export {name}={value}" for name, value in addresses.environment.items())
    return (
        f"\nPrefect  {addresses.prefect}\n"
        f"MLflow   {mlflow_page(folder, addresses)}\n"
        f'worker   takes runs from the work pool "{POOL}"\n\n'
        f"To record evaluations of another shell here, set there\n{exports}\n"
        "To deploy nightly runs: crosscheck nights init, then crosscheck nights deploy\n\n"
        "Neither server has authentication: whoever can connect to its port can read and change all its data,\n"
        "and start flows here. From another machine, use a tunnel: ssh -L "
        f"{addresses.prefect_port}:127.0.0.1:{addresses.prefect_port} -L "
        f"{addresses.mlflow_port}:127.0.0.1:{addresses.mlflow_port} THIS-MACHINE\n\n"
        "Ctrl-C stops all three."
    )


def _as_text(status: "ServersStatus", home: "Home") -> str:
    lines = [
        f"{service.name:8} {'up' if service.up else 'not running':12} {service.url}".rstrip()
        for service in status.services
    ]
    if status.running is None:
        lines.append(f'No "crosscheck up" is running for {home.path}.')
    return "\n".join(lines)


def _as_object(status: "ServersStatus") -> dict[str, object]:
    return {
        "all_up": status.all_up,
        "pid": status.running.pid if status.running else None,
        "services": [
            {"name": service.name, "up": service.up, "url": service.url or None}
            for service in status.services
        ],
        "environment": status.addresses.environment,
    }
