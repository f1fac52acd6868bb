"""`crosscheck compare`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from flows.cli import options
from tasks.core.errors import ExitCode

if TYPE_CHECKING:
    from tasks.documents.model import Document
    from tasks.results.comparison import Comparison

SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class CompareOptions(options.Page):
    """Options of `crosscheck compare`."""

    run_a: str = options.argument(metavar="RUN")
    run_b: str = options.argument(metavar="RUN")
    rule: str | None = options.option(
        "--rule",
        metavar="NAME",
        help="Comparison rule: bird, spider, strict or subset. [default: the runs' headline rule]",
    )
    fail_if: str | None = options.option(
        "--fail-if",
        type=click.Choice(["worse"]),
        help="Exit with code 1 if the second run is worse: if the test proves it, or, with --margin, unless the test "
        "proves that it is not worse by the margin or more.",
    )
    margin: float | None = options.option(
        "--margin",
        type=click.FloatRange(min=0, max=100, min_open=True, max_open=True),
        metavar="POINTS",
        help="Also test whether the second run is not worse by this many percentage points or more (non-inferiority).",
    )
    everything: bool = options.flag(
        "--all", f"List every question whose verdict differs, not only the first {SHOWN}."
    )

    def compare(self) -> "tuple[Comparison, Document]":
        """Compare the runs, and return what was found with its document."""
        from tasks.pages.comparison import comparison_document
        from tasks.results.compare import compare
        from tasks.results.comparison import gated
        from tasks.results.noise import read_side
        from tasks.results.warehouse.runs import Warehouse

        warehouse = Warehouse(self.read_folder.warehouse)
        a, b = read_side(self.run_a, warehouse), read_side(self.run_b, warehouse)
        margin = None if self.margin is None else self.margin / 100
        comparison = compare(a, b, rule=self.rule, margin=margin)
        if self.fail_if:
            comparison = gated(comparison)
        return comparison, comparison_document(comparison, None if self.everything else SHOWN)


@click.command(
    "compare",
    epilog="\b\nExamples:\n"
    "  crosscheck compare latest~1 latest\n"
    "      compares the last finished run with the one before it\n"
    "  crosscheck compare 20261121-020000-3f9a1c 20261122 --html comparison.html\n"
    "      by run id or its first characters, or by the run's id in MLflow\n"
    "  crosscheck compare latest~1 latest --rule strict --all\n"
    "  crosscheck compare 20261121-020000-3f9a1c latest --fail-if worse --margin 2\n"
    "      for a release: fails unless it is proven that the last run is not worse by 2 points or more\n"
    "  crosscheck compare 20261121-020000-3f9a1c:repeats latest~2,latest~1,latest\n"
    "\nExit codes: 0 compared, and with --fail-if: no loss is proven, also where too few answers differ to prove one;\n"
    "1 the condition of --fail-if holds; 2 bad input, runs that cannot be compared, or with --fail-if: the same run\n"
    "twice, a run that is not complete or may not be ranked, or a loss that depends on failures that may pass.",
)
@options.record(CompareOptions)
def command(arguments: CompareOptions) -> int:
    """Test whether the second run is better than the first, and list the questions on which they differ.

    The runs are paired by question. Shows an exact McNemar test, a bootstrap interval of the difference, and the
    questions that only one of the runs answered correctly. If the difference is not significant, no run is better.

    RUN is one run. Several runs of one system, separated by commas, are compared by how often each question is right
    (an exact sign-flip test over questions). RUN:repeats stands for the repeats that `--repeats` made of a run.
    """
    from tasks.documents.html import html
    from tasks.documents.terminal import print_document
    from tasks.results.run_record import json_of

    comparison, document = arguments.compare()
    arguments.write_page(lambda: html(document))
    arguments.name_page()
    arguments.emit(json_of(comparison), lambda stream: print_document(document, stream))
    return ExitCode.NEGATIVE if comparison.gate and comparison.gate.failed else ExitCode.DONE
