"""`crosscheck report`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from flows.cli import options
from flows.cli.output import emit, write_page


@dataclass(frozen=True, kw_only=True)
class ReportOptions(options.Data, options.Output):
    """Options of `crosscheck report`."""

    run: str = options.argument(metavar="RUN")
    html: Path | None = options.option(
        "--html",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="File of the page. [default: reports/RUN.html in the working folder]",
    )
    details: Literal["all", "wrong", "none"] = options.option(
        "--details",
        type=click.Choice(["all", "wrong", "none"]),
        default="all",
        help="Questions whose stages, prompts, replies and results are on the page.",
    )
    rows: int = options.number(
        "--rows",
        default=5,
        help="Rows of each result.",
    )
    mlflow: bool = options.option(
        "--mlflow/--no-mlflow",
        default=True,
        help="Whether the page becomes an artifact of the run in MLflow.",
    )
    open: bool = options.option("--open", is_flag=True, help="Open the page in a browser.")


@click.command(
    "report",
    epilog="\b\nExamples:\n"
    "  crosscheck report latest --open\n"
    "  crosscheck report 20261121-020000-3f9a1c --html report.html --details wrong\n"
    "\b\nRUN is an id, its beginning, MLflow's id, `latest` or `latest~1`; `crosscheck runs` lists the runs.\n"
    "\b\nExit codes: 0 written; 2 bad input.",
)
@options.record(ReportOptions)
def command(given: ReportOptions) -> None:
    """Write a RUN as one HTML page: scores, causes, cost, and every question with its stages beside the gold.

    The page loads nothing and can be sent by mail. Both SQLs are executed once more for their results. Prompts and
    replies come from the reply cache; no model is called.
    """
    from flows.cli.progress import open_progress
    from flows.runtime.logs import logging_to
    from flows.show.page import render_run
    from flows.show.question_view import view_questions
    from flows.show.run_view import view_run
    from tasks.settings.home import find_data
    from tasks.tracking.mlflow.store import find_store
    from tasks.tracking.mlflow.tracker import log_page
    from tasks.tracking.warehouse.run_names import find_run
    from tasks.tracking.warehouse.runs import Warehouse

    warehouse = Warehouse(given.folder.warehouse)
    found = find_run(given.run, warehouse.runs())
    stored, data = warehouse.read_run(found.run_id), find_data(given.data)
    file = given.html or given.folder.path / "reports" / f"{found.run_id}.html"
    with open_progress(sys.stderr) as progress, logging_to(given.folder):
        progress.step("Reading the run and its benchmark")
        view = view_run(stored, data, given.folder)
        scores = {"all": view.report.rows, "wrong": (*view.wrong, *view.unanswered), "none": ()}[
            given.details
        ]
        views = view_questions(stored, scores, data, given.folder, rows=given.rows, progress=progress)
        page = render_run(view, views)
        write_page(page, file, make_folder=given.html is None)
        problem = (
            log_page(find_store(given.folder), found.mlflow_run_id, page) if given.mlflow else "not asked"
        )
    place = file.resolve()
    emit(
        {
            "run_id": found.run_id,
            "page": str(place),
            "bytes": len(page.encode()),
            "mlflow": problem or "logged",
        },
        lambda stream: print(_said(place, problem, asked=given.mlflow), file=stream),
        as_json=given.as_json,
        text_too=False,
    )
    if given.open:
        click.launch(place.as_uri())


def _said(place: Path, problem: str, *, asked: bool) -> str:
    lines = [f"The page is {place}."]
    if asked:
        lines.append(
            f"It is not in MLflow: {problem}"
            if problem
            else "In MLflow it is the run's artifact report.html."
        )
    return "\n".join(lines)
