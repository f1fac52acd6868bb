"""`crosscheck verify-gold`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from flows.cli import options
from flows.cli.output import emit
from tasks.errors import CrosscheckError

FAULTS_FOUND = 1


@dataclass(frozen=True, kw_only=True)
class VerifyGoldOptions(options.Benchmark, options.BenchmarkOverrides, options.Data, options.Output):
    """Options of `crosscheck verify-gold`."""

    split: Literal["dev", "train"] = options.option(
        "--split",
        type=click.Choice(["dev", "train"]),
        default="dev",
        help="dev: the evaluated questions; train: the training questions.",
    )
    gold: str | None = options.option(
        "--gold",
        metavar="FILE",
        help="Run this file's queries on the benchmark's databases instead: a SQL, a tab and its database per line.",
    )
    overlay: str | None = options.option(
        "--overlay",
        metavar="FILE",
        help="Check a file of corrected golds instead: run its SQL, and compare the results with the official golds'.",
    )
    slow: float = options.option(
        "--slow",
        type=click.FloatRange(min=0),
        default=5.0,
        metavar="SECONDS",
        help="Queries that take longer are listed as slow.",
    )
    strict: bool = options.option(
        "--strict",
        is_flag=True,
        help="Exit with 1 if a gold query fails, is stopped, or returns a result that is too large.",
    )


@click.command(
    "verify-gold",
    epilog="\b\nExamples:\n"
    "  crosscheck verify-gold --benchmark bird-dev --data ~/text2sql\n"
    "  crosscheck verify-gold --benchmark spider-dev --split train\n"
    "  crosscheck verify-gold --benchmark spider-dev --gold train_gold.sql --json\n"
    "  crosscheck verify-gold --benchmark bird-dev --slow 1 --strict\n"
    "  crosscheck verify-gold --benchmark bird-dev --overlay corrections.json\n"
    "\b\nCorrected golds: an object with the key corrections, a list of objects with question_id, action (replace,\n"
    "add, withdraw or undecided), sql (a text or a list), reason and source. A run with\n"
    "--set benchmark.golds=corrections.json has a second score on them beside the official one.\n"
    "\b\nExit codes: 0 all queries were run; 1 with --strict: a gold query failed, was stopped, or returned too\n"
    "large a result; 2 bad input or configuration, and with --overlay anything that is wrong with the file.",
)
@options.record(VerifyGoldOptions)
def command(given: VerifyGoldOptions) -> int:
    """Run every gold query of a benchmark, and list those that fail, are slow or return nothing.

    If a gold query fails, every prediction of its question counts as wrong: put the question on the benchmark's
    quarantine list.
    """
    from flows.cli.progress import open_progress

    if given.overlay is not None:
        return _check_overlay(given, Path(given.overlay).expanduser())
    from flows.gold.display import as_object, print_gold
    from flows.gold.run import GoldSettings, run_verify_gold
    from flows.runtime.logs import logging_to
    from tasks.settings.assemble import benchmark_settings
    from tasks.settings.home import find_data

    with open_progress(sys.stderr) as progress, logging_to(given.folder):
        settings = GoldSettings(
            benchmark_settings(given.benchmark, given.overrides),
            split=given.split,
            file=Path(given.gold).expanduser() if given.gold else None,
            slow_s=given.slow,
            data=find_data(given.data),
            home=given.folder,
        )
        verified = run_verify_gold(settings, progress)
    emit(as_object(verified), lambda stream: print_gold(verified, stream), as_json=given.as_json)
    return FAULTS_FOUND if given.strict and verified.report.faults else 0


def _check_overlay(given: VerifyGoldOptions, file: Path) -> int:
    from flows.cli.progress import open_progress
    from flows.gold.overlay import check_overlay
    from flows.gold.overlay_display import as_object, print_overlay
    from flows.runtime.logs import logging_to
    from tasks.settings.assemble import benchmark_settings
    from tasks.settings.home import find_data

    settings = benchmark_settings(given.benchmark, given.overrides)
    with open_progress(sys.stderr) as progress, logging_to(given.folder):
        checked = check_overlay(settings, file, find_data(given.data), given.folder, progress)
    emit(as_object(checked), lambda stream: print_overlay(checked, stream), as_json=given.as_json)
    return CrosscheckError.exit_code if checked.problems else 0
