"""`crosscheck plot`."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import click

from flows.cli import options

KINDS = ("stages", "pareto", "trend", "causes")
"""As `tasks.pages.plots.KINDS`, which imports what `--help` has no time for; a test compares them."""


@dataclass(frozen=True, kw_only=True)
class PlotOptions(options.Output):
    """Options of `crosscheck plot`."""

    runs: tuple[str, ...] = options.argument(metavar="RUN...", nargs=-1, required=True)
    kind: str = options.option(
        "--kind",
        type=click.Choice(KINDS),
        default="stages",
        help="What is drawn: what stages gain and lose, score against cost, score by date, or causes of wrong answers.",
    )
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
    "  crosscheck plot latest~1 latest --kind causes --columns 2 --output causes.svg\n"
    "  crosscheck plot latest~2 latest~1 latest --kind pareto --output cost.png\n"
    "\nExit codes: 0 done; 2 bad input.",
)
@options.record(PlotOptions)
def command(plot_options: PlotOptions) -> None:
    """Draw a figure of runs for a paper.

    Intervals are 95 % Wilson score intervals. The palette is safe for colour-blind readers, and bars have patterns for
    black-and-white print.
    """
    from tasks.pages.plots import Width, plot, save

    file = plot_options.output or Path(f"{plot_options.kind}.pdf")
    width = cast("Width", int(plot_options.columns))
    save(plot(plot_options.read_runs(*plot_options.runs), plot_options.kind, width), file)
    plot_options.emit(
        {"file": str(file), "kind": plot_options.kind, "columns": width},
        lambda stream: click.echo(f"The figure is {file}.", stream),
    )
