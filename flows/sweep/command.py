"""`crosscheck sweep`."""

import json
import sys

import click

from flows.cli import options
from tasks.settings.home import DEFAULT_BACKBONE, DEFAULT_PIPELINE


@click.command(
    "sweep",
    epilog="\b\nExamples:\n"
    "  crosscheck sweep --backbones offline --pipelines rsl-sql,few-shot,zero-shot\n"
    "  crosscheck sweep --benchmark bird-dev --backbones openai,deepseek --pipelines rsl-sql --dry-run\n"
    "  crosscheck sweep --backbones openai --pipelines few-shot --grid pipeline.demonstrations.k=0,1,3,5 --budget 2\n"
    "\b\nThe cells run one after the other; their runs in MLflow carry the tag sweep. Interrupted or out of budget,\n"
    "the same command continues: what was paid for is not paid again. A budget counts what this command pays; calls\n"
    "in flight when it is spent are still answered.\n"
    "\b\nExit codes: 0 every cell is evaluated; 2 bad input or configuration; 3 some questions or cells are left, for\n"
    "reasons that the same command can mend (a budget that is spent is one); 130 interrupted, everything is kept.",
)
@options.benchmark
@click.option(
    "--backbones",
    default=DEFAULT_BACKBONE,
    show_default=True,
    metavar="NAMES",
    help="Names or files, with commas.",
)
@click.option(
    "--pipelines",
    default=DEFAULT_PIPELINE,
    show_default=True,
    metavar="NAMES",
    help="Names or files, with commas.",
)
@click.option(
    "--grid",
    multiple=True,
    metavar="KEY=VALUES",
    help="Values of a setting, with commas: backbone.* or pipeline.*. Given several times, all combinations.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Ask the first N questions only.")
@click.option("--questions", metavar="IDS", help="Ask these only: ids and ranges, `717-845,900`, or @FILE.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    metavar="USD",
    help="Stop when this much is spent.",
)
@click.option("--dry-run", is_flag=True, help="Show the cells and what they are estimated to cost, no more.")
@options.overrides
@options.data
@options.home
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    benchmark: str,
    backbones: str,
    pipelines: str,
    grid: tuple[str, ...],
    limit: int | None,
    questions: str | None,
    budget: float | None,
    dry_run: bool,
    overrides: tuple[str, ...],
    data: str | None,
    home: str | None,
    as_json: bool,
) -> None:
    """Evaluate every backbone with every pipeline and every combination of settings."""
    from flows.cli.progress import open_progress
    from flows.sweep.display import print_estimate, print_sweep
    from flows.sweep.plan import check_budget, names, plan_sweep
    from flows.sweep.run import Done, Sweep, estimate_sweep, run_sweep
    from tasks.tracking.evaluation import new_run_id

    cells = plan_sweep(
        benchmark=benchmark,
        backbones=names(backbones, "--backbones"),
        pipelines=names(pipelines, "--pipelines"),
        grid=grid,
        overrides=overrides,
        limit=limit,
        questions=questions,
        data=data,
        home=home,
    )
    check_budget(cells, budget)
    stream = sys.stderr if as_json else sys.stdout
    with open_progress(sys.stderr) as progress:
        estimates = estimate_sweep(cells, progress)
    print_estimate(cells, estimates, budget, stream)
    if dry_run:
        if as_json:
            planned = Sweep("", tuple(Done(*pair) for pair in zip(cells, estimates, strict=True)))
            click.echo(
                json.dumps(planned.as_object() | {"sweep": None, "dry_run": True, "budget_usd": budget})
            )
        return
    sweep = run_sweep(new_run_id(), cells, estimates, lambda: open_progress(sys.stderr), budget)
    if as_json:
        click.echo(json.dumps(sweep.as_object() | {"dry_run": False}, ensure_ascii=False))
    print_sweep(sweep, stream)
    context.exit(sweep.exit_code)
