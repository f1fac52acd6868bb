"""`crosscheck show`."""

from dataclasses import dataclass
from typing import TextIO

import click

from flows.cli import options
from flows.cli.output import emit
from tasks.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class ShowOptions(options.Data, options.Output):
    """Options of `crosscheck show`."""

    run: str = options.argument(metavar="RUN")
    question: str | None = options.argument(metavar="[QUESTION]", required=False)
    wrong: bool = options.option("--wrong", is_flag=True, help="List the questions with a wrong answer.")
    unanswered: bool = options.option(
        "--unanswered", is_flag=True, help="List the questions without an answer."
    )
    limit: int = options.number(
        "--limit",
        default=20,
        help="List at most N questions of each kind.",
    )
    prompts: bool = options.option(
        "--prompts", is_flag=True, help="With QUESTION: print whole prompts and replies."
    )
    rows: int = options.number(
        "--rows",
        default=5,
        help="With QUESTION: rows of each result.",
    )


@click.command(
    "show",
    epilog="\b\nExamples:\n"
    "  crosscheck show latest\n"
    "      scores by stage, difficulty and database, causes, cost, and what is not right\n"
    "  crosscheck show latest~1 --wrong --limit 100\n"
    "  crosscheck show 20261121-020000-3f9a1c 717\n"
    "      a question: SQL and verdict of each stage, prompts, replies, result and gold side by side\n"
    "  crosscheck show latest 717 --prompts\n"
    "\b\nRUN is an id, its beginning, MLflow's id, `latest` or `latest~1`; `crosscheck runs` lists the runs.\n"
    "\b\nExit codes: 0 shown; 2 bad input.",
)
@options.record(ShowOptions)
def command(given: ShowOptions) -> None:
    """Show a RUN, or a QUESTION of it by its id with everything that is known about it.

    The gold SQL is shown for reading only. Prompts and replies come from the reply cache; the offline backbone and
    recordings are asked again, which costs nothing. No other model is called.
    """
    from tasks.settings.home import find_data
    from tasks.tracking.warehouse.run_names import find_run
    from tasks.tracking.warehouse.runs import Warehouse

    if given.question is not None and (given.wrong or given.unanswered):
        raise ConfigurationError("--wrong and --unanswered list questions: leave QUESTION out.")
    if given.question is None and given.prompts:
        raise ConfigurationError("--prompts needs a question: crosscheck show RUN QUESTION --prompts.")
    warehouse = Warehouse(given.folder.warehouse)
    stored = warehouse.read_run(find_run(given.run, warehouse.runs()).run_id)
    data = find_data(given.data)
    if given.question is not None:
        from flows.show.question_display import print_question
        from flows.show.question_view import find_question, question_as_object, view_question

        score = find_question(stored, given.question)
        shown = view_question(stored, score, data, given.folder, rows=given.rows)
        emit(
            question_as_object(shown) if given.as_json else None,
            lambda stream: print_question(shown, stream, whole=given.prompts),
            as_json=given.as_json,
            text_too=False,
        )
        return
    from flows.show.run_display import print_lists, print_run
    from flows.show.run_view import run_as_object, view_run

    view = view_run(stored, data, given.folder)
    only = given.wrong or given.unanswered
    found = {"wrong": view.wrong, "unanswered": view.unanswered}
    listed = {kind: rows for kind, rows in found.items() if getattr(given, kind) or not only}

    def show(stream: TextIO) -> None:
        if not only:
            print_run(view, stream)
        print_lists(view, listed, given.limit, stream)

    first = {kind: rows[: given.limit] for kind, rows in listed.items()}
    emit(run_as_object(view, first) if given.as_json else None, show, as_json=given.as_json, text_too=False)
