"""`crosscheck clean`."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from flows.cli import options
from tasks.core.errors import ConfigurationError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flows.evaluate.working_folder import Folder
    from tasks.results.retention import Holding


@dataclass(frozen=True, kw_only=True)
class CleanOptions(options.Output):
    """Options of `crosscheck clean`."""

    keep: str = options.option(
        "--keep",
        default="30d",
        metavar="AGE",
        help="Keep what was used by runs that are younger: a number and d, h or m.",
    )
    keep_runs: int = options.option(
        "--keep-runs",
        type=click.IntRange(0, 1_000_000),
        default=2,
        metavar="N",
        help="Keep the latest N runs of each benchmark, backbone and pipeline whatever their age.",
    )
    rows: bool = options.flag(
        "--rows", "Also remove the questions of runs that are not kept from the warehouse; their scores stay."
    )
    replies: tuple[str, ...] = options.option(
        "--replies",
        multiple=True,
        metavar="MODEL",
        help="Also remove the replies of this model, whatever their age; all: of every model; damaged: those that "
        "cannot be read. They are paid for again when needed. May be given several times.",
    )
    dry_run: bool = options.flag("--dry-run", "Show what would be removed, and its size.")
    yes: bool = options.flag("--yes", "Do not ask for confirmation.")


@click.command(
    "clean",
    epilog="\b\nExamples:\n"
    "  crosscheck clean --dry-run\n"
    "  crosscheck clean --keep 14d --yes\n"
    "  crosscheck clean --keep 90d --keep-runs 5 --rows\n"
    "  crosscheck clean --replies gpt-4o\n"
    "\nAlways kept: scores of all runs and nights, paid replies (unless --replies), runs with the tag\n"
    "`pinned`, baselines of nights that are kept, the latest baseline of each benchmark, backbone and pipeline, and\n"
    "runs that a kept run was merged from. Prefect's records are removed by age only. Files shrink only while no\n"
    "evaluation and no `crosscheck up` uses the folder.\n"
    "\nExit codes: 0 cleaned; 2 bad input; 3 something could not be removed: run the same command again to continue.",
)
@options.record(CleanOptions)
def command(arguments: CleanOptions) -> int:
    """Remove the data of old runs from the working folder: stage results, traces, artifacts, Prefect's records, logs.

    Removed data is computed again when it is needed, without paid calls.
    """
    from flows.evaluate.working_folder import FolderDocument, clean, in_words, open_folder, print_holdings
    from tasks.results.run_record import json_of
    from tasks.settings.evaluation import Keep, age

    age(arguments.keep)
    keep = Keep(age=arguments.keep, runs=arguments.keep_runs, rows=not arguments.rows)
    folder = open_folder(arguments.read_folder, keep, replies=arguments.replies)
    holdings = folder.holdings()
    document = json_of(FolderDocument.of(folder, holdings))
    if arguments.dry_run:
        arguments.emit(document, lambda stream: print_holdings(folder, holdings, stream))
        return 0
    if not arguments.yes:
        if not any(count for holding in holdings for count in holding.removable.values()):
            unchanged = dict.fromkeys(("before_bytes", "after_bytes"), document["bytes"])
            arguments.emit(
                document | unchanged | {"shrunk": False, "problems": []}, _nothing(folder, holdings)
            )
            return 0
        if not _confirmed(folder, holdings, arguments):
            return 0
    cleaned = clean(folder, lambda text: click.echo(text, err=True))
    done = {
        "before_bytes": cleaned.before,
        "after_bytes": cleaned.after,
        "shrunk": cleaned.shrunk,
        "problems": list(cleaned.problems),
    }
    arguments.emit(document | done, lambda stream: click.echo(in_words(cleaned), stream))
    return ExitCode.TRY_AGAIN if cleaned.problems else ExitCode.DONE


def _nothing(folder: "Folder", holdings: "Sequence[Holding]") -> "Callable[[TextIO], None]":
    from flows.evaluate.working_folder import print_holdings

    def show(stream: TextIO) -> None:
        print_holdings(folder, holdings, stream)
        click.echo("There is nothing to remove.", stream)

    return show


def _confirmed(folder: "Folder", holdings: "Sequence[Holding]", arguments: CleanOptions) -> bool:
    from flows.evaluate.working_folder import print_holdings

    if not sys.stdin.isatty():
        raise ConfigurationError(
            "Nothing was removed: without a terminal, confirm with --yes, or look first with --dry-run."
        )
    print_holdings(folder, holdings, sys.stderr)
    question = "Remove this?"
    if arguments.replies and (lost := _cost_of_replies(folder)):
        question = f"Remove this? {lost}"
    return click.confirm(question, err=True)


def _cost_of_replies(folder: "Folder") -> str:
    from flows.evaluate.working_folder import Replies
    from tasks.core.wording import counted, money

    store = next(each for each in folder.stores if isinstance(each, Replies))
    paid, unpriced = store.cost_of_removable()
    unknown = f" and {counted(unpriced, 'reply')} without a known price" if unpriced else ""
    return f"The replies have cost {money(paid)}{unknown}, and are paid for again when they are needed."
