"""`crosscheck leaderboard`."""

from dataclasses import dataclass

import click

from flows.cli import options


@dataclass(frozen=True, kw_only=True)
class LeaderboardOptions(options.Page):
    """Options of `crosscheck leaderboard`."""

    benchmark: str | None = options.option("--benchmark", metavar="NAME", help="Only this benchmark.")
    by: str = options.option(
        "--by",
        metavar="SCORE",
        default="",
        help="Rank by another score of the runs: an answer key, decided, without_quarantine or a rule. "
        "[default: execution accuracy]",
    )


@click.command(
    "leaderboard",
    epilog="\b\nExamples:\n"
    "  crosscheck leaderboard\n"
    "  crosscheck leaderboard --benchmark bird-dev --html leaderboard.html\n"
    "  crosscheck leaderboard --benchmark bird-dev --by arcwise\n"
    "\nExit codes: 0 printed; 2 bad input.",
)
@options.record(LeaderboardOptions)
def command(arguments: LeaderboardOptions) -> None:
    """Rank the latest run of each backbone and pipeline by its execution accuracy, or by the score that --by names.

    Runs with the same questions are ranked together. Runs that saw the gold, repeated an answer (tag rerolled)
    or are not complete are listed apart, with the reason.
    """
    from tasks.core.errors import ConfigurationError, DataError, did_you_mean
    from tasks.documents.html import html
    from tasks.documents.terminal import print_document
    from tasks.pages.leaderboard import leaderboard_document
    from tasks.results.leaderboard import leaderboard
    from tasks.results.run_record import json_of
    from tasks.results.warehouse.runs import Warehouse

    warehouse = Warehouse(arguments.read_folder.warehouse)
    boards = leaderboard(warehouse, arguments.benchmark, arguments.by)
    if arguments.benchmark is not None and not boards:
        benchmarks = sorted({run.benchmark for run in warehouse.runs()})
        raise DataError(
            f'No run of "{arguments.benchmark}" is finished. {did_you_mean(arguments.benchmark, benchmarks)}'.strip()
        )
    if arguments.by and boards and not any(board.ranked for board in boards):
        scores = {name for stored in warehouse.finished_runs() for name in stored.scores}
        raise ConfigurationError(
            f'No run that can be ranked has a score "{arguments.by}". {did_you_mean(arguments.by, sorted(scores))}'
        )
    document = leaderboard_document(boards)
    arguments.write_page(lambda: html(document))
    arguments.emit(
        {"boards": [json_of(board) for board in boards]}, lambda stream: print_document(document, stream)
    )
    arguments.name_page()
