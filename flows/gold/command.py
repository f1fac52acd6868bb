"""`crosscheck verify-gold`."""

import json
import sys
from pathlib import Path
from typing import Literal

import click

from flows.cli import options

FAULTS_FOUND = 1


@click.command(
    "verify-gold",
    epilog="\b\nExamples:\n"
    "  crosscheck verify-gold --benchmark bird-dev --data ~/text2sql\n"
    "  crosscheck verify-gold --benchmark spider-dev --split train\n"
    "  crosscheck verify-gold --benchmark spider-dev --gold train_gold.sql --json\n"
    "  crosscheck verify-gold --benchmark bird-dev --slow 1 --strict\n"
    "\b\nExit codes: 0 verified, whatever was found; 1 with --strict, when a gold query fails, is stopped or is too\n"
    "large; 2 bad input or configuration.",
)
@options.benchmark
@click.option(
    "--split",
    type=click.Choice(["dev", "train"]),
    default="dev",
    show_default=True,
    help="The evaluated questions, or the training questions.",
)
@click.option(
    "--gold",
    metavar="FILE",
    help="Run this file on the benchmark's databases instead: a SQL, a tab and its database per line.",
)
@click.option(
    "--slow",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Call a query slow that takes longer.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 when a gold query does not run to its end.")
@options.benchmark_overrides
@options.data
@options.home
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    benchmark: str,
    split: Literal["dev", "train"],
    gold: str | None,
    slow: float,
    strict: bool,
    overrides: tuple[str, ...],
    data: str | None,
    home: str | None,
    as_json: bool,
) -> None:
    """Run every gold query of a benchmark, and list those that fail, are slow or return nothing.

    A gold that does not run makes every prediction wrong: put its question on the benchmark's quarantine list.
    """
    from flows.cli.progress import open_progress
    from flows.gold.display import as_object, print_gold
    from flows.gold.run import run_verify_gold
    from flows.runtime.logs import logging_to
    from tasks.settings.assemble import benchmark_settings
    from tasks.settings.home import find_data, find_home

    folder = find_home(home)
    with open_progress(sys.stderr) as progress, logging_to(folder):
        verified = run_verify_gold(
            benchmark_settings(benchmark, overrides),
            split=split,
            file=Path(gold).expanduser() if gold else None,
            slow_s=slow,
            data=find_data(data),
            home=folder,
            progress=progress,
        )
    if as_json:
        click.echo(json.dumps(as_object(verified), ensure_ascii=False))
        print_gold(verified, sys.stderr)
    else:
        print_gold(verified, sys.stdout)
    context.exit(FAULTS_FOUND if strict and verified.report.faults else 0)
