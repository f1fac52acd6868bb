"""`crosscheck runs`."""

from dataclasses import asdict, dataclass
from typing import TextIO

import click

from flows.cli import options
from flows.cli.output import emit


@dataclass(frozen=True, kw_only=True)
class RunsOptions(options.Output):
    """Options of `crosscheck runs`."""

    benchmark: str | None = options.option("--benchmark", metavar="NAME", help="Runs of this benchmark only.")
    limit: int = options.option(
        "--limit",
        type=click.IntRange(min=1),
        default=20,
        show_default=True,
        metavar="N",
        help="The latest N.",
    )


@click.command(
    "runs",
    epilog="\b\nExamples:\n  crosscheck runs\n  crosscheck runs --benchmark bird-dev --limit 5\n"
    "  crosscheck compare latest~1 latest",
)
@options.record(RunsOptions)
def command(given: RunsOptions) -> None:
    """List the runs there are, newest first."""
    from flows.results.runs_display import print_runs
    from tasks.tracking.warehouse.warehouse import Warehouse

    warehouse = given.folder.warehouse
    found = [run for run in Warehouse(warehouse).runs() if given.benchmark in (None, run.benchmark)]

    def show(stream: TextIO) -> None:
        if found:
            print_runs(found, given.limit, stream)
            return
        of = f" of {given.benchmark}" if given.benchmark else ""
        click.echo(f'There is no run{of} in {warehouse} yet: "crosscheck evaluate" makes one.', stream)

    listed = [
        asdict(run) | {"started": f"{run.started.isoformat(timespec='seconds')}Z"}
        for run in found[: given.limit]
    ]
    emit({"runs": listed, "total": len(found)}, show, as_json=given.as_json, text_too=False)
