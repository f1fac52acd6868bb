"""`crosscheck prepare`."""

import json
import sys
from dataclasses import asdict

import click

from flows.cli import options

MENDABLE = 3


@click.command(
    "prepare",
    epilog="\b\nExamples:\n  crosscheck prepare --benchmark bird-dev --backbone openai\n"
    "  crosscheck prepare --benchmark spider-dev --backbone openai --questions 0-99\n"
    "\b\nIt costs one model call for each table that has undescribed columns. Interrupted or failed, the same command\n"
    "continues.\n"
    "\b\nExit codes: 0 done; 2 bad input or configuration; 3 some tables are left, run it again; 130 interrupted.",
)
@options.benchmark
@options.backbone
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Databases of the first N questions only."
)
@click.option(
    "--questions", metavar="IDS", help="Databases of these questions only: `717-845,900`, or @FILE."
)
@options.overrides
@options.data
@options.home
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    benchmark: str,
    backbone: str,
    limit: int | None,
    questions: str | None,
    overrides: tuple[str, ...],
    data: str | None,
    home: str | None,
    as_json: bool,
) -> None:
    """Do now what an evaluation would do first, and describe undescribed columns.

    Builds the demo, reads and checks the databases, embeds demonstrations, and has a model write one sentence on
    each column that the benchmark leaves undescribed.
    """
    from flows.cli.progress import open_progress
    from flows.questions.launch import launched
    from flows.runtime.control import Control
    from tasks.settings.assemble import evaluation_settings

    settings = evaluation_settings(
        benchmark=benchmark,
        backbone=backbone,
        pipeline="rsl-sql",
        overrides=overrides,
        limit=limit,
        questions=questions,
        data=data,
        home=home,
    )
    with open_progress(sys.stderr) as progress:
        control = Control(progress)
        with launched(settings, control) as prefect:
            from flows.descriptions.flow import describing

            prepared = prefect.loop.run(describing(control, prefect.preparation)(settings))
    if as_json:
        click.echo(json.dumps(asdict(prepared), ensure_ascii=False))
    else:
        click.echo(
            f"{prepared.databases} databases; {prepared.undescribed} columns had no description, "
            f"{prepared.described} have one now; {prepared.calls} model calls."
        )
    if prepared.left_out:
        click.echo(
            f"  {prepared.left_out} columns are left out of the model's replies: try another --backbone.",
            err=True,
        )
    for name, why in prepared.failures.items():
        click.echo(f"  {name}: {why}", err=True)
    context.exit(MENDABLE if prepared.failures else 0)
