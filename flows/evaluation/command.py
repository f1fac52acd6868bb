"""`crosscheck evaluate`."""

import json
import sys

import click

from flows.cli import options


@click.command(
    "evaluate",
    epilog="\b\nExamples:\n"
    "  crosscheck evaluate\n"
    "      the demo benchmark with the offline backbone: no key, no network\n"
    "  crosscheck evaluate --backbone openai --pipeline rsl-sql\n"
    "      the same with a real model (needs OPENAI_API_KEY)\n"
    "  crosscheck evaluate --benchmark bird-dev --data ~/text2sql --questions 717-845\n"
    "  crosscheck evaluate --set pipeline.augmentation.keywords=false\n"
    "      an ablation\n"
    "  crosscheck evaluate --record run.jsonl\n"
    "  crosscheck evaluate --backbone replay --set backbone.recording=run.jsonl\n"
    "      record what the model says, and run on it again without the model\n"
    "  crosscheck evaluate --benchmark bird-dev --backbone openai --shards 8\n"
    "      on the workers of the Prefect server of PREFECT_API_URL\n"
    "  crosscheck evaluate --json > result.json\n"
    "\b\nInterrupted or failed? The same command continues: what was answered is never asked or paid for again.\n"
    "\b\nExit codes: 0 finished; 2 bad input or configuration; 3 finished, but some questions failed for reasons\n"
    "that a re-run can mend; 130 interrupted, everything paid for is kept.",
)
@options.benchmark
@options.backbone
@options.pipeline
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Ask the first N questions only.")
@click.option("--questions", metavar="IDS", help="Ask these only: ids and ranges, `717-845,900`, or @FILE.")
@click.option(
    "--record",
    metavar="FILE",
    help="Write every reply of the model to FILE when all questions are through, for `--backbone replay`.",
)
@click.option(
    "--shards",
    type=click.IntRange(1, 256),
    default=1,
    metavar="N",
    help="Divide the questions among N runs of the work pool's workers (needs PREFECT_API_URL).",
)
@click.option(
    "--genai-evaluation",
    is_flag=True,
    help="Give every question a trace with its verdict, and list the run among MLflow's evaluation runs.",
)
@options.details
@options.overrides
@options.data
@options.home
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    benchmark: str,
    backbone: str,
    pipeline: str,
    limit: int | None,
    questions: str | None,
    record: str | None,
    shards: int,
    genai_evaluation: bool,
    details: bool,
    overrides: tuple[str, ...],
    data: str | None,
    home: str | None,
    as_json: bool,
) -> None:
    """Evaluate a pipeline on a benchmark.

    Takes every question through the pipeline's stages, scores each stage, and logs the run to MLflow.
    """
    from flows.cli.progress import open_progress
    from flows.questions.launch import launched
    from flows.report.summary import print_summary
    from flows.runtime.control import Control
    from tasks.settings.assemble import evaluation_settings

    settings = evaluation_settings(
        benchmark=benchmark,
        backbone=backbone,
        pipeline=pipeline,
        overrides=(*overrides, "tracking.genai_evaluation=true") if genai_evaluation else overrides,
        limit=limit,
        questions=questions,
        data=data,
        home=home,
        record=record,
        shards=shards,
    )
    with open_progress(sys.stderr) as progress:
        control = Control(progress)
        with launched(settings, control) as prefect:
            from flows.evaluation.flow import evaluation

            evaluated = prefect.loop.run(evaluation(control, prefect.preparation)(settings))
    if as_json:
        click.echo(json.dumps(evaluated.summary, ensure_ascii=False))
        print_summary(evaluated, sys.stderr, details=details)
    else:
        print_summary(evaluated, sys.stdout, details=details)
    context.exit(evaluated.exit_code)
