"""`crosscheck up`."""

import os
import sys
from dataclasses import dataclass
from typing import Any

import click

from flows.cli import options
from tasks.core.errors import ExitCode

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


@click.command(
    "up",
    epilog="\b\nExamples:\n"
    "  crosscheck up\n"
    "  crosscheck up --prefect-port 4300 --mlflow-port 5300\n"
    "\n`crosscheck nights` schedules the nightly runs; deployments/README.md explains how to operate them.\n"
    "\nExit codes: 0 stopped; 1 one of them keeps ending; 2 bad input: a port is in use, or `crosscheck up` already\n"
    "runs for this folder; 3 the disk of the working folder is full or read-only.",
)
@options.record(UpOptions)
def command(up_options: UpOptions) -> int:
    """Run Prefect's server, MLflow's server and a worker for nightly runs, until Ctrl-C.

    Their data is in the working folder. The servers accept connections from this machine only, because they have no
    passwords. A service that ends unexpectedly is started again. The worker takes runs from the work pool "nightly".
    """
    from flows.prefect.up import POOL, run_servers
    from flows.runtime.folder_use import Addresses

    addresses = Addresses(up_options.prefect_port, up_options.mlflow_port)
    exports = "\n".join(f"  export {name}={value}" for name, value in addresses.environment.items())
    ports = " ".join(
        f"-L {port}:127.0.0.1:{port}" for port in (addresses.prefect_port, addresses.mlflow_port)
    )
    greeting = (
        f"\nPrefect  {addresses.prefect}\n"
        f"MLflow   {addresses.mlflow}\n"
        f'worker   takes runs from the work pool "{POOL}"\n\n'
        f"To record evaluations of another shell here, set there\n{exports}\n"
        "To deploy nightly runs: crosscheck nights init, then crosscheck nights deploy\n\n"
        "Neither server requires authentication: anyone who can connect to a port can read and change all data,\n"
        f"and start flows here. From another machine, use a tunnel: ssh {ports} THIS-MACHINE\n\n"
        "Ctrl-C stops all three."
    )
    status: dict[str, Any] = {
        "pid": os.getpid(),
        "prefect": addresses.prefect,
        "mlflow": addresses.mlflow,
        "environment": addresses.environment,
    }

    def show() -> None:
        up_options.emit(status, lambda stream: click.echo(greeting, stream))
        sys.stdout.flush()

    run_servers(up_options.folder, addresses, show, lambda text: click.echo(text, err=True))
    return ExitCode.DONE
