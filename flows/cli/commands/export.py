"""`crosscheck export`."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO, cast

import click

from flows.cli import options
from tasks.core.wording import counted

FORMS = {"bird": "bird", "spider": "lines"}


@dataclass(frozen=True, kw_only=True)
class ExportOptions(options.Files):
    """Options of `crosscheck export`."""

    target: str = options.argument(metavar="FOLDER|RUN")
    submission: Path | None = options.option(
        "--submission",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the predictions of RUN to FILE, for the official evaluator of its benchmark.",
    )
    form: str | None = options.option(
        "--format",
        type=click.Choice(list(FORMS)),
        help="Form of --submission. [default: that of the run's benchmark]",
    )
    overwrite: bool = options.flag("--overwrite", "Replace the files of an earlier export.")


@click.command(
    "export",
    epilog="\b\nExamples:\n  crosscheck export results\n"
    "  python -c \"import pandas; print(pandas.read_parquet('results/runs.parquet'))\"\n"
    "  crosscheck export latest --submission predict.json\n"
    "      the predictions of the last finished run, as BIRD's or Spider's evaluator reads them\n"
    "  crosscheck export 20261121-020000-3f9a1c --submission predict.txt --format spider\n"
    "\nExit codes: 0 done; 2 bad input.",
)
@options.record(ExportOptions)
def command(arguments: ExportOptions) -> None:
    """Write the results of all runs to FOLDER: one Parquet file for each view of `crosscheck query`.

    With --submission: write the predictions of one RUN for the official evaluator, and print how to run it.
    """
    if arguments.submission is not None:
        _submission(arguments, arguments.submission.expanduser())
        return
    if arguments.form:
        raise click.UsageError("--format is the form of --submission FILE, which is missing.")
    from tasks.results.warehouse.views import export

    target = Path(arguments.target)
    rows = export(arguments.read_folder.warehouse, target.expanduser(), overwrite=arguments.overwrite)

    def show(stream: TextIO) -> None:
        for name, count in rows.items():
            click.echo(f"{target / f'{name}.parquet'}: {counted(count, 'row')}", stream)

    arguments.emit({"folder": str(target), "rows": rows}, show)


def _submission(arguments: ExportOptions, target: Path) -> None:
    from flows.evaluate.submission import export_submission
    from tasks.benchmarks.layouts import Submission
    from tasks.core.errors import ConfigurationError

    if target.exists() and not arguments.overwrite:
        raise ConfigurationError(f"--submission {target} exists. Name another file, or add --overwrite.")
    (run,) = arguments.read_runs(arguments.target)
    form = cast("Submission | None", FORMS[arguments.form] if arguments.form else None)
    export = export_submission(run, target, arguments.folders, form)

    def show(stream: TextIO) -> None:
        click.echo(
            f"{export.answered:,} predictions of run {run.run_id} are in {export.file}. Questions without an answer, "
            f"which count as wrong: {export.questions - export.answered:,} of {export.questions:,}.",
            stream,
        )
        if export.changed:
            click.echo(
                f"{len(export.changed):,} SQLs have a line break or tab inside a literal; this form cannot hold it, "
                f"and it became a space: {', '.join(export.changed[:10])}",
                stream,
            )
        if export.rewritten:
            click.echo(
                f'{len(export.rewritten):,} SQLs have "value" in them, which the evaluator replaces by 1 before it '
                f"runs them; its verdict on these may differ: {', '.join(export.rewritten[:10])}",
                stream,
            )
        if export.gold_file:
            click.echo(f"The gold SQL, which the evaluator needs, is in {export.gold_file}.", stream)
        if export.command:
            click.echo(f"Evaluate it with {export.evaluator}:\n  {export.command}", stream)
        else:
            click.echo(
                f"It is for {export.evaluator}. The benchmark does not have the gold SQL of every question, so the "
                "evaluator cannot run here.",
                stream,
            )
        click.echo(f"or here:\n  {export.score_command}", stream)

    arguments.emit({"run_id": run.run_id, **asdict(export)}, show)
