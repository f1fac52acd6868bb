"""`crosscheck nights show`."""

import datetime
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

import click

from flows.cli import options
from tasks.core.errors import ExitCode

if TYPE_CHECKING:
    from tasks.results.night import Night


class Show(options.Page):
    """Show the result of one nightly run, or list all nightly runs.

    NAME is the name of a nightly run or its first characters, or `latest`, `latest~1`, ...; without NAME, all are
    listed.

    Examples:
      crosscheck nights show
          lists all nightly runs
      crosscheck nights show latest
      crosscheck nights show latest~1 --html night.html
          the run before the latest, as one page with every broken question
      crosscheck nights show 2026-11-21T01:30Z --json
      crosscheck nights show latest --fail-if red
          for a script: exit code 1 if it is red

    Exit codes: 0 shown, whatever the verdict; 1 --fail-if holds; 2 bad input.
    """

    name: Annotated[str | None, options.Argument("[NAME]")] = None
    fail_if: Literal["red", "amber"] | None = None
    """For scripts: end with exit code 1 if the nightly run is red; amber: if it is red or amber."""

    def __call__(self) -> int:
        from flows.matrix.nightly import night_pages
        from tasks.documents.terminal import print_document
        from tasks.pages.night import night_document
        from tasks.pages.night_evaluation import overdue
        from tasks.results.night import all_nights, find_night

        nights = all_nights(self.read_folder)
        late = overdue(nights[0], datetime.datetime.now(datetime.UTC)) if nights else ""
        if self.name is None and self.html is None and self.fail_if is None:
            self._list(nights, late)
            return 0
        night = find_night(self.name or "latest", nights)
        self.write_page(lambda: night_document(night, self.warehouse))

        def show(stream: TextIO) -> None:
            print_document(night_document(night), stream)
            if pages := night_pages(night, self.read_folder).nights:
                click.echo(f"\nall nights in MLflow: {', '.join(pages)}", stream)
            if late and night is nights[0]:
                click.echo(f"\n{late}", stream)

        self.emit(night, show)
        failing = {"red": ("Red",), "amber": ("Red", "Amber")}.get(self.fail_if or "", ())
        return ExitCode.NEGATIVE if night.colour in failing else ExitCode.DONE

    def _list(self, nights: "tuple[Night, ...]", late: str) -> None:
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
                f'There is no nightly run in {self.read_folder.nights} yet. The deployment "nightly" starts them, see '
                '"crosscheck up".',
                stream,
            )

        listed = [json_of(night, BRIEF_FIELDS) for night in nights]
        self.emit({"nights": listed, "overdue": late or None}, show)
