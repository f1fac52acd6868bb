"""`crosscheck runs`."""

import json
import sys

import click

from flows.cli import options


@click.command(
    "runs",
    epilog="\b\nExamples:\n  crosscheck runs\n  crosscheck runs --benchmark bird-dev --limit 5\n"
    "  crosscheck compare latest~1 latest",
)
@click.option("--benchmark", metavar="NAME", help="Runs of this benchmark only.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="The latest N."
)
@options.home
@options.as_json
def command(benchmark: str | None, limit: int, home: str | None, as_json: bool) -> None:
    """List the runs there are, newest first."""
    from dataclasses import asdict

    from flows.results.runs_display import print_runs
    from tasks.settings.home import find_home
    from tasks.tracking.warehouse.runs import Warehouse

    warehouse = find_home(home).warehouse
    found = [run for run in Warehouse(warehouse).runs() if benchmark in (None, run.benchmark)]
    if as_json:
        listed = [
            asdict(run) | {"started": f"{run.started.isoformat(timespec='seconds')}Z"}
            for run in found[:limit]
        ]
        click.echo(json.dumps({"runs": listed, "total": len(found)}, ensure_ascii=False))
        return
    if not found:
        of = f" of {benchmark}" if benchmark else ""
        click.echo(f'There is no run{of} in {warehouse} yet: "crosscheck evaluate" makes one.')
        return
    print_runs(found, limit, sys.stdout)
