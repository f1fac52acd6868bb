"""`crosscheck tables`."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TextIO, cast

import click

from flows.cli import options
from tasks.core.errors import ConfigurationError

if TYPE_CHECKING:
    from tasks.scoring.papers.cells import PaperTable
    from tasks.scoring.papers.tables import Paper

TITLES = {"rsl-sql": "RSL-SQL", "sea-sql": "SEA-SQL", "dac": "DAC"}


@dataclass(frozen=True, kw_only=True)
class TablesOptions(options.Page, options.Files):
    """Options of `crosscheck tables`."""

    runs: tuple[str, ...] = options.argument(metavar="RUN...", nargs=-1, required=True)
    paper: str = options.option(
        "--paper",
        type=click.Choice(list(TITLES)),
        required=True,
        help="Paper whose tables are printed.",
    )
    as_markdown: bool = options.flag("--markdown", "Print Markdown.")
    as_latex: bool = options.flag("--latex", "Print LaTeX (package booktabs).")
    as_csv: bool = options.flag("--csv", "Print CSV: table, row, column, value, text, unknown.")


@click.command(
    "tables",
    epilog="\b\nExamples:\n"
    "  crosscheck tables latest --paper rsl-sql\n"
    "  crosscheck tables latest~1 latest --paper rsl-sql --markdown > tables.md\n"
    "      an ablation: the second run against the first\n"
    "  crosscheck tables latest --paper dac --html tables.html\n"
    "\nFor VES and R-VES, evaluate with --set benchmark.efficiency=true.\n"
    "\nExit codes: 0 done; 2 bad input.",
)
@options.record(TablesOptions)
def command(given: TablesOptions) -> None:
    """Print a paper's own tables for finished runs, of any pipeline and benchmark.

    By step and difficulty, ablations against the first RUN, schema linking, efficiency, tokens and costs. A cell that
    cannot be computed says "unknown" and why.
    """
    from flows.results.paper_runs import paper_runs
    from tasks.documents.html import html
    from tasks.documents.latex import comments, latex
    from tasks.documents.markdown import markdown
    from tasks.documents.model import Bullets, Document, Span
    from tasks.documents.terminal import print_document
    from tasks.scoring.papers.tables import in_paper, paper_tables

    if sum((given.as_json, given.as_markdown, given.as_latex, given.as_csv)) > 1:
        raise ConfigurationError("--json, --markdown, --latex and --csv cannot be used together.")
    runs = paper_runs(given.read_runs(*given.runs), given.folders)
    tables = paper_tables(runs, cast("Paper", given.paper))
    titles = Bullets(tuple(f"{run.name}: {run.title}" for run in runs))
    blocks = (block for one in tables for block in (one.as_table(), Bullets(one.remarks, "note")))
    document = Document("", (titles, *blocks))
    title = f"Tables of the {TITLES[given.paper]} paper"
    given.write_page(
        lambda: html(replace(document, title=title, kicker=Span("Crosscheck · own runs", "quiet")))
    )

    def show(stream: TextIO) -> None:
        if given.as_markdown:
            stream.write(markdown(document))
        elif given.as_latex:
            stream.write(comments(f"{run.name}: {run.title}" for run in runs))
            for one in tables:
                caption, notes = in_paper(one, runs)
                stream.write("\n" + latex(replace(one.as_table(), title=caption), notes))
        elif given.as_csv:
            _csv(tables, stream)
        else:
            print_document(document, stream)

    found = {
        "paper": given.paper,
        "runs": {run.name: run.title for run in runs},
        "tables": [t.as_object() for t in tables],
    }
    given.emit(found, show)
    given.name_page()


def _csv(tables: "tuple[PaperTable, ...]", stream: TextIO) -> None:
    from flows.cli.output import write_csv

    rows = (
        (one.title, name, column, "" if cell.value is None else cell.value, cell.text, cell.why)
        for one in tables
        for name, cells in one.rows
        for column, cell in zip(one.columns[1:], cells, strict=True)
    )
    write_csv((("table", "row", "column", "value", "text", "unknown"), *rows), stream)
