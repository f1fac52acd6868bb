"""`crosscheck benchmarks prepare`."""

import sys
from dataclasses import asdict

import click

from flows.cli import options
from tasks.core.errors import ExitCode
from tasks.core.wording import counted


class Prepare(options.Evaluation):
    """Prepare a benchmark for evaluations, and describe undescribed columns.

    Builds the demo, reads and checks the databases, embeds demonstrations, and lets a model write one sentence
    about each column without a description. With `--limit` or `--questions`, only the databases of those questions
    are prepared.

    Examples:
      crosscheck benchmarks prepare --benchmark bird-dev --backbone openai
      crosscheck benchmarks prepare --benchmark spider-dev --backbone openai --questions 0-99

    It costs one model call for each table with undescribed columns. Interrupted or failed? The same command
    continues.

    Exit codes: 0 done; 2 bad input or configuration; 3 some tables failed, run it again; 130 interrupted.
    """

    def __call__(self) -> int:
        from flows.cli.progress import open_progress
        from flows.evaluate.run import launched
        from flows.runtime.control import Control
        from tasks.documents.text import visible

        settings = self.settings_of(pipeline="rsl-sql")
        with open_progress(sys.stderr) as progress:
            control = Control(progress)
            with launched(settings, control) as prefect:
                from flows.evaluate.descriptions import prepare_flow

                prepared = prefect.loop.run(prepare_flow(control, prefect.preparation)(settings))
        self.emit(
            asdict(prepared),
            f"{counted(prepared.databases, 'database')}; {counted(prepared.undescribed, 'column')} without a "
            f"description, {prepared.described:,} described; {counted(prepared.calls, 'model call')}.",
        )
        if prepared.described:
            click.echo(
                f"  Written by {visible(settings.backbone.name)}. Prompts of every model that is evaluated in this "
                "working folder show them, and its runs say so; "
                f"without {self.folder.path / 'descriptions'} they are written again.",
                err=True,
            )
        if prepared.left_out:
            click.echo(
                f"  Left out of the model's replies: {counted(prepared.left_out, 'column')}. Try another --backbone.",
                err=True,
            )
        for name, why in prepared.failures.items():
            click.echo(visible(f"  {name}: {why}"), err=True)
        return ExitCode.TRY_AGAIN if prepared.failures else ExitCode.DONE
