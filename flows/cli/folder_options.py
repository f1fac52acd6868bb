"""Options for the folders that a command uses and for what it prints, in records to inherit from."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from flows.cli.fields import flag, option
from flows.cli.output import emit_json, write_page

if TYPE_CHECKING:
    from flows.runtime.control import Progress
    from flows.runtime.folders import Folders
    from tasks.settings.home import Home
    from tasks.tracking.warehouse.stored import StoredRun


OUTPUT, FOLDERS = "Output", "Folders"
"""Headings of these options in the help of commands that have many."""


def _make_default(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Set the working folder of this process and its child processes to `--home`."""
    if value:
        os.environ["CROSSCHECK_HOME"] = str(Path(value).expanduser().absolute())
    return value


@dataclass(frozen=True, kw_only=True)
class Data:
    """Option of commands that read a benchmark's files."""

    data: str | None = option(
        "--data",
        last=True,
        group=FOLDERS,
        metavar="FOLDER",
        help="Folder of the benchmarks' files. [default: CROSSCHECK_DATA, else ./data]",
    )


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Option of commands that use the working folder."""

    home: str | None = option(
        "--home",
        last=True,
        group=FOLDERS,
        metavar="FOLDER",
        callback=_make_default,
        help="Working folder for caches, stores and results. [default: CROSSCHECK_HOME, else .crosscheck]",
    )

    @property
    def folder(self) -> "Home":
        """The working folder; made where it is missing."""
        from tasks.settings.home import find_home

        return find_home(self.home)

    @property
    def read_folder(self) -> "Home":
        """The working folder as it is, which may be missing: for what only reads."""
        from tasks.settings.home import find_home

        return find_home(self.home, make=False)

    @contextmanager
    def progress(self) -> "Iterator[Progress]":
        """Show progress on standard error, and write warnings to the working folder's log, while the block runs."""
        from flows.cli.progress import open_progress
        from flows.runtime.logs import logging_to

        with open_progress(sys.stderr) as progress, logging_to(self.read_folder):
            yield progress

    def read_runs(self, *names: str) -> "list[StoredRun]":
        """Return the runs that a user names, with their questions.

        Raises:
            DataError: there is no run of a name.
        """
        from tasks.tracking.warehouse.run_names import find_run
        from tasks.tracking.warehouse.runs import Warehouse

        warehouse = Warehouse(self.read_folder.warehouse)
        known = warehouse.runs()
        return [warehouse.read_run(find_run(name, known).run_id) for name in names]


@dataclass(frozen=True, kw_only=True)
class Json:
    """Option of commands that print JSON."""

    as_json: bool = flag(
        "--json",
        "Print one JSON object to standard output, and everything else to standard error.",
        last=True,
        group=OUTPUT,
    )

    def emit(self, value: Any, show: Callable[[TextIO], None], *, text_too: bool = False) -> None:
        """Print the result of a command.

        Args:
            value: the result as plain JSON, for `--json`.
            show: prints the result as text to a stream.
            text_too: whether the text is printed to standard error in addition to the JSON.
        """
        if not self.as_json:
            show(sys.stdout)
            return
        emit_json(value)
        if text_too:
            show(sys.stderr)


@dataclass(frozen=True, kw_only=True)
class Output(Json, Folder):
    """Options of most commands: the working folder and JSON."""


@dataclass(frozen=True, kw_only=True)
class Files(Data, Output):
    """Options of commands that read a benchmark's files and use the working folder."""

    @property
    def folders(self) -> "Folders":
        """Both folders."""
        from flows.runtime.folders import Folders
        from tasks.settings.home import find_data

        return Folders(find_data(self.data), self.folder)


@dataclass(frozen=True, kw_only=True)
class Page(Output):
    """Options of commands that write an HTML page."""

    html: Path | None = option(
        "--html",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Also write a self-contained HTML page.",
    )

    def write_page(self, render: Callable[[], str]) -> None:
        """Write the page that `--html` asks for: before printing, which fails where `head` reads the output."""
        if self.html is not None:
            write_page(render(), self.html)

    def name_page(self) -> None:
        """Say where the page is."""
        if self.html is not None:
            click.echo(f"The page is {self.html}.", err=self.as_json)
