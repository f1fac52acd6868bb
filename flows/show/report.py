"""Writes the page of a run, beside the leaderboard to which it links."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from flows.cli.output import write_page
from flows.report.run_before import compared_with_run_before
from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from flows.show.page import Links, render_run
from flows.show.question_view import view_questions
from flows.show.run_view import view_run
from tasks.tracking.leaderboard.document import FILE_NAME, write_leaderboard
from tasks.tracking.leaderboard.leaderboard import leaderboard
from tasks.tracking.mlflow.ended_runs import log_page
from tasks.tracking.mlflow.store import find_store
from tasks.tracking.warehouse.run_names import find_run
from tasks.tracking.warehouse.runs import Warehouse


@dataclass(frozen=True)
class PageChoice:
    """What the page of a run has, and where it goes."""

    # where it is written; None: below `reports/` in the working folder, with the leaderboard beside it
    file: Path | None = None
    # questions whose stages, prompts, replies and results are on it
    details: Literal["all", "wrong", "none"] = "all"
    rows: int = 5  # of each result
    mlflow: bool = True  # whether it becomes an artifact of the run in MLflow


@dataclass(frozen=True)
class WrittenPage:
    """The page of a run."""

    run_id: str
    place: Path  # its file
    size: int  # in bytes
    problem: str  # why it is not in MLflow; "" if it is


def write_report(run: str, folders: Folders, choice: PageChoice, progress: Progress) -> WrittenPage:
    """Write the page of the run that a user names.

    Raises:
        CrosscheckError: there is no such run, or the file cannot be written.
    """
    home = folders.home
    warehouse = Warehouse(home.warehouse)
    found = find_run(run, warehouse.runs())
    file = choice.file or home.reports / f"{found.run_id}.html"
    progress.step("Reading the run and its benchmark")
    view = view_run(warehouse.read_run(found.run_id), folders)
    scores = {"all": view.stored.rows, "wrong": (*view.wrong, *view.unanswered), "none": ()}[choice.details]
    views = view_questions(view.stored, scores, folders, rows=choice.rows, progress=progress)
    links = Links(board="" if choice.file else FILE_NAME, before=compared_with_run_before(found.run_id, home))
    page = render_run(view, views, links)
    write_page(page, file, make_folder=choice.file is None)
    if choice.file is None:
        write_leaderboard(leaderboard(warehouse), home)  # after the page, to which it links
    problem = log_page(find_store(home), found.mlflow_run_id, page) if choice.mlflow else "not asked"
    return WrittenPage(found.run_id, file.resolve(), len(page.encode()), problem)
