"""`crosscheck compare`."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.cli import options
from tasks.errors import ConfigurationError

if TYPE_CHECKING:
    from tasks.tracking.comparison.records import RunComparison

SHOWN = 10


@click.command(
    "compare",
    epilog="\b\nExamples:\n"
    "  crosscheck compare latest~1 latest\n"
    "      the last run that was finished against the one before it\n"
    "  crosscheck compare 20261121-020000-3f9a1c 20261122 --html comparison.html\n"
    "      by id, or as much of it as makes it clear; MLflow's run ids do as well\n"
    "  crosscheck compare latest~1 latest --rule strict --all\n"
    "\b\nExit codes: 0 compared, whatever came of it; 2 bad input, or runs that cannot be compared.",
)
@click.argument("run_a", metavar="RUN")
@click.argument("run_b", metavar="RUN")
@click.option(
    "--rule",
    metavar="NAME",
    help="Comparison rule: bird, spider, strict or subset. [default: the runs' headline rule]",
)
@click.option(
    "--all", "everything", is_flag=True, help=f"Every flipped question, not only the first {SHOWN}."
)
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write one self-contained page.",
)
@options.home
@options.as_json
def command(
    run_a: str,
    run_b: str,
    rule: str | None,
    everything: bool,
    html: Path | None,
    home: str | None,
    as_json: bool,
) -> None:
    """Say whether the second RUN is better than the first, and on which questions they differ.

    The runs are paired question by question: an exact McNemar test, a bootstrap interval of the difference, and
    every question that one run has right and the other wrong. Inside the noise there is no winner.
    """
    from flows.results.compare_display import print_comparison
    from tasks.settings.home import find_home
    from tasks.tracking.comparison.as_json import as_object
    from tasks.tracking.comparison.build import compare
    from tasks.tracking.warehouse.run_names import find_run
    from tasks.tracking.warehouse.runs import Warehouse

    warehouse = Warehouse(find_home(home).warehouse)
    known = warehouse.runs()
    a, b = (warehouse.read_run(find_run(reference, known).run_id) for reference in (run_a, run_b))
    comparison = compare(a, b, rule=rule)
    if html is not None:  # before printing, which fails where the output is piped into `head`
        _write_page(comparison, html)
    if as_json:
        click.echo(json.dumps(as_object(comparison), ensure_ascii=False))
    else:
        print_comparison(comparison, sys.stdout, flips=None if everything else SHOWN)
    if html is not None:
        click.echo(f"The page is {html}.", err=as_json)


def _write_page(comparison: "RunComparison", file: Path) -> None:
    from tasks.tracking.comparison.page import render

    try:
        file.write_text(render(comparison), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"--html {file}: the page cannot be written: {error.strerror}. Name a file in a folder that is there."
        ) from error
