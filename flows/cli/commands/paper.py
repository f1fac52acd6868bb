"""`crosscheck tables` and `crosscheck plot`: runs in a paper."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from flows.cli import options


class Tables(options.Page, options.Files):
    """Print the tables of the RSL-SQL, SEA-SQL and DAC papers for finished runs, of any pipeline and benchmark.

    By step and difficulty, ablations against the first RUN, schema linking, efficiency, tokens and costs. A cell that
    cannot be computed says "unknown".

    Examples:
      crosscheck tables latest
      crosscheck tables latest~1 latest --markdown > tables.md
          an ablation: the second run against the first

    For VES and R-VES, evaluate with --set benchmark.efficiency=true.

    Exit codes: 0 done; 2 bad input.
    """

    runs: Annotated[tuple[str, ...], options.Argument("RUN...")]
    as_markdown: Annotated[bool, options.More("--markdown")] = False
    """Print Markdown."""

    def __call__(self) -> None:
        from flows.evaluate.paper_tables import paper_runs, paper_tables
        from tasks.documents.markdown import markdown
        from tasks.documents.model import Bullets, Document, Span
        from tasks.results.run_record import json_of

        runs = paper_runs(self.read_runs(*self.runs), self.folders)
        tables = tuple(paper_tables(runs))
        titles = Bullets(tuple(f"{run.name}: {run.title}" for run in runs))
        document = Document("", (titles, *(table.as_table() for table in tables)))
        page = replace(document, title="Tables of runs", kicker=Span("Crosscheck · own runs", "quiet"))
        self.write_page(lambda: page)
        text = markdown(document).removesuffix("\n") if self.as_markdown else document
        titles_by_name = {run.name: run.title for run in runs}
        self.emit({"runs": titles_by_name, "tables": [json_of(table) for table in tables]}, text)


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
    output: Annotated[Path | None, options.Metavar("FILE"), options.More(type=options.NewFile())] = None
    """Where to write the figure: a name that ends in .pdf, .svg or .png. [default: KIND.pdf]"""
    columns: Literal["1", "2"] = "1"
    """Width: one or two columns of a paper (3.35 or 7 inches)."""

    def __call__(self) -> None:
        file = self.output or Path(f"{self.kind}.pdf")
        columns: Literal[1, 2] = 1 if self.columns == "1" else 2
        self.results.plot(*self.runs, kind=self.kind, columns=columns, file=file)
        self.emit({"file": str(file), "kind": self.kind, "columns": columns}, f"The figure is {file}.")
