"""`crosscheck status` and `crosscheck clean`."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import click
from annotated_types import Ge, Le

from flows.cli import options
from tasks.core.errors import ConfigurationError, ExitCode
from tasks.core.wording import counted, money
from tasks.settings.choices import Keep, age

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flows.evaluate.working_folder import Folder
    from tasks.results.retention import Holding


class Status(options.Output):
    """Show what the working folder holds: each store with its size, and what `crosscheck clean` would free.

    Examples:
      crosscheck status
      crosscheck status --json

    Exit codes: 0 shown; 2 bad input.
    """

    def __call__(self) -> None:
        from flows.evaluate.working_folder import FolderDocument, holdings_document, not_ours, open_folder
        from tasks.results.run_record import json_of

        folder = open_folder(self.read_folder, Keep())
        holdings = folder.holdings()
        document = json_of(FolderDocument.of(folder, holdings)) | {"elsewhere": not_ours(self.read_folder)}
        self.emit(document, holdings_document(folder, holdings))


class Clean(options.Output):
    """Remove the data of old runs from the working folder: stage results, traces, artifacts, Prefect's records.

    Removed data is computed again when it is needed, without paid calls.

    Examples:
      crosscheck clean --dry-run
      crosscheck clean --keep 14d --yes
      crosscheck clean --keep 90d --keep-runs 5 --rows
      crosscheck clean --replies gpt-4o

    Always kept: scores of all runs and nights, paid replies (unless --replies), runs with the tag
    `pinned`, the latest baseline of each benchmark, backbone and pipeline, and runs that a kept run was merged from.
    Stage results, verdicts, indexes and Prefect's records are removed by age only. Files shrink only while no
    evaluation and no `crosscheck up` uses the folder.

    Exit codes: 0 cleaned; 2 bad input; 3 something could not be removed: run the same command again to continue.
    """

    keep: Annotated[str, options.Metavar("AGE")] = "30d"
    """Keep what is younger, and what was used since: a number and d, h or m."""
    keep_runs: Annotated[int, Ge(0), Le(1000000)] = 2
    """Keep the latest N runs of each benchmark, backbone and pipeline whatever their age."""
    rows: bool = False
    """Also remove the questions of runs that are not kept from the warehouse; their scores stay."""
    replies: Annotated[tuple[str, ...], options.Metavar("MODEL")] = ()
    """Also remove the replies of this model, whatever their age; all: of every model; damaged: those that cannot be
    read. They are paid for again when needed. May be given several times."""
    dry_run: bool = False
    """Show what would be removed, and its size."""
    yes: bool = False
    """Do not ask for confirmation."""

    def __call__(self) -> int:
        from flows.evaluate.working_folder import (
            FolderDocument,
            clean,
            holdings_document,
            in_words,
            open_folder,
        )
        from flows.runtime.signals import logging_to
        from tasks.results.run_record import json_of

        age(self.keep)  # raises an error that names --keep
        keep = Keep(age=self.keep, runs=self.keep_runs, rows=not self.rows)
        folder = open_folder(self.read_folder, keep, replies=self.replies)
        holdings = folder.holdings()
        document = json_of(FolderDocument.of(folder, holdings))
        if self.dry_run:
            self.emit(document, holdings_document(folder, holdings))
            return 0
        if not self.read_folder.path.is_dir():
            raise ConfigurationError(
                f"There is no working folder {self.read_folder.path}. Name it with --home."
            )
        if not self.yes and not self._confirm(folder, holdings):
            return 0
        with logging_to(self.read_folder):
            cleaned = clean(folder, lambda text: click.echo(text, err=True))
        self.emit(document | asdict(cleaned), in_words(cleaned))
        return ExitCode.TRY_AGAIN if cleaned.problems else ExitCode.DONE

    def _confirm(self, folder: "Folder", holdings: "Sequence[Holding]") -> bool:
        from flows.evaluate.working_folder import holdings_document
        from tasks.documents.terminal import print_document

        if not sys.stdin.isatty():
            raise ConfigurationError(
                "Nothing was removed: without a terminal, confirm with --yes, or look first with --dry-run."
            )
        print_document(holdings_document(folder, holdings), sys.stderr)
        cost = f" {_cost_of_replies(folder)}" if self.replies else ""
        return click.confirm(f"Remove this?{cost}", err=True)


def _cost_of_replies(folder: "Folder") -> str:
    from flows.evaluate.working_folder import Replies

    store = next(store for store in folder.stores if isinstance(store, Replies))
    paid, unpriced = store.cost_of_removable()
    unknown = f" and {counted(unpriced, 'reply')} without a known price" if unpriced else ""
    return f"The replies have cost {money(paid)}{unknown}, and are paid for again when they are needed."
