"""`crosscheck nights show`."""

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from flows.cli import options
from tasks.core.errors import ExitCode

if TYPE_CHECKING:
    from tasks.results.night import Night


@dataclass(frozen=True, kw_only=True)
class NightOptions(options.Page):
    """Options of `crosscheck nights show`."""

    name: str | None = options.argument(required=False, metavar="[NAME]")
    fail_if: str | None = options.option(
        "--fail-if",
        type=click.Choice(["red", "amber"]),
        help="For scripts: end with exit code 1 if the nightly run is red; amber: if it is red or amber.",
    )


@click.command(
    "show",
    epilog="\b\nExamples:\n"
    "  crosscheck nights show\n"
    "      lists all nightly runs\n"
    "  crosscheck nights show latest\n"
    "  crosscheck nights show latest~1 --html night.html\n"
    "      the run before the latest, as one page with every broken question\n"
    "  crosscheck nights show 2026-11-21T01:30Z --json\n"
    "  crosscheck nights show latest --fail-if red\n"
    "      for a script: exit code 1 if it is red\n"
    "\nExit codes: 0 shown, whatever the verdict; 1 --fail-if holds; 2 bad input.",
)
@options.record(NightOptions)
def command(arguments: NightOptions) -> int:
    """Show the result of one nightly run, or list all nightly runs.

    NAME is the name of a nightly run or its first characters, or `latest`, `latest~1`, ...; without NAME, all are
    listed.
    """
    from flows.matrix.nightly import night_pages
    from tasks.documents.html import html
    from tasks.documents.terminal import print_document
    from tasks.pages.night import night_document
    from tasks.pages.night_evaluation import overdue
    from tasks.results.night import all_nights, find_night
    from tasks.results.run_record import json_of
    from tasks.results.warehouse.runs import Warehouse

    nights = all_nights(arguments.read_folder)
    late = overdue(nights[0], datetime.datetime.now(datetime.UTC)) if nights else ""
    if arguments.name is None and arguments.html is None and arguments.fail_if is None:
        _list(nights, late, arguments)
        return 0
    night = find_night(arguments.name or "latest", nights)
    arguments.write_page(lambda: html(night_document(night, Warehouse(arguments.read_folder.warehouse))))

    def show(stream: TextIO) -> None:
        print_document(night_document(night), stream)
        if pages := night_pages(night, arguments.read_folder).nights:
            click.echo(f"\nall nights in MLflow: {', '.join(pages)}", stream)
        if late and night is nights[0]:
            click.echo(f"\n{late}", stream)

    arguments.emit(json_of(night), show)
    arguments.name_page()
    failing = {"red": ("Red",), "amber": ("Red", "Amber")}.get(arguments.fail_if or "", ())
    return ExitCode.NEGATIVE if night.colour in failing else ExitCode.DONE


def _list(nights: "tuple[Night, ...]", late: str, arguments: NightOptions) -> None:
    from tasks.documents.model import Document
    from tasks.documents.terminal import print_document
    from tasks.pages.night import nights_table
    from tasks.results.night import BRIEF_FIELDS
    from tasks.results.run_record import json_of

    def show(stream: TextIO) -> None:
        if nights:
            print_document(Document("", (nights_table(nights),)), stream)
            if late:
                click.echo(f"\n{late}", stream)
            return
        click.echo(
            f'There is no nightly run in {arguments.read_folder.nights} yet. The deployment "nightly" starts them, see '
            '"crosscheck up".',
            stream,
        )

    listed = [json_of(night, BRIEF_FIELDS) for night in nights]
    arguments.emit({"nights": listed, "overdue": late or None}, show)
