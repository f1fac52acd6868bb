"""`crosscheck plot`."""

from pathlib import Path
from typing import Annotated, Literal, cast

from flows.cli import options

Kind = Literal["stages", "pareto", "trend", "causes"]
"""As `tasks.pages.plots.KINDS`, which imports what `--help` has no time for; a test compares them."""


class Plot(options.Output):
    """Draw a figure of runs for a paper.

    Intervals are 95 % Wilson score intervals. The palette is safe for colour-blind readers, and bars have patterns for
    black-and-white print.

    Examples:
      crosscheck plot latest
      crosscheck plot latest~1 latest --kind causes --columns 2 --output causes.svg
      crosscheck plot latest~2 latest~1 latest --kind pareto --output cost.png

    Exit codes: 0 done; 2 bad input.
    """

    runs: Annotated[tuple[str, ...], options.Argument("RUN...")]
    kind: Kind = "stages"
    """What is drawn: what stages gain and lose, score against cost, score by date, or causes of wrong answers."""
    output: Path | None = None
    """Where to write the figure: a name that ends in .pdf, .svg or .png. [default: KIND.pdf]"""
    columns: Literal["1", "2"] = "1"
    """Width: one or two columns of a paper (3.35 or 7 inches)."""

    def __call__(self) -> None:
        from tasks.pages.plots import Width, plot, save

        file = self.output or Path(f"{self.kind}.pdf")
        width = cast("Width", int(self.columns))
        save(plot(self.read_runs(*self.runs), self.kind, width), file)
        self.emit({"file": str(file), "kind": self.kind, "columns": width}, f"The figure is {file}.")
