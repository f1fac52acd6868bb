"""`crosscheck log`."""

from dataclasses import dataclass

import click

from flows.cli import options


@dataclass(frozen=True, kw_only=True)
class LogOptions(options.Output):
    """Options of `crosscheck log`."""

    run: str = options.argument()


@click.command(
    "log",
    epilog="\b\nExample:\n  crosscheck log 20261121-020000-3f9a1c\n\nExit codes: 0 logged; 2 bad input.",
)
@options.record(LogOptions)
def command(given: LogOptions) -> None:
    """Log a finished RUN to MLflow, if MLflow could not be reached at the end of the run."""
    from tasks.tracking.mlflow.tracker import Tracker

    tracked = Tracker(given.read_folder).log_again(given.run)
    given.emit(
        {"mlflow_run_id": tracked.run_id, "tracking_uri": tracked.tracking_uri},
        lambda stream: click.echo(f"Logged as run {tracked.run_id} to {tracked.tracking_uri}.", stream),
    )
