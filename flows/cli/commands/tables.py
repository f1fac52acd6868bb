"""`crosscheck tables`."""

from dataclasses import dataclass, replace
from typing import TextIO

import click

from flows.cli import options


@dataclass(frozen=True, kw_only=True)
class TablesOptions(options.Page, options.Files):
    """Options of `crosscheck tables`."""

    runs: tuple[str, ...] = options.argument(metavar="RUN...", nargs=-1, required=True)
    as_markdown: bool = options.flag("--markdown", "Print Markdown.")


@click.command(
    "tables",
    epilog="\b\nExamples:\n"
    "  crosscheck tables latest\n"
    "  crosscheck tables latest~1 latest --markdown > tables.md\n"
    "      an ablation: the second run against the first\n"
    "\nFor VES and R-VES, evaluate with --set benchmark.efficiency=true.\n"
    "\nExit codes: 0 done; 2 bad input.",
)
@options.record(TablesOptions)
def command(arguments: TablesOptions) -> None:
    """Print the tables of the RSL-SQL, SEA-SQL and DAC papers for finished runs, of any pipeline and benchmark.

    By step and difficulty, ablations against the first RUN, schema linking, efficiency, tokens and costs. A cell that
    cannot be computed says "unknown".
    """
    from flows.evaluate.paper_tables import paper_runs, paper_tables
    from tasks.documents.html import html
    from tasks.documents.markdown import markdown
    from tasks.documents.model import Bullets, Document, Span
    from tasks.documents.terminal import print_document
    from tasks.results.run_record import json_of

    runs = paper_runs(arguments.read_runs(*arguments.runs), arguments.folders)
    tables = tuple(paper_tables(runs))
    titles = Bullets(tuple(f"{run.name}: {run.title}" for run in runs))
    document = Document("", (titles, *(table.as_table() for table in tables)))
    page = replace(document, title="Tables of runs", kicker=Span("Crosscheck · own runs", "quiet"))
    arguments.write_page(lambda: html(page))

    def show(stream: TextIO) -> None:
        if arguments.as_markdown:
            stream.write(markdown(document))
        else:
            print_document(document, stream)

    titles_by_name = {run.name: run.title for run in runs}
    arguments.emit({"runs": titles_by_name, "tables": [json_of(table) for table in tables]}, show)
    arguments.name_page()
