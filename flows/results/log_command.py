"""`crosscheck log`."""

import click

from flows.cli import options


@click.command("log", epilog="\b\nExample:\n  crosscheck log 20261121-020000-3f9a1c")
@click.argument("run")
@options.home
def command(run: str, home: str | None) -> None:
    """Log to MLflow a RUN that was kept because MLflow could not be reached."""
    from tasks.settings.home import find_home
    from tasks.tracking.mlflow.run import Tracker

    tracked = Tracker(find_home(home)).log_again(run)
    click.echo(f"Logged as run {tracked.run_id} to {tracked.tracking_uri}.")
