"""`crosscheck leaderboard`."""

from dataclasses import dataclass

import click

from flows.cli import options


@dataclass(frozen=True, kw_only=True)
class LeaderboardOptions(options.Page, options.Files):
    """Options of `crosscheck leaderboard`."""

    benchmark: str | None = options.option("--benchmark", metavar="NAME", help="Only this benchmark.")
    keys: str | None = options.option(
        "--keys",
        metavar="KEYS",
        help="Also rank the runs by these answer keys, separated by commas: benchmarks or files, as in "
        "benchmark.answer_keys. The stored answers are scored; no model is called.",
    )


@click.command(
    "leaderboard",
    epilog="\b\nExamples:\n"
    "  crosscheck leaderboard\n"
    "  crosscheck leaderboard --benchmark bird-dev --html leaderboard.html\n"
    "  crosscheck leaderboard --benchmark bird-dev --keys bird-dev-1106,corrections.json\n"
    "\nWith --keys: the ranks by each key, beside those by the official key on the same questions; Kendall's tau-b;\n"
    "and for each pair of runs whose order changes, the exact paired test by both keys. A question whose text is\n"
    "another under the key is not counted: the models did not see it.\n"
    "\nExit codes: 0 printed; 2 bad input.",
)
@options.record(LeaderboardOptions)
def command(given: LeaderboardOptions) -> None:
    """Rank the latest run of each backbone and pipeline by its execution accuracy.

    Runs with the same questions are ranked together. Runs that saw the gold, repeated an answer (tag rerolled)
    or are not complete are listed apart, with the reason.
    """
    from tasks.core.errors import ConfigurationError, DataError, did_you_mean
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
    if given.keys:
        from flows.leaderboard.keys import with_keys

        if given.benchmark is None:
            raise ConfigurationError("--keys is about one benchmark: name it with --benchmark NAME.")
        with given.progress() as progress:
            boards = with_keys(boards, given.keys, warehouse, given.folders, progress)
    document = leaderboard_document(boards)
    given.write_page(lambda: html(document))
    given.emit(as_json(boards), lambda stream: print_document(document, stream))
    given.name_page()
