"""`crosscheck leaderboard`."""

from dataclasses import dataclass

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
    from tasks.core.errors import DataError, did_you_mean
    from tasks.documents.html import html
    from tasks.documents.terminal import print_document
    from tasks.tracking.leaderboard.document import leaderboard_document
    from tasks.tracking.leaderboard.leaderboard import as_json, leaderboard
    from tasks.tracking.warehouse.runs import Warehouse

    warehouse = Warehouse(given.read_folder.warehouse)
    boards = leaderboard(warehouse, given.benchmark)
    if given.benchmark is not None and not boards:
        known = sorted({run.benchmark for run in warehouse.runs()})
        raise DataError(
            f'No run of "{given.benchmark}" is finished. {did_you_mean(given.benchmark, known)}'.strip()
        )
    document = leaderboard_document(boards)
    given.write_page(lambda: html(document))
    given.emit(as_json(boards), lambda stream: print_document(document, stream))
    given.name_page()
