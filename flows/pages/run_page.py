"""The page of a run as a file, with the results, stages, prompts and replies of its questions."""

from dataclasses import dataclass
from pathlib import Path

from flows.evaluate.question_view import COMPARED_ON_PAGES, question_objects, view_questions
from flows.evaluate.run_view import view_run
from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from flows.runtime.output import write_page
from tasks.documents.html import html
from tasks.pages.leaderboard import FILE_NAME, write_leaderboard
from tasks.pages.run_page import Links, listed_rows, run_page
from tasks.results.compare import compare_with_previous
from tasks.results.leaderboard import leaderboard
from tasks.results.mlflow.store import find_store
from tasks.results.mlflow.tracker import log_page
from tasks.results.warehouse.run_names import find_run
from tasks.results.warehouse.runs import Warehouse


@dataclass(frozen=True)
class WrittenPage:
    """The page of a run."""

    run_id: str
    path: Path  # its file
    size: int  # in bytes
    problem: str  # why it is not in MLflow; "" if it is


def write_report(
    run: str,
    folders: Folders,
    progress: Progress,
    file: Path | None = None,
    *,
    only_wrong: bool = False,
    rows: int = 5,
) -> WrittenPage:
    """Write the page of the run that a user names, and log it to MLflow.

    Args:
        run: names the run.
        folders: the folders of the command.
        progress: shows what is done.
        file: where it is written; None: below `reports/` in the working folder, with the leaderboard beside it.
        only_wrong: details of the wrong and unanswered questions only.
        rows: of each result.
    """
    home = folders.home
    warehouse = Warehouse(home.warehouse)
    header = find_run(run, warehouse.runs())
    path = file or home.reports / f"{header.run_id}.html"
    progress.step("Reading the run and its benchmark")
    view = view_run(warehouse.read_run(header.run_id), folders)
    wrong = {row.question.id for row in (*view.wrong, *view.unanswered)}
    scores = [row for row in listed_rows(view) if not only_wrong or row.question.id in wrong]
    views = view_questions(
        view.record, scores, folders, rows=rows, compared=COMPARED_ON_PAGES, progress=progress
    )
    links = Links(board="" if file else FILE_NAME, before=compare_with_previous(view.record, warehouse))
    page = html(run_page(view, question_objects(views), links))
    write_page(page, path, make_folder=file is None)
    if file is None:
        write_leaderboard(leaderboard(warehouse), home)  # after the page, to which it links
    problem = log_page(find_store(home), header.mlflow_run_id, page)
    return WrittenPage(header.run_id, path.resolve(), len(page.encode()), problem)
