"""`crosscheck rerun`."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from flows.cli import options
from tasks.core.errors import ConfigurationError, ExitCode

if TYPE_CHECKING:
    from tasks.settings.evaluation import RerunSettings


@dataclass(frozen=True, kw_only=True)
class RerunOptions(options.Labels, options.Details, options.Files):
    """Options of `crosscheck rerun`."""

    run: str | None = options.argument(required=False, metavar="[RUN]")
    night: str | None = options.option(
        "--night",
        metavar="NIGHT",
        help="Instead of RUN: of every evaluation of this nightly run, the last run. Evaluations that have none are "
        "made. A name as `crosscheck nights show` lists it, `latest`, `latest~1`, ...",
    )
    only: str | None = options.option(
        "--only",
        type=click.Choice(["errors", "wrong", "empty", "timeouts"]),
        help="Questions to repeat. errors: failed for a retryable reason; wrong: scored wrong; empty: the SQL returned "
        "no row; timeouts: the SQL exceeded the time limit.  [default: errors; with --from every question that went "
        "through STAGE]",
    )
    questions: str | None = options.option(
        "--questions",
        metavar="IDS",
        help="Repeat these questions instead of those of --only: ids and ranges, `717-845,900`, or @FILE.",
    )
    from_stage: str | None = options.option(
        "--from",
        metavar="STAGE",
        help="Run this stage and the later ones again; keep the results of earlier stages.",
    )
    fresh: bool = options.flag(
        "--fresh", "Request new replies from the model instead of cached ones; they are paid for again."
    )
    budget: float | None = options.option(
        "--budget",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="Stop when the calls of this command have cost this amount.",
    )
    overrides: tuple[str, ...] = options.set_option("Change one of the settings listed below.")

    def settings(self) -> "RerunSettings":
        """Return the settings of the options."""
        from tasks.settings.evaluation import RerunSettings

        names = ("only", "questions", "from_stage", "fresh", "overrides")
        folders = {"data": str(self.folders.data), "home": str(self.folders.home.path)}
        chosen = {name: getattr(self, name) for name in names}
        return RerunSettings.of_options(run=self.run or "latest", **chosen, **folders)


@click.command(
    "rerun",
    cls=options.GroupedCommand,
    epilog="\b\nExamples:\n"
    "  crosscheck rerun latest\n"
    "      retries the failed questions of the last run and keeps its other answers\n"
    "  crosscheck rerun 20261121-020000 --questions 717-720 --from binary_selection\n"
    "  crosscheck rerun latest --from vote\n"
    "      selects among the candidates of every question again\n"
    "  crosscheck rerun latest --only wrong --fresh\n"
    "  crosscheck rerun --night latest\n"
    "      retries everything that the last nightly run left without an answer\n"
    "\nThe settings are those of RUN. --set can change backbone.concurrency, backbone.retries, backbone.timeout_s,\n"
    "backbone.max_wait_s, backbone.api_key_env, backbone.api_key_command and backbone.headers_env, which do not\n"
    "influence the score.\n"
    "\nThe result is a new run with all questions of RUN; RUN is not changed. Stored results of the same prompts\n"
    "and settings are restored, unless --fresh or --from is given. If a question that had an answer was repeated,\n"
    "the new run has the tag rerolled: its score is not comparable with that of a single run.\n"
    "\nExit codes: 0 finished, or no question to repeat; 2 bad input or configuration; 3 some questions failed\n"
    "and can be retried, also those that keep their old answer, or the endpoint cannot be reached and there is no\n"
    "new run: the same command sends only what is missing, with --fresh too; 130 interrupted, all answers are kept.",
)
@options.record(RerunOptions)
def command(arguments: RerunOptions) -> int:
    """Repeat some questions of RUN and merge the answers into a new run.

    RUN is a run id or its first characters, the run's id in MLflow, or `latest`, `latest~1`, ...
    """
    from flows.cli.progress import open_asking

    if (arguments.run is None) == (arguments.night is None):
        raise ConfigurationError("Name a RUN, or a nightly run with --night: one of them.")
    if arguments.night is not None:
        return _rerun_night(arguments, arguments.night)
    evaluated = None
    with open_asking() as progress:
        progress.step(f"Looking for the questions of {options.end_of(arguments.run or '')} to repeat")
        from flows.evaluate.preparation import check_budget
        from flows.evaluate.rerun import plan_rerun, run_rerun
        from flows.runtime.control import Control
        from tasks.backbone.pricing import Budget

        labels = arguments.labels
        plan = plan_rerun(arguments.settings())
        check_budget([plan.settings], arguments.budget)
        if plan.again:
            budget = None if arguments.budget is None else Budget(arguments.budget)
            control = Control(progress, tags=labels, budget=budget)
            evaluated = run_rerun(plan, control)

    from flows.runtime.summary import print_summary
    from tasks.results.run_record import json_of

    if evaluated is None:
        name = plan.parent.run_id
        none = dict.fromkeys(("selected", "restored", "asked", "changed"), 0)
        facts = {"parent": name, "selection": plan.selection, **none}
        arguments.emit(
            json_of(plan.parent.model_copy(update={"rerun": facts})),
            lambda stream: click.echo(f"Run {name} has no question to repeat ({plan.selection}).", stream),
            text_too=True,
        )
        return 0
    arguments.emit(
        json_of(evaluated),
        lambda stream: print_summary(
            evaluated, arguments.folder, stream, details=arguments.details, prefect=control.prefect
        ),
        text_too=True,
    )
    return evaluated.exit_code


def _rerun_night(arguments: RerunOptions, night: str) -> int:
    """Repeat what is left of a nightly run, run by run."""
    from flows.cli.progress import open_control, open_progress
    from tasks.results.run_record import json_of

    with open_progress(sys.stderr) as progress:
        progress.step(f"Looking for the questions of the nightly run {options.end_of(night)} to repeat")
        from flows.matrix.night_rerun import plan_night_rerun, rerun_night

        plan = plan_night_rerun(night, arguments.settings(), arguments.labels, arguments.budget)
    click.echo(plan.in_words, err=arguments.as_json)
    ended = rerun_night(plan, open_control, arguments.budget)

    def show(stream: TextIO) -> None:
        for evaluation in ended.evaluations:
            click.echo(evaluation.in_words, stream)
        if ended.exit_code == ExitCode.TRY_AGAIN:
            click.echo("Run the same command again: it sends only what is still without an answer.", stream)

    arguments.emit(json_of(ended), show, text_too=True)
    return ended.exit_code
