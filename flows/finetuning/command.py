"""`crosscheck finetune`: an eliminator for SEA-SQL."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.cli import options

if TYPE_CHECKING:
    from tasks.settings.benchmark import BenchmarkSettings

MENDABLE, INTERRUPTED = 3, 130

training = click.option(
    "--training",
    metavar="NAME",
    help="The benchmark whose questions are the training split. [default: the benchmark's own training questions]",
)


@click.group(
    "finetune",
    epilog="\b\nExamples:\n"
    "  crosscheck finetune dataset --benchmark spider-dev --backbone openai --output pairs.jsonl --held-out 0.05\n"
    "  crosscheck finetune train --pairs pairs.jsonl --output eliminator --set model=mistralai/Mistral-7B-v0.1\n"
    "  crosscheck finetune evaluate --pairs pairs.held-out.jsonl --benchmark spider-dev --adapter eliminator/adapter\n"
    "\b\nThen serve base model and adapter behind an OpenAI-compatible endpoint, describe that in a backbone's YAML\n"
    "file, and evaluate: crosscheck evaluate --pipeline sea-sql --set pipeline.eliminator=NAME\n",
)
def command() -> None:
    """Train the small model that eliminates bias in SEA-SQL, and judge it."""


@command.command(
    "dataset",
    epilog="\b\nInterrupted or failed? The same command continues: what was answered is never paid for twice.\n"
    "\b\nExit codes: 0 done; 2 bad input or configuration; 3 some questions failed, run it again; 130 interrupted.",
)
@options.benchmark
@training
@options.backbone
@click.option(
    "--pipeline", default="sea-sql", show_default=True, metavar="NAME", help="One of the kind sea-sql."
)
@click.option("--output", required=True, metavar="FILE", help="JSON lines to write.")
@click.option(
    "--held-out",
    type=click.FloatRange(0, 0.9),
    default=0.05,
    show_default=True,
    metavar="SHARE",
    help="Share of the questions for a file of its own, to judge by.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Take the first N questions only.")
@click.option("--questions", metavar="IDS", help="Take these only: ids and ranges, `0-99,300`, or @FILE.")
@options.overrides
@options.data
@options.home
@options.as_json
@click.pass_context
def dataset(
    context: click.Context,
    benchmark: str,
    training: str | None,
    backbone: str,
    pipeline: str,
    output: str,
    held_out: float,
    limit: int | None,
    questions: str | None,
    overrides: tuple[str, ...],
    data: str | None,
    home: str | None,
    as_json: bool,
) -> None:
    """Write training pairs: the preliminary SQL of every training question, judged by its gold.

    The questions of the benchmark are the evaluated split: none of them may be among the training questions.
    """
    from flows.cli.progress import open_progress
    from flows.finetuning.settings import (
        check_splits,
        check_writable,
        held_out_file,
        pairs_settings,
        training_benchmark,
    )
    from flows.questions.launch import launched
    from flows.runtime.control import Control
    from tasks.settings.assemble import evaluation_settings

    chosen = evaluation_settings(
        benchmark=benchmark,
        backbone=backbone,
        pipeline=pipeline,
        overrides=overrides,
        limit=limit,
        questions=questions,
        data=data,
        home=home,
    )
    check_writable(Path(output).expanduser())
    split = _training_split(training) or training_benchmark(chosen.benchmark)
    settings = pairs_settings(chosen.model_copy(update={"benchmark": split}))
    check_splits(settings, chosen.benchmark)
    path = Path(output).expanduser()
    with open_progress(sys.stderr) as progress:
        control = Control(progress)
        with launched(settings, control) as prefect:
            from flows.finetuning.pairs import making_pairs

            found = prefect.loop.run(
                making_pairs(control, prefect.preparation)(settings, chosen.benchmark, str(path), held_out)
            )
    if as_json:
        click.echo(json.dumps(asdict(found)))
    else:
        click.echo(f"{found.pairs:,} training pairs in {path}")
        if held_out:
            click.echo(f"{found.held_out:,} held-out pairs in {held_out_file(path)}")
        click.echo(
            f"Of {found.questions:,} questions: {found.right:,} preliminary SQLs are right, "
            f"{found.pairs + found.held_out - found.right:,} wrong; left out: {found.like_evaluated:,} like "
            f"the evaluated split, {found.without_sql:,} without SQL, {found.gold_faults:,} whose gold fails, "
            f"{found.duplicates:,} duplicates. {found.calls:,} model calls."
        )
    context.exit(MENDABLE if found.failed else 0)


@command.command(
    "train",
    epilog="\b\nDefaults are the paper's: LoRA of rank 64 on all linear projections and the output head, one epoch,\n"
    "batches of 64, 4,096 tokens. Others: --set rank=16 --set learning_rate=0.0001 --set device_batch_size=4\n"
    "\b\nInterrupted? The same command continues from the last checkpoint.\n"
    "\b\nExit codes: 0 done; 2 bad input or configuration; 130 interrupted, a checkpoint is kept.",
)
@click.option(
    "--pairs", required=True, metavar="FILE", help="Training pairs of `crosscheck finetune dataset`."
)
@click.option("--output", required=True, metavar="FOLDER", help="Where the adapter and the checkpoints go.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change one setting of the training."
)
@options.home
@options.as_json
@click.pass_context
def train(
    context: click.Context,
    pairs: str,
    output: str,
    overrides: tuple[str, ...],
    home: str | None,
    as_json: bool,
) -> None:
    """Fine-tune a model on training pairs with LoRA. Needs the extra `finetune`, and a GPU for real models."""
    from flows.cli.progress import open_progress
    from flows.finetuning.settings import check_writable, finetuning_settings
    from flows.finetuning.training import run_training
    from flows.runtime.signals import stopped_by_signals
    from tasks.settings.home import find_home

    settings = finetuning_settings(overrides)
    folder = Path(output).expanduser()
    check_writable(folder / "adapter")
    with open_progress(sys.stderr) as progress, stopped_by_signals() as stop:
        trained = run_training(Path(pairs).expanduser(), settings, folder, find_home(home), progress, stop)
    if as_json:
        click.echo(json.dumps({**asdict(trained), "adapter": str(trained.adapter)}))
    elif trained.finished:
        click.echo(f"{trained.steps:,} steps on {trained.pairs:,} pairs; the adapter is in {trained.adapter}")
        if trained.too_long:
            click.echo(f"{trained.too_long:,} pairs were left out: more than {settings.max_tokens:,} tokens.")
    else:
        click.echo(f"Stopped after step {trained.steps:,}; the same command continues.", err=True)
    context.exit(0 if trained.finished else INTERRUPTED)


@command.command("evaluate")
@click.option("--pairs", required=True, metavar="FILE", help="Held-out pairs.")
@click.option(
    "--trained-on", metavar="FILE", help="The training pairs: refuses to judge by any of their questions."
)
@options.benchmark
@training
@click.option(
    "--adapter", metavar="FOLDER", help="Adapter of `crosscheck finetune train`; answers in this process."
)
@click.option("--eliminator", metavar="NAME", help="Or a served eliminator: `crosscheck list backbones`.")
@options.overrides
@options.data
@options.home
@options.as_json
def evaluate(
    pairs: str,
    trained_on: str | None,
    benchmark: str,
    training: str | None,
    adapter: str | None,
    eliminator: str | None,
    overrides: tuple[str, ...],
    data: str | None,
    home: str | None,
    as_json: bool,
) -> None:
    """Count what an eliminator fixes and breaks on held-out pairs."""
    from flows.cli.progress import open_progress
    from flows.finetuning.settings import training_benchmark
    from flows.finetuning.training import run_eliminator_evaluation
    from tasks.backbone.factory import check_backbone
    from tasks.settings.home import find_conf, find_data, find_home
    from tasks.settings.load import load_backbone_settings, load_benchmark_settings

    if (adapter is None) == (eliminator is None):
        raise click.UsageError("Name either --adapter FOLDER or --eliminator NAME.")
    conf = find_conf()
    split = _training_split(training) or training_benchmark(
        load_benchmark_settings(conf, benchmark, overrides)
    )
    asked = (
        Path(adapter).expanduser() if adapter else load_backbone_settings(conf, str(eliminator), overrides)
    )
    if not isinstance(asked, Path):
        check_backbone(asked)
    with open_progress(sys.stderr) as progress:
        score = run_eliminator_evaluation(
            Path(pairs).expanduser(),
            Path(trained_on).expanduser() if trained_on else None,
            split,
            asked,
            find_data(data),
            find_home(home),
            progress,
        )
    if as_json:
        click.echo(json.dumps(asdict(score)))
        return
    total = int(score.before.total)
    click.echo(
        f"Right before: {int(score.before.correct):,} of {total:,}; after: {int(score.after.correct):,}"
    )
    click.echo(
        f"Changed {score.changed:,}: {len(score.fixed):,} fixed, {len(score.broken):,} broken; "
        f"no usable answer for {score.kept:,}"
    )


def _training_split(name: str | None) -> "BenchmarkSettings | None":
    from tasks.settings.home import find_conf
    from tasks.settings.load import load_benchmark_settings

    return load_benchmark_settings(find_conf(), name) if name else None
