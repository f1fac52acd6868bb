"""`crosscheck benchmarks verify`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from flows.cli import options
from tasks.core.errors import ExitCode

if TYPE_CHECKING:
    from tasks.documents.model import Document

PAGE_ROWS = 5
"""Rows of each result on the page of an answer key."""


@dataclass(frozen=True, kw_only=True)
class VerifyGoldOptions(options.Benchmark, options.BenchmarkOverrides, options.Page, options.Files):
    """Options of `crosscheck benchmarks verify`."""

    split: Literal["dev", "train"] = options.option(
        "--split",
        type=click.Choice(["dev", "train"]),
        default="dev",
        help="dev: the evaluated questions; train: the training questions.",
    )
    gold: Path | None = options.path(
        "--gold",
        metavar="FILE",
        help="Run this file's queries on the benchmark's databases instead: a SQL, a tab and its database per line.",
    )
    key: str | None = options.option(
        "--key",
        metavar="KEY",
        help="Check this answer key instead, a file or the name of a benchmark: run its SQL, and compare its results "
        "with those of the official golds.",
    )
    slow: float = options.option(
        "--slow",
        type=click.FloatRange(min=0),
        default=5.0,
        metavar="SECONDS",
        help="Queries that take longer are listed as slow.",
    )
    no_undecided: bool = options.flag(
        "--no-undecided",
        "Do not look for golds whose result the data do not decide, for which most golds are executed several times.",
    )
    strict: bool = options.flag(
        "--strict", "Exit with 1 if a gold query fails, is stopped, or returns a result that is too large."
    )


@click.command(
    "verify",
    epilog="\b\nExamples:\n"
    "  crosscheck benchmarks verify --benchmark bird-dev --data ~/text2sql\n"
    "  crosscheck benchmarks verify --benchmark spider-dev --split train\n"
    "  crosscheck benchmarks verify --benchmark spider-dev --gold train_gold.sql --json\n"
    "  crosscheck benchmarks verify --benchmark bird-dev --slow 1 --strict\n"
    "  crosscheck benchmarks verify --benchmark bird-dev --key corrections.json\n"
    "  crosscheck benchmarks verify --benchmark bird-mini-dev --key arcwise --html key.html\n"
    "      a page with both SQLs and both results of every question that the key changes\n"
    "\nAn answer key is the name of a benchmark whose golds it is, a file of id and SQL (JSON, JSON lines, CSV), or\n"
    "a file of corrections: an object with the key corrections, a list of objects with question_id, action (replace,\n"
    "add or withdraw), sql (a text or a list), reason and source. A run with\n"
    "--set benchmark.answer_keys=corrections.json has a score by this key beside the official one.\n"
    "\nExit codes: 0 all queries were run; 1 with --strict: a gold query failed, was stopped, or returned too\n"
    "large a result; 2 bad input or configuration, and with --key anything that is wrong with the key;\n"
    "3 a database cannot be read; run the command again.",
)
@options.record(VerifyGoldOptions)
def command(arguments: VerifyGoldOptions) -> int:
    """Run every gold query of a benchmark, and list those that fail, are slow or return nothing.

    If a gold query fails, every prediction of its question counts as wrong: put the question on the benchmark's
    quarantine list.
    """
    if arguments.key is not None:
        return _check_key(arguments, arguments.key)
    from flows.evaluate.gold_check import run_verify_gold
    from flows.pages.gold_check import VerifiedDocument, gold_document
    from tasks.settings.assemble import benchmark_settings

    with arguments.progress() as progress:
        verified = run_verify_gold(
            benchmark_settings(arguments.benchmark, arguments.overrides),
            arguments.folders,
            progress,
            split=arguments.split,
            file=arguments.gold,
            slow_s=arguments.slow,
            undecided=not arguments.no_undecided,
        )
    _show(arguments, VerifiedDocument.model_validate(verified), gold_document(verified))
    if verified.report.unreadable:
        return ExitCode.TRY_AGAIN
    return ExitCode.NEGATIVE if arguments.strict and verified.report.faults else ExitCode.DONE


def _check_key(arguments: VerifyGoldOptions, item: str) -> int:
    from flows.evaluate.gold_check import check_key
    from flows.pages.key_check import KeyDocument, key_document
    from tasks.settings.assemble import benchmark_settings

    settings = benchmark_settings(arguments.benchmark, arguments.overrides)
    with arguments.progress() as progress:
        checked = check_key(
            settings, item, arguments.folders, progress, rows=PAGE_ROWS if arguments.html else 0
        )
    _show(arguments, KeyDocument.model_validate(checked), key_document(checked))
    return ExitCode.BAD_INPUT if checked.problems else ExitCode.DONE


def _show(arguments: VerifyGoldOptions, value: Any, document: "Document") -> None:
    from tasks.documents.html import html
    from tasks.documents.terminal import print_document

    arguments.write_page(lambda: html(document))
    arguments.emit(value, lambda stream: print_document(document, stream), text_too=True)
    arguments.name_page()
