"""The results of a working folder as pages at a local address: all runs, a run, a question, two runs side by side."""

import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from flows.evaluate.question_view import (
    COMPARED,
    COMPARED_ON_PAGES,
    find_question,
    question_objects,
    view_questions,
)
from flows.evaluate.run_view import view_run
from flows.runtime.control import Progress
from flows.runtime.folder_use import LOCALHOST
from flows.runtime.folders import Folders
from flows.runtime.output import write_page
from tasks.core.errors import ConfigurationError, CrosscheckError, DataError
from tasks.documents.html import html
from tasks.documents.model import Block, Column, Document, Questions, Section, Sentence, Span, Table, spans
from tasks.pages.comparison import comparison_document
from tasks.pages.lists import FILE_NAME, Address, leaderboard_document, runs_table, write_leaderboard
from tasks.pages.run_page import Links, listed_rows, question_items, run_page
from tasks.results.compare import compare, compare_with_previous
from tasks.results.leaderboard import leaderboard
from tasks.results.mlflow.store import find_store
from tasks.results.mlflow.tracker import log_page
from tasks.results.run_record import RunHeader, RunRecord
from tasks.results.warehouse.runs import Warehouse, comparable_runs, find_run

log = logging.getLogger(__name__)
ROWS: Final = 20
"""Rows of each result on the page of a question."""
MAX_RUNS: Final = 1_000
"""Runs in a list."""
HOSTS: Final = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")
"""Names of this machine in the header Host: a page of another site that asks under its own name is refused."""


def address(*parts: str) -> str:
    """Return the address of a page.

    >>> address("runs", "20261121-020000-3f9a1c", "a/b")
    '/runs/20261121-020000-3f9a1c/a%2Fb'
    """
    return "/" + "/".join(quote(part, safe="") for part in parts)


