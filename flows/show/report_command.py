"""`crosscheck report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from flows.cli import options


@dataclass(frozen=True, kw_only=True)
class ReportOptions(options.Files):
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
    rows: int = options.number("--rows", default=5, help="Rows of each result.")
    mlflow: bool = options.option(
        "--mlflow/--no-mlflow",
        default=True,
        help="Whether the page becomes an artifact of the run in MLflow.",
    )
    open: bool = options.flag("--open", "Open the page in a browser.")


@click.command(
    "report",
    epilog="\b\nExamples:\n"
    "  crosscheck report latest --open\n"
    "  crosscheck report 20261121-020000-3f9a1c --html report.html --details wrong\n"
    "\nRUN is an id, its beginning, MLflow's id, `latest` or `latest~1`; `crosscheck runs` lists the runs.\n"
    "\nExit codes: 0 written; 2 bad input.",
)
@options.record(ReportOptions)
def command(given: ReportOptions) -> None:
    """Write a RUN as one HTML page: scores, causes, cost, and every question with its stages beside the gold.

    The page loads nothing and can be sent by mail. Both SQLs are executed once more for their results. Prompts and
    replies come from the reply cache; no model is called.
    """
    from flows.show.report import PageChoice, write_report

    choice = PageChoice(given.html, given.details, given.rows, given.mlflow)
    with given.progress() as progress:
        written = write_report(given.run, given.folders, choice, progress)
    given.emit(
        {
            "run_id": written.run_id,
            "page": str(written.place),
            "bytes": written.size,
            "mlflow": written.problem or "logged",
        },
        lambda stream: print(_message(written.place, written.problem, asked=given.mlflow), file=stream),
    )
    if given.open:
        click.launch(written.place.as_uri())


def _message(place: Path, problem: str, *, asked: bool) -> str:
    lines = [f"The page is {place}."]
    if asked:
        lines.append(
            f"It is not in MLflow: {problem}"
            if problem
            else "In MLflow it is the run's artifact report.html."
        )
    return "\n".join(lines)
