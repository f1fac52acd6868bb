"""`crosscheck night`."""

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from flows.cli import options
from flows.report.exit_codes import ExitCode

if TYPE_CHECKING:
    from tasks.tracking.night.night import Night


@dataclass(frozen=True, kw_only=True)
class NightOptions(options.Page):
    """Options of `crosscheck night`."""

    name: str | None = options.argument(required=False, metavar="[NAME]")


@click.command(
    "night",
    epilog="\b\nExamples:\n"
    "  crosscheck night\n"
    "      lists all nightly runs\n"
    "  crosscheck night latest\n"
    "  crosscheck night latest~1 --html night.html\n"
    "      the run before the latest, as one page with every broken question\n"
    "  crosscheck night 2026-11-21T01:30Z --json\n"
    "\nExit codes: 0 green or amber, or the list was printed; 1 red; 2 bad input.",
)
@options.record(NightOptions)
def command(given: NightOptions) -> int:
    """Show the result of one nightly run, or list all nightly runs.

    NAME is the name of a nightly run or its first characters, or `latest`, `latest~1`, ...; without NAME, all are
    listed.
    """
    from flows.nights.mlflow_pages import night_pages
    from tasks.documents.html import html
    from tasks.documents.terminal import print_document
    from tasks.tracking.night.document import night_document
    from tasks.tracking.night.night_file import all_nights, as_json, find_night
    from tasks.tracking.night.sentences import overdue
    from tasks.tracking.warehouse.runs import Warehouse

    nights = all_nights(given.read_folder)
    late = overdue(nights[0], datetime.datetime.now(datetime.UTC)) if nights else ""
    if given.name is None and given.html is None:
        _list(nights, late, given)
        return 0
    night = find_night(given.name or "latest", nights)
    given.write_page(lambda: html(night_document(night, Warehouse(given.read_folder.warehouse))))

    def show(stream: TextIO) -> None:
        print_document(night_document(night), stream)
        if pages := night_pages(night, given.read_folder).nights:
            click.echo(f"\nall nights in MLflow: {', '.join(pages)}", stream)
        if late and night is nights[0]:
            click.echo(f"\n{late}", stream)

    given.emit(as_json(night), show)
    given.name_page()
    return ExitCode.NEGATIVE if night.red else ExitCode.DONE


def _list(nights: "tuple[Night, ...]", late: str, given: NightOptions) -> None:
    from tasks.documents.model import Document
    from tasks.documents.terminal import print_document
    from tasks.tracking.night.document import nights_table
    from tasks.tracking.night.night_file import as_json

    def show(stream: TextIO) -> None:
        if nights:
            print_document(Document("", (nights_table(nights),)), stream)
            if late:
                click.echo(f"\n{late}", stream)
            return
        click.echo(
            f'There is no nightly run in {given.read_folder.nights} yet. The deployment "nightly" starts them, see '
            '"crosscheck up".',
            stream,
        )

    listed = [as_json(night, brief=True) for night in nights]
    given.emit({"nights": listed, "overdue": late or None}, show)
