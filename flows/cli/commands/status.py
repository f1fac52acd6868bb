"""`crosscheck status`."""

from dataclasses import dataclass

import click

from flows.cli import options


@dataclass(frozen=True, kw_only=True)
class StatusOptions(options.Output):
    """Options of `crosscheck status`."""

    keep: str = options.option(
        "--keep", default="30d", metavar="AGE", help="Same as `crosscheck clean --keep`."
    )


@click.command(
    "status",
    epilog="\b\nExamples:\n  crosscheck status\n  crosscheck status --json\n\nExit codes: 0 shown; 2 bad input.",
)
@options.record(StatusOptions)
def command(arguments: StatusOptions) -> None:
    """Show what the working folder holds: each store with its size, and what `crosscheck clean` would free."""
    from flows.evaluate.working_folder import FolderDocument, not_ours, open_folder, print_holdings
    from tasks.results.run_record import json_of
    from tasks.settings.evaluation import Keep, age

    age(arguments.keep)
    folder = open_folder(arguments.read_folder, Keep.of_options(age=arguments.keep))
    holdings = folder.holdings()
    document = json_of(FolderDocument.of(folder, holdings)) | {"elsewhere": not_ours(arguments.read_folder)}
    arguments.emit(document, lambda stream: print_holdings(folder, holdings, stream))
