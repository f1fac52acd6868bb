"""`crosscheck answer`."""

import asyncio
import json
import sys

import click

from flows.cli import options

NO_ANSWER = 1


@click.command(
    "answer",
    epilog="\b\nExamples:\n"
    '  crosscheck answer "How many heroes are from Marvel?" --database superhero.sqlite --backbone openai\n'
    '  crosscheck answer "Total sales in May?" --database shop.db --evidence "sales refers to amt * qty" --json\n'
    "\b\nExit codes: 0 the SQL ran; 1 there is no SQL that runs; 2 bad input or configuration;\n"
    "3 the backbone gave no answer, trying again can help.",
)
@click.argument("question")
@click.option(
    "--database", required=True, metavar="FILE", help="The SQLite file to ask. It is opened read-only."
)
@click.option("--evidence", default="", metavar="TEXT", help="A hint, as BIRD gives them.")
@click.option(
    "--demonstrations",
    default="demo",
    show_default=True,
    metavar="NAME",
    help='The benchmark whose training questions serve as examples; "none" for none.',
)
@click.option(
    "--rows", type=click.IntRange(min=1), default=20, show_default=True, help="Rows of the result to show."
)
@options.backbone
@options.pipeline
@options.overrides
@options.data
@options.home
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    question: str,
    database: str,
    evidence: str,
    demonstrations: str,
    rows: int,
    backbone: str,
    pipeline: str,
    overrides: tuple[str, ...],
    data: str | None,
    home: str | None,
    as_json: bool,
) -> None:
    """Answer one question on a SQLite file of your own: its SQL, and what that returns.

    Runs the pipeline's stages in place, without Prefect and MLflow. Model replies are cached all the same.
    """
    from flows.answer.display import as_object, print_answer
    from flows.answer.run import Asked, answer_one
    from flows.cli.progress import open_progress
    from flows.runtime.logs import logging_to
    from tasks.settings.assemble import evaluation_settings
    from tasks.settings.home import find_home
    from tasks.settings.pipeline import without_demonstrations

    settings = evaluation_settings(
        benchmark="demo" if demonstrations == "none" else demonstrations,
        backbone=backbone,
        pipeline=pipeline,
        overrides=overrides,
        data=data,
        home=home,
    )
    if demonstrations == "none":
        settings = settings.model_copy(update={"pipeline": without_demonstrations(settings.pipeline)})
    asked = Asked(question, evidence, database, rows)
    with open_progress(sys.stderr) as progress, logging_to(find_home(home)):
        answered = asyncio.run(answer_one(settings, asked, progress))
    if as_json:
        click.echo(json.dumps(as_object(answered), ensure_ascii=False, default=str))
    else:
        print_answer(answered, sys.stdout)
    context.exit(answered.exit_code)
