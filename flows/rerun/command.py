"""`crosscheck rerun`."""

import json
import sys

import click

from flows.cli import options


@click.command(
    "rerun",
    epilog="\b\nExamples:\n"
    "  crosscheck rerun latest\n"
    "      what failed in the last run, with what was answered of it kept\n"
    "  crosscheck rerun 20261121-020000 --questions 717-720 --from binary_selection\n"
    "  crosscheck rerun latest --only wrong --fresh\n"
    "\b\nSettings are the run's own. --set may change backbone.concurrency, backbone.retries, backbone.timeout_s,\n"
    "backbone.max_wait_s and backbone.api_key_env, which cannot change what the score means.\n"
    "\b\nThe result is a new run with all questions of the old one, which stays as it is. Where a question had an\n"
    "answer and was asked again, the new run is tagged rerolled: its score means something else.\n"
    "\b\nExit codes: 0 finished, or nothing to ask again; 2 bad input or configuration; 3 some questions still fail\n"
    "for reasons that a re-run can mend; 130 interrupted, everything paid for is kept.",
)
@click.argument("run", metavar="RUN")
@click.option(
    "--only",
    type=click.Choice(["errors", "wrong", "empty", "timeouts"]),
    default="errors",
    show_default=True,
    help="Which questions: those without an answer for a reason that can be mended; answered wrong; whose SQL "
    "returned no row; whose SQL was stopped.",
)
@click.option("--questions", metavar="IDS", help="These questions instead: `717-845,900`, or @FILE.")
@click.option(
    "--from",
    "from_stage",
    metavar="STAGE",
    help="Drop the results of this stage and of later ones, and keep the earlier ones.",
)
@click.option("--fresh", is_flag=True, help="Ask the model for new replies, paid again.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a setting that cannot change what the score means. May be given several times.",
)
@options.details
@options.data
@options.home
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    run: str,
    only: str,
    questions: str | None,
    from_stage: str | None,
    fresh: bool,
    overrides: tuple[str, ...],
    details: bool,
    data: str | None,
    home: str | None,
    as_json: bool,
) -> None:
    """Ask some questions of RUN again and merge the answers into a new run.

    RUN is an id or its beginning, MLflow's id, or `latest`, `latest~1`, ...
    """
    from flows.cli.progress import open_progress
    from flows.questions.launch import launched
    from flows.report.summary import print_summary
    from flows.rerun.plan import plan_rerun
    from flows.runtime.control import Control
    from tasks.settings.evaluation import RerunSettings
    from tasks.settings.home import find_data, find_home

    plan = plan_rerun(
        RerunSettings.model_validate(
            {
                "run": run,
                "only": only,
                "questions": questions,
                "from_stage": from_stage,
                "fresh": fresh,
                "overrides": overrides,
                "data": str(find_data(data)),
                "home": str(find_home(home).path),
            }
        )
    )
    if not plan.again:
        name = plan.parent.run.run_id
        if as_json:
            facts = {"parent": name, "selection": plan.selection, "selected": 0, "asked": 0, "changed": 0}
            click.echo(json.dumps(dict(plan.parent.summary or {}) | {"rerun": facts}, ensure_ascii=False))
        click.echo(f"Run {name} has no question to ask again ({plan.selection}).", err=as_json)
        return
    with open_progress(sys.stderr) as progress:
        control = Control(progress)
        with launched(plan.settings, control) as prefect:
            from flows.rerun.flow import rerunning

            evaluated = prefect.loop.run(rerunning(plan, control, prefect.preparation)(plan.asked_for))
    if as_json:
        click.echo(json.dumps(evaluated.summary, ensure_ascii=False))
        print_summary(evaluated, sys.stderr, details=details)
    else:
        print_summary(evaluated, sys.stdout, details=details)
    context.exit(evaluated.exit_code)
