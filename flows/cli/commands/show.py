"""`crosscheck show`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import click

from flows.cli import options
from tasks.core.errors import ConfigurationError

DEFAULT_PAGE = "reports/RUN.html"


@dataclass(frozen=True, kw_only=True)
class ShowOptions(options.Details, options.Files):
    """Options of `crosscheck show`."""

    run: str = options.argument(metavar="RUN")
    question: str | None = options.argument(metavar="[QUESTION]", required=False)
    wrong: bool = options.flag("--wrong", "List the questions with a wrong answer.")
    unanswered: bool = options.flag("--unanswered", "List the questions without an answer.")
    limit: int = options.number("--limit", default=20, help="List at most N questions of each kind.")
    prompts: bool = options.flag("--prompts", "With QUESTION: print whole prompts and replies.")
    rows: int = options.number(
        "--rows", default=5, help="With QUESTION, or on the page: rows of each result."
    )
    html: str | None = options.option(
        "--html",
        metavar="[FILE]",
        is_flag=False,
        flag_value=DEFAULT_PAGE,
        help="Write the run as one HTML page with every question, or with --wrong the wrong ones. Without FILE it is "
        "reports/RUN.html in the working folder.",
    )
    open: bool = options.flag("--open", "Write the page, and open it in a browser.")


@click.command(
    "show",
    epilog="\b\nExamples:\n"
    "  crosscheck show latest\n"
    "      score, problems, stages, cost and the comparison with the previous run\n"
    "  crosscheck show latest --details\n"
    "      also by difficulty and database, causes, calls, and the wrong questions\n"
    "  crosscheck show latest~1 --wrong --limit 100\n"
    "  crosscheck show 20261121-020000-3f9a1c 717\n"
    "      a question: verdict, predicted and gold SQL with their difference, both results, stages\n"
    "  crosscheck show latest 717 --prompts\n"
    "      also whole prompts and replies\n"
    "  crosscheck show latest --open\n"
    "      every question on one page: stages, prompts, replies, both results\n"
    "  crosscheck show latest --wrong --html wrong.html\n"
    "\nRUN is an id, its beginning, MLflow's id, `latest` or `latest~1`; `crosscheck runs` lists the runs.\n"
    "The page loads nothing and can be sent by mail; MLflow gets it as an artifact of the run.\n"
    "\nExit codes: 0 shown; 2 bad input.",
)
@options.record(ShowOptions)
def command(arguments: ShowOptions) -> None:
    """Show a RUN, or a QUESTION of it by its id with everything that is known about it.

    The gold SQL is shown for reading only. Prompts and replies come from the reply cache; the offline backbone and
    recordings run again at no cost. No other model is called.
    """
    if arguments.question is not None and (arguments.wrong or arguments.unanswered):
        raise ConfigurationError("--wrong and --unanswered list questions: leave QUESTION out.")
    if arguments.question is not None and (arguments.html is not None or arguments.open):
        raise ConfigurationError("--html and --open write the page of a run: leave QUESTION out.")
    if arguments.question is None and arguments.prompts:
        raise ConfigurationError("--prompts needs a question: crosscheck show RUN QUESTION --prompts.")
    if arguments.html is not None or arguments.open:
        _write_page(arguments)
        return
    (stored,) = arguments.read_runs(arguments.run, question_id=arguments.question)
    if arguments.question is not None:
        from flows.evaluate.question_view import COMPARED, QuestionDocument, find_question, view_questions
        from flows.pages.question import print_question

        score = find_question(stored, arguments.question)
        (viewed,) = view_questions(stored, [score], arguments.folders, rows=arguments.rows, compared=COMPARED)
        document = QuestionDocument.model_validate(viewed) if arguments.as_json else None
        arguments.emit(document, lambda stream: print_question(viewed, stream, whole=arguments.prompts))
        return
    from flows.evaluate.run_view import ListedQuestion, view_run
    from flows.pages.question import print_lists
    from flows.runtime.summary import print_summary
    from tasks.results.run_record import json_of

    view = view_run(stored, arguments.folders)
    only = arguments.wrong or arguments.unanswered
    kinds = {"wrong": view.wrong, "unanswered": view.unanswered}
    listed = {kind: rows for kind, rows in kinds.items() if getattr(arguments, kind) or not only}

    def show(stream: TextIO) -> None:
        if not only:
            print_summary(view.record, arguments.folder, stream, details=arguments.details, ended=False)
        if only or arguments.details:
            print_lists(view, listed, arguments.limit, stream)

    first = {kind: rows[: arguments.limit] for kind, rows in listed.items()} if arguments.as_json else {}
    lines = {kind: [json_of(ListedQuestion.of(view, row)) for row in rows] for kind, rows in first.items()}
    arguments.emit(json_of(view.record) | {"listed": lines}, show)


def _write_page(arguments: ShowOptions) -> None:
    from flows.pages.run_page import write_report

    file = None if arguments.html in (None, DEFAULT_PAGE) else Path(str(arguments.html))
    with arguments.progress() as progress:
        written = write_report(
            arguments.run, arguments.folders, progress, file, only_wrong=arguments.wrong, rows=arguments.rows
        )
    in_mlflow = (
        f"It is not in MLflow: {written.problem}"
        if written.problem
        else "In MLflow it is the run's artifact report.html."
    )
    arguments.emit(
        {
            "run_id": written.run_id,
            "page": str(written.path),
            "bytes": written.size,
            "mlflow": written.problem or "logged",
        },
        lambda stream: print(f"The page is {written.path}.\n{in_mlflow}", file=stream),
    )
    if arguments.open:
        click.launch(written.path.as_uri())
