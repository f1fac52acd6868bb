"""`crosscheck runs`."""

from dataclasses import dataclass
from typing import TextIO

import click

from flows.cli import options


@dataclass(frozen=True, kw_only=True)
class RunsOptions(options.Output):
    """Options of `crosscheck runs`."""

    benchmark: str | None = options.option(
        "--benchmark", metavar="NAME", help="List only runs of this benchmark."
    )
    tag: tuple[str, ...] = options.option(
        "--tag",
        multiple=True,
        metavar="KEY[=VALUE]",
        help="List only runs with this tag. May be given several times.",
    )
    limit: int = options.number(
        "--limit",
        default=20,
        help="List only the latest N runs.",
    )


@click.command(
    "runs",
    epilog="\b\nExamples:\n  crosscheck runs\n  crosscheck runs --benchmark bird-dev --limit 5\n"
    "  crosscheck runs --tag team=search\n"
    "  crosscheck compare latest~1 latest\n"
    "\nExit codes: 0 listed; 2 bad input.",
)
@options.record(RunsOptions)
def command(arguments: RunsOptions) -> None:
    """List all runs, newest first."""
    from tasks.core.errors import DataError, did_you_mean
    from tasks.documents.terminal import open_console, print_blocks
    from tasks.pages.runs import runs_table
    from tasks.results.warehouse.runs import Warehouse

    warehouse = arguments.read_folder.warehouse
    tags = [tag.partition("=")[::2] for tag in arguments.tag]
    runs = Warehouse(warehouse).runs()
    if (
        arguments.benchmark
        and (benchmarks := {run.benchmark for run in runs})
        and arguments.benchmark not in benchmarks
    ):
        raise DataError(
            f'There is no run of "{arguments.benchmark}". {did_you_mean(arguments.benchmark, sorted(benchmarks))}'
        )
    records = [
        run
        for run in runs
        if arguments.benchmark in (None, run.benchmark)
        and all(key in run.tags and value in ("", run.tags[key]) for key, value in tags)
    ]

    def show(stream: TextIO) -> None:
        if records:
            table = runs_table(records, arguments.limit, more="; --limit shows more")
            print_blocks(open_console(stream), (table,))
            return
        of = f" of {arguments.benchmark}" if arguments.benchmark else ""
        of += f" with the tag {' and '.join(arguments.tag)}" if arguments.tag else ""
        click.echo(f'There is no run{of} in {warehouse} yet. Start one with "crosscheck evaluate".', stream)

    listed = [run.model_dump(mode="json") for run in records[: arguments.limit]]
    arguments.emit({"runs": listed, "total": len(records)}, show)
