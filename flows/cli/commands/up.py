"""`crosscheck up`."""

import os
import sys
from typing import Annotated, Any

import click
from annotated_types import Ge, Le

from flows.cli import options
from tasks.core.errors import ExitCode


class Up(options.Output):
    """Run Prefect's server, MLflow's server and a worker for nightly runs, until Ctrl-C.

    Their data is in the working folder. The servers accept connections from this machine only, because they have no
    passwords. A service that ends unexpectedly is started again. The worker takes runs from the work pool "nightly".

    Examples:
      crosscheck up
      crosscheck up --prefect-port 4300 --mlflow-port 5300

    `crosscheck nights` schedules the nightly runs; deployments/README.md explains how to operate them.

    Exit codes: 0 stopped; 1 one of them keeps ending; 2 bad input: a port is in use, or `crosscheck up` already
    runs for this folder; 3 the disk of the working folder is full or read-only.
    """

    prefect_port: Annotated[int, options.Metavar("PORT"), Ge(1), Le(65535)] = 4200
    """Port of Prefect's server."""
    mlflow_port: Annotated[int, options.Metavar("PORT"), Ge(1), Le(65535)] = 5000
    """Port of MLflow's server."""

    def __call__(self) -> int:
        from flows.prefect.up import POOL, run_servers
        from flows.runtime.folder_use import Addresses

        addresses = Addresses(self.prefect_port, self.mlflow_port)
        exports = "\n".join(f"  export {name}={value}" for name, value in addresses.environment.items())
        ports = " ".join(f"-L {port}:127.0.0.1:{port}" for port in (self.prefect_port, self.mlflow_port))
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
            self.emit(status, greeting)
            sys.stdout.flush()

        run_servers(self.folder, addresses, show, lambda text: click.echo(text, err=True))
        return ExitCode.DONE
