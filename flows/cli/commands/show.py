"""`crosscheck show`."""

from pathlib import Path
from typing import Annotated, TextIO

import click
from annotated_types import Ge

from flows.cli import options
from tasks.core.errors import ConfigurationError

DEFAULT_PAGE = "reports/RUN.html"


class Show(options.Details, options.Files):
    """Show a RUN, or a QUESTION of it by its id with everything that is known about it.

    The gold SQL is shown for reading only. Prompts and replies come from the reply cache; the offline backbone and
    recordings run again at no cost. No other model is called.

    Examples:
      crosscheck show latest
          score, problems, stages, cost and the comparison with the previous run
      crosscheck show latest --details
          also by difficulty and database, causes, calls, and the wrong questions
      crosscheck show latest~1 --wrong --limit 100
      crosscheck show 20261121-020000-3f9a1c 717
          a question: verdict, predicted and gold SQL with their difference, both results, stages
      crosscheck show latest 717 --prompts
          also whole prompts and replies
      crosscheck show latest --open
          every question on one page: stages, prompts, replies, both results
      crosscheck show latest --wrong --html wrong.html

    RUN is an id, its beginning, MLflow's id, `latest` or `latest~1`; `crosscheck runs` lists the runs.
    The page loads nothing and can be sent by mail; MLflow gets it as an artifact of the run.

    Exit codes: 0 shown; 2 bad input.
    """

    run: Annotated[str, options.Argument("RUN")]
    question: Annotated[str | None, options.Argument("[QUESTION]")] = None
    wrong: bool = False
    """List the questions with a wrong answer."""
    unanswered: bool = False
    """List the questions without an answer."""
    limit: Annotated[int, Ge(1)] = 20
    """List at most N questions of each kind."""
    prompts: bool = False
    """With QUESTION: print whole prompts and replies."""
    rows: Annotated[int, Ge(1)] = 5
    """With QUESTION, or on the page: rows of each result."""
    html: Annotated[
        str | None, options.Metavar("[FILE]"), options.More(is_flag=False, flag_value=DEFAULT_PAGE)
    ] = None
    """Write the run as one HTML page with every question, or with --wrong the wrong ones. Without FILE it is
    reports/RUN.html in the working folder."""
    open: bool = False
    """Write the page, and open it in a browser."""

    def __call__(self) -> None:
        if self.question is not None and (self.wrong or self.unanswered):
            raise ConfigurationError("--wrong and --unanswered list questions: leave QUESTION out.")
        if self.question is not None and (self.html is not None or self.open):
            raise ConfigurationError("--html and --open write the page of a run: leave QUESTION out.")
        if self.question is None and self.prompts:
            raise ConfigurationError("--prompts needs a question: crosscheck show RUN QUESTION --prompts.")
        if self.html is not None or self.open:
            self._write_page()
            return
        (stored,) = self.read_runs(self.run, question_id=self.question)
        if self.question is not None:
            from flows.evaluate.question_view import COMPARED, QuestionDocument, find_question, view_questions
            from flows.pages.question import print_question

            score = find_question(stored, self.question)
            (viewed,) = view_questions(stored, [score], self.folders, rows=self.rows, compared=COMPARED)
            document = QuestionDocument.model_validate(viewed) if self.as_json else None
            self.emit(document, lambda stream: print_question(viewed, stream, whole=self.prompts))
            return
        from flows.evaluate.run_view import ListedQuestion, view_run
        from flows.pages.question import print_lists
        from flows.runtime.summary import print_summary
        from tasks.results.run_record import json_of

        view = view_run(stored, self.folders)
        only = self.wrong or self.unanswered
        kinds = {"wrong": view.wrong, "unanswered": view.unanswered}
        listed = {kind: rows for kind, rows in kinds.items() if getattr(self, kind) or not only}

        def show(stream: TextIO) -> None:
            if not only:
                print_summary(view.record, self.folder, stream, details=self.details, ended=False)
            if only or self.details:
                print_lists(view, listed, self.limit, stream)

        first = {kind: rows[: self.limit] for kind, rows in listed.items()} if self.as_json else {}
        lines = {
            kind: [json_of(ListedQuestion.of(view, row)) for row in rows] for kind, rows in first.items()
        }
        self.emit(json_of(view.record) | {"listed": lines}, show)

    def _write_page(self) -> None:
        from flows.pages.viewer import write_report

        file = None if self.html in (None, DEFAULT_PAGE) else Path(str(self.html))
        with self.progress() as progress:
            written = write_report(
                self.run, self.folders, progress, file, only_wrong=self.wrong, rows=self.rows
            )
        in_mlflow = (
            f"It is not in MLflow: {written.problem}"
            if written.problem
            else "In MLflow it is the run's artifact report.html."
        )
        self.emit(
            {
                "run_id": written.run_id,
                "page": str(written.path),
                "bytes": written.size,
                "mlflow": written.problem or "logged",
            },
            f"The page is {written.path}.\n{in_mlflow}",
        )
        if self.open:
            click.launch(written.path.as_uri())
