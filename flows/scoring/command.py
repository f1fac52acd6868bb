"""`crosscheck score`."""

import json
import sys
from pathlib import Path

import click

from flows.cli import options


@click.command(
    "score",
    epilog="\b\nExamples:\n"
    "  crosscheck score --benchmark bird-dev --predictions predict_dev.json --questions 717-845\n"
    "  crosscheck score --benchmark spider-dev --predictions dail-sql.txt --rules bird,spider,strict --details\n"
    "  crosscheck score --benchmark bird-dev --predictions mine.csv --efficiency --json > scores.json\n"
    "\b\nFormats, recognised by their content:\n"
    "  BIRD's submission  a JSON object: question id -> SQL, tab, ----- bird -----, tab, database\n"
    "  Spider's text      one SQL per line in the order of the questions, each with a tab and its database or not\n"
    "  CSV, JSON lines    with a question_id and a sql (or predicted_sql); a JSON list of such objects, too\n"
    "  predictions.json   of an earlier run, as MLflow has it\n"
    "\b\nWhat has no prediction counts as wrong and is listed. Lines without ids must be as many as the questions.\n"
    "\b\nExit codes: 0 scored; 2 bad input or configuration.",
)
@options.benchmark
@click.option("--predictions", required=True, metavar="FILE", help="The predictions.")
@click.option(
    "--name", metavar="NAME", help="What to call their system in MLflow. [default: the file's name]"
)
@click.option(
    "--rules",
    metavar="RULES",
    help="Rules to judge by: bird, spider, strict, subset. [default: bird,spider,strict and the benchmark's own] The "
    "benchmark's own is the headline if it is among them, else the first.",
)
@click.option("--efficiency", is_flag=True, help="Time right answers as well: VES, R-VES and ves_steps.")
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Repetitions of --efficiency, for the spread.",
)
@click.option("--soft-f1", is_flag=True, help="Score soft-F1 (BIRD mini-dev) as well.")
@click.option(
    "--linking",
    metavar="FILE",
    help="Schema links to score: JSON lines, or a JSON list, of objects with tables and columns.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Score the first N questions only.")
@click.option("--questions", metavar="IDS", help="Score these only: ids and ranges, `717-845,900`, or @FILE.")
@options.details
@options.benchmark_overrides
@options.data
@options.home
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    benchmark: str,
    predictions: str,
    name: str | None,
    rules: str | None,
    efficiency: bool,
    trials: int,
    soft_f1: bool,
    linking: str | None,
    limit: int | None,
    questions: str | None,
    details: bool,
    overrides: tuple[str, ...],
    data: str | None,
    home: str | None,
    as_json: bool,
) -> None:
    """Score the predictions of any system on a benchmark.

    Needs no model and no Prefect; the run is logged to MLflow like an evaluation.
    """
    from flows.cli.progress import open_progress
    from flows.report.summary import print_summary
    from flows.runtime.logs import logging_to
    from flows.scoring.run import run_score
    from flows.scoring.settings import ScoreSettings, read_rules
    from tasks.settings.assemble import benchmark_settings
    from tasks.settings.home import find_data, find_home

    file = Path(predictions).expanduser()
    asked = benchmark_settings(benchmark, (*overrides, "benchmark.soft_f1=true") if soft_f1 else overrides)
    settings = ScoreSettings(
        benchmark=asked,
        predictions=file,
        name=name or file.stem,
        rules=read_rules(rules, asked.rule),
        questions=questions,
        limit=limit,
        linking=Path(linking).expanduser() if linking else None,
        trials=trials if efficiency else 0,
        data=find_data(data),
        home=find_home(home),
    )
    with open_progress(sys.stderr) as progress, logging_to(settings.home):
        scored = run_score(settings, progress)
    if as_json:
        click.echo(json.dumps(scored.summary, ensure_ascii=False))
        print_summary(scored, sys.stderr, details=details)
    else:
        print_summary(scored, sys.stdout, details=details)
    context.exit(scored.exit_code)
