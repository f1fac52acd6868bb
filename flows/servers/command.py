"""`crosscheck up`."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from flows.cli import options
from flows.cli.output import emit

if TYPE_CHECKING:
    from flows.runtime.addresses import Addresses
    from flows.servers.run import Checked
    from tasks.settings.home import Home

NOT_UP = 1
PORT = click.IntRange(1, 65535)


@dataclass(frozen=True, kw_only=True)
class UpOptions(options.Output):
    """Options of `crosscheck up`."""

    prefect_port: int = options.option(
        "--prefect-port", type=PORT, default=4200, show_default=True, help="Port of Prefect's server."
    )
    mlflow_port: int = options.option(
        "--mlflow-port", type=PORT, default=5000, show_default=True, help="Port of MLflow's server."
    )
    only_check: bool = options.option("--check", is_flag=True, help="Say what is running, and start nothing.")


@click.command(
    "up",
    epilog="\b\nExamples:\n"
    "  crosscheck up\n"
    "  crosscheck up --prefect-port 4300 --mlflow-port 5300\n"
    "  crosscheck up --check\n"
    "\b\nWhat a night evaluates is in deployments/prefect.yaml; deployments/README.md says how to operate it.\n"
    "\b\nExit codes: 0 stopped, or with --check all is running; 1 something cannot be kept running, or with --check\n"
    "is not; 2 bad input: a port is taken, or this working folder is already served.",
)
@options.record(UpOptions)
def command(given: UpOptions) -> int:
    """Keep Prefect's server, MLflow's server and a worker for the nights running, until Ctrl-C.

    They keep what they know in the working folder, answer on this machine only, and are started again when they
    end unexpectedly. The worker serves Prefect's work pool "nightly".
    """
    from flows.runtime.addresses import Addresses
    from flows.servers.run import check, keep_up

    folder, addresses = given.folder, Addresses(given.prefect_port, given.mlflow_port)

    def show(text: str) -> "Checked":
        checked = check(folder, addresses)
        emit(
            _as_object(checked),
            lambda stream: click.echo(text or _as_text(checked, folder), stream),
            as_json=given.as_json,
            text_too=False,
        )
        sys.stdout.flush()
        return checked

    if given.only_check:
        return 0 if show("").all_up else NOT_UP

    def ready() -> None:
        show(_greeting(addresses, folder))

    keep_up(folder, addresses, ready, lambda text: click.echo(text, err=True))
    return 0


def _greeting(addresses: "Addresses", home: "Home") -> str:
    from flows.servers.services import POOL

    exports = "\n".join(f"  export {name}={value}" for name, value in addresses.environment.items())
    return (
        f"\nPrefect  {addresses.prefect}\n"
        f"MLflow   {addresses.mlflow}\n"
        f'worker   serves the work pool "{POOL}"\n\n'
        f"Evaluations started in another shell are recorded here after\n{exports}\n"
        "and the nights are deployed, from the checkout, after the same by\n"
        "  prefect deploy --all --prefect-file deployments/prefect.yaml\n\n"
        "Ctrl-C stops all three."
    )


def _as_text(checked: "Checked", home: "Home") -> str:
    lines = [
        f"{service.name:8} {'up' if service.up else 'not running':12} {service.url}".rstrip()
        for service in checked.services
    ]
    if checked.running is None:
        lines.append(f'No "crosscheck up" runs for {home.path}.')
    return "\n".join(lines)


def _as_object(checked: "Checked") -> dict[str, object]:
    return {
        "all_up": checked.all_up,
        "pid": checked.running.pid if checked.running else None,
        "services": [
            {"name": service.name, "up": service.up, "url": service.url or None}
            for service in checked.services
        ],
        "environment": checked.addresses.environment,
    }
