"""`crosscheck runs`."""

from typing import Annotated, TextIO

import click
from annotated_types import Ge

from flows.cli import options


class Runs(options.Output):
    """List all runs, newest first.

    Examples:
      crosscheck runs
      crosscheck runs --benchmark bird-dev --limit 5
      crosscheck runs --tag team=search
      crosscheck compare latest~1 latest

    Exit codes: 0 listed; 2 bad input.
    """

    benchmark: Annotated[str | None, options.Metavar("NAME")] = None
    """List only runs of this benchmark."""
    tag: Annotated[tuple[str, ...], options.Metavar("KEY[=VALUE]")] = ()
    """List only runs with this tag. May be given several times."""
    limit: Annotated[int, Ge(1)] = 20
    """List only the latest N runs."""

    def __call__(self) -> None:
        from tasks.core.errors import DataError, did_you_mean
        from tasks.documents.terminal import open_console, print_blocks
        from tasks.pages.runs import runs_table
        from tasks.results.warehouse.runs import Warehouse

        warehouse = self.read_folder.warehouse
        tags = [tag.partition("=")[::2] for tag in self.tag]
        runs = Warehouse(warehouse).runs()
        if (
            self.benchmark
            and (benchmarks := {run.benchmark for run in runs})
            and self.benchmark not in benchmarks
        ):
            raise DataError(
                f'There is no run of "{self.benchmark}". {did_you_mean(self.benchmark, sorted(benchmarks))}'
            )
        records = [
            run
            for run in runs
            if self.benchmark in (None, run.benchmark)
            and all(key in run.tags and value in ("", run.tags[key]) for key, value in tags)
        ]

        def show(stream: TextIO) -> None:
            if records:
                table = runs_table(records, self.limit, more="; --limit shows more")
                print_blocks(open_console(stream), (table,))
                return
            of = f" of {self.benchmark}" if self.benchmark else ""
            of += f" with the tag {' and '.join(self.tag)}" if self.tag else ""
            click.echo(
                f'There is no run{of} in {warehouse} yet. Start one with "crosscheck evaluate".', stream
            )

        listed = [run.model_dump(mode="json") for run in records[: self.limit]]
        self.emit({"runs": listed, "total": len(records)}, show)
