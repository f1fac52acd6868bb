"""`crosscheck night`."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.cli import options
from tasks.errors import ConfigurationError

if TYPE_CHECKING:
    from tasks.settings.home import Home
    from tasks.tracking.night.records import Night

RED = 1


@click.command(
    "night",
    epilog="\b\nExamples:\n"
    "  crosscheck night\n"
    "      all nightly runs\n"
    "  crosscheck night latest\n"
    "  crosscheck night latest~1 --html night.html\n"
    "      the one before it, as one page with every question that was broken\n"
    "  crosscheck night 2026-11-21T01:30Z --json\n"
    "\b\nExit codes: 0 green, or listed; 1 red; 2 bad input.",
)
@click.argument("name", required=False, metavar="[NAME]")
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the page of the nightly run.",
)
@options.home
@options.as_json
def command(name: str | None, html: Path | None, home: str | None, as_json: bool) -> int:
    """Show a nightly run, or list all of them.

    NAME is the name of a nightly run or the beginning of it, `latest`, `latest~1`, ...; without it, all are listed.
    """
    from tasks.settings.home import find_home
    from tasks.tracking.night.file import all_nights, as_object, find_night

    found = find_home(home)
    nights = all_nights(found)
    if name is None and html is None:
        _list(nights, found, as_json=as_json)
        return 0
    night = find_night(name or "latest", nights)
    if html is not None:  # before printing, which fails where the output is piped into `head`
        _write_page(night, html, found)
    if as_json:
        click.echo(json.dumps(as_object(night), ensure_ascii=False))
    else:
        from flows.nights.display import print_night

        print_night(night, sys.stdout)
    if html is not None:
        click.echo(f"The page is {html}.", err=as_json)
    return RED if night.red else 0


def _list(nights: "tuple[Night, ...]", home: "Home", *, as_json: bool) -> None:
    if as_json:
        listed = [
            {
                "night": night.name,
                "green": not night.red,
                "verdict": night.verdict,
                "started": night.started.isoformat(),
                "evaluations": len(night.entries),
            }
            for night in nights
        ]
        click.echo(json.dumps({"nights": listed}, ensure_ascii=False))
    elif nights:
        from flows.nights.display import print_nights

        print_nights(nights, sys.stdout)
    else:
        click.echo(
            f'There is no nightly run in {home.nights} yet: the deployment "nightly" makes one, see "crosscheck up".'
        )


def _write_page(night: "Night", file: Path, home: "Home") -> None:
    from tasks.tracking.night.page import render
    from tasks.tracking.warehouse.runs import Warehouse

    page = render(night, Warehouse(home.warehouse))
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"--html {file}: the page cannot be written: {error.strerror}. Name a file in a folder that is there."
        ) from error
