"""`crosscheck leaderboard`."""

from dataclasses import dataclass
from typing import TextIO

import click

from flows.cli import options


@dataclass(frozen=True, kw_only=True)
class LeaderboardOptions(options.Page):
    """Options of `crosscheck leaderboard`."""

    benchmark: str | None = options.option("--benchmark", metavar="NAME", help="Only this benchmark.")


@click.command(
    "leaderboard",
    epilog="\b\nExamples:\n"
    "  crosscheck leaderboard\n"
    "  crosscheck leaderboard --benchmark bird-dev --html leaderboard.html\n"
    "\b\nExit codes: 0 printed; 2 bad input.",
)
@options.record(LeaderboardOptions)
def command(given: LeaderboardOptions) -> None:
    """Rank the latest run of each backbone and pipeline by its execution accuracy.

    Runs with the same questions are ranked together. Runs that saw the gold, were re-rolled
    or are not complete are listed apart, with the reason.
    """
    from flows.leaderboard.display import print_leaderboard
    from tasks.core.errors import DataError, did_you_mean
    from tasks.tracking.leaderboard.leaderboard import as_object, leaderboard
    from tasks.tracking.leaderboard.page import render
    from tasks.tracking.warehouse.runs import Warehouse

    warehouse = Warehouse(given.read_folder.warehouse)
    boards = leaderboard(warehouse, given.benchmark)
    if given.benchmark is not None and not boards:
        known = sorted({run.benchmark for run in warehouse.runs()})
        raise DataError(
            f'No run of "{given.benchmark}" is finished. {did_you_mean(given.benchmark, known)}'.strip()
        )
    given.write_page(lambda: render(boards))

    def show(stream: TextIO) -> None:
        print_leaderboard(boards, stream)
        if not boards:
            click.echo('No run is finished yet. Run "crosscheck evaluate".', stream)

    given.emit(as_object(boards), show)
    given.name_page()