class Viewer:
    """The pages of a working folder, which only reads it; one page is made at a time."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._warehouse = Warehouse(folders.home.warehouse)
        self._lock = Lock()

    def page(self, path: str) -> str:
        """Return the page at an address; a LookupError says that there is none."""
        with self._lock:
            return html(_with_links(self._document([unquote(part) for part in path.split("/")[1:]])))

    def _document(self, parts: Sequence[str]) -> Document:
        match parts:
            case [""]:
                runs = self._warehouse.runs()
                return _list_of_runs("All runs", runs, lambda run: address("compare", run.run_id))
            case ["leaderboard"]:
                boards = leaderboard(self._warehouse)
                return leaderboard_document(boards, lambda run_id: address("runs", run_id))
            case ["runs", run]:
                return self._run(self._read(run))
            case ["runs", run, question]:
                return self._question(self._read(run, question), question)
            case ["compare", run]:
                return self._choice(find_run(run, self._warehouse.runs()))
            case ["compare", a, b]:
                return self._comparison(self._read(a), self._read(b))
        raise LookupError("There is no such page.")

    def _read(self, name: str, question_id: str | None = None) -> RunRecord:
        return self._warehouse.read_run(find_run(name, self._warehouse.runs()).run_id, question_id)

    def _run(self, record: RunRecord) -> Document:
        links = Links(
            board=address("leaderboard"),
            question=lambda question_id: address("runs", record.run_id, question_id),
            before=compare_with_previous(record, self._warehouse),
        )
        page = run_page(view_run(record, self._folders), questions=(), links=links)
        comparison = Span("compare with another run", link=address("compare", record.run_id))
        return replace(page, kicker=(*spans(page.kicker), " · ", comparison))

    def _choice(self, run: RunHeader) -> Document:
        runs = comparable_runs(run, self._warehouse.runs())
        title = f"Compare {run.pipeline} with {run.backbone} on {run.benchmark} with another run"
        page = _list_of_runs(title, runs, lambda first: address("compare", first.run_id, run.run_id))
        return replace(page, kicker=("Crosscheck · run ", Span(run.run_id, link=address("runs", run.run_id))))

    def _comparison(self, a: RunRecord, b: RunRecord) -> Document:
        page = comparison_document(compare(a, b))
        first = Span(f"A {a.run_id}", link=address("runs", a.run_id))
        second = Span(f"B {b.run_id}", link=address("runs", b.run_id))
        swapped = Span("swap", link=address("compare", b.run_id, a.run_id))
        return replace(page, kicker=(*spans(page.kicker), " · ", first, " · ", second, " · ", swapped))

    def _question(self, record: RunRecord, question_id: str) -> Document:
        score = find_question(record, question_id)
        views = view_questions(record, [score], self._folders, rows=ROWS, compared=COMPARED)
        # repeated parts of the prompts are apart from the questions, once
        items, shared = question_items(view_run(record, self._folders), [score], question_objects(views))
        return Document(
            f"Question {question_id}",
            (Questions(items), Section("Other runs", (self._answers_of_others(record, question_id),))),
            (
                f"Crosscheck · {record.benchmark} · ",
                Span(f"{record.pipeline} with {record.backbone}", link=address("runs", record.run_id)),
                f" · run {record.run_id}",
            ),
            packed=shared,
        )

    def _answers_of_others(self, record: RunRecord, question_id: str) -> Block:
        runs = {run.run_id: run for run in self._warehouse.runs()}
        rows = tuple(
            (
                Span(runs[run_id].pipeline, link=address("runs", run_id, question_id)),
                runs[run_id].backbone,
                run_id,
                Span("right", "better") if right else Span("wrong", "bad"),
                Span(sql, "code") if sql else "no SQL",
            )
            for run_id, sql, right in self._warehouse.answers_to(question_id, record)
        )
        if not rows:
            return Sentence("No other run has answered this question.")
        columns = (
            Column("pipeline", "text"), Column("backbone", "text", under=True), Column("run", "text", under=True),
            Column(f"verdict ({record.rule})", "text", brief=True), Column("SQL", "text"),
        )  # fmt: skip
        return Table("", columns, rows[:MAX_RUNS], wide=True, search=True)


def _list_of_runs(title: str, runs: Sequence[RunHeader], comparison_of: Address) -> Document:
    if not runs:
        return Document(title, (Sentence("There is no such run. `crosscheck evaluate` makes one."),))
    table = runs_table(
        runs,
        MAX_RUNS,
        page_of=lambda run: address("runs", run.run_id),
        comparison_of=lambda run: comparison_of(run) if run.is_finished and not run.rows_removed else "",
    )
    return Document(title, (table,))


def _with_links(page: Document) -> Document:
    """Put links to all runs and to the leaderboard above the heading of a page."""
    pages = (Span("All runs", link=address("")), " · ", Span("Leaderboard", link=address("leaderboard")))
    return replace(page, kicker=(*pages, " · ", *spans(page.kicker)) if page.kicker else pages)


def problem_page(problem: str) -> str:
    """Return the page that says why there is no other."""
    return html(_with_links(Document("This page cannot be shown", (Sentence(problem, "message"),))))


def open_server(folders: Folders, port: int) -> ThreadingHTTPServer:
    """Return the server of the pages at a port (0: any free one) of this machine alone; `serve_forever` runs it."""
    viewer = Viewer(folders)

    class Handler(BaseHTTPRequestHandler):
        """Answers with the viewer's pages; there is nothing to change, so GET is all it knows."""

        def do_GET(self) -> None:
            if not HOSTS.fullmatch(self.headers.get("Host", "")):
                address = f"http://{LOCALHOST}:{self.connection.getsockname()[1]}/"
                self._answer(HTTPStatus.FORBIDDEN, problem_page(f"Open it as {address}."))
                return
            try:
                self._answer(HTTPStatus.OK, viewer.page(urlsplit(self.path).path))
            except LookupError as error:
                self._answer(HTTPStatus.NOT_FOUND, problem_page(str(error.args[0])))
            except CrosscheckError as error:
                status = HTTPStatus.NOT_FOUND if isinstance(error, DataError) else HTTPStatus.CONFLICT
                self._answer(status, problem_page(str(error)))
            except Exception as error:
                log.exception("The page %s cannot be shown", self.path)
                problem = f"internal error ({type(error).__name__}: {error})"
                page = problem_page(f"{problem}. The details are in crosscheck.log.")
                self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, page)

        def _answer(self, status: HTTPStatus, page: str) -> None:
            content = page.encode("utf-8", "replace")
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            with suppress(ConnectionError):  # the browser has gone to another page
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Print no line for a request."""

    try:
        return ThreadingHTTPServer((LOCALHOST, port), Handler)
    except OSError as error:
        raise ConfigurationError(
            f"Port {port} of {LOCALHOST} cannot be used ({error.strerror}). Stop the program that uses it, or name "
            "another port with --port."
        ) from error


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
    """Write the page of the run that a user names, with so many `rows` of each result, and log it to MLflow.

    Without a file it is below `reports/` in the working folder, with the leaderboard beside it. `only_wrong`: details
    of the wrong and unanswered questions only.
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
