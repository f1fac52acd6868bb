"""`crosscheck plot`."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import click

from flows.cli import options

KINDS = ("stages", "pareto", "trend", "causes", "difficulty", "turns", "noise")
"""As `tasks.plots.plot.KINDS`, which imports what `--help` has no time for; a test compares them."""


@dataclass(frozen=True, kw_only=True)
class PlotOptions(options.Output):
    """Options of `crosscheck plot`."""

    runs: tuple[str, ...] = options.argument(metavar="RUN...", nargs=-1, required=True)
    kind: str = options.option("--kind", type=click.Choice(KINDS), default="stages", help="What is drawn.")
    output: Path | None = options.option(
        "--output",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Where to write the figure: a name that ends in .pdf, .svg or .png. [default: KIND.pdf]",
    )
    columns: str = options.option(
        "--columns",
        type=click.Choice(["1", "2"]),
        default="1",
        help="Width: one or two columns of a paper (3.35 or 7 inches).",
    )


@click.command(
    "plot",
    epilog="\b\nExamples:\n"
    "  crosscheck plot latest\n"
    "  crosscheck plot latest~1 latest --kind difficulty --columns 2 --output difficulty.svg\n"
    "  crosscheck plot latest~2 latest~1 latest --kind pareto --output cost.png\n"
    "  crosscheck plot latest --kind noise\n"
    "\n\b\nKinds:\n"
    "  stages      what each stage of the pipeline gains and loses; at most four runs\n"
    "  pareto      execution accuracy against cost from scratch\n"
    "  trend       execution accuracy by date\n"
    "  causes      causes of wrong answers, each as a share of the scored questions\n"
    "  difficulty  execution accuracy by difficulty\n"
    "  turns       execution accuracy if an agent is stopped after a turn\n"
    "  noise       the repeats that `crosscheck noise` has made of one run\n"
    "\nExit codes: 0 done; 2 bad input.",
)
@options.record(PlotOptions)
def command(given: PlotOptions) -> None:
    """Draw a figure of runs for a paper.

    Intervals are Wilson's at 95 %. The colours can be told apart with any colour vision, and bars have patterns for
    print without colours.
    """
    from tasks.plots.plot import plot
    from tasks.plots.style import Width, format_of, save
    from tasks.tracking.warehouse.runs import Warehouse

    file = given.output or Path(f"{given.kind}.pdf")
    format_of(file)  # before the figure is drawn
    width = cast("Width", int(given.columns))
    save(plot(Warehouse(given.read_folder.warehouse), given.runs, given.kind, width), file)
    given.emit(
        {"file": str(file), "kind": given.kind, "columns": width},
        lambda stream: click.echo(f"The figure is {file}.", stream),
    )
