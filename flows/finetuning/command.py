"""`crosscheck finetune`: training of SEA-SQL's eliminator."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import click

from flows.cli import options
from flows.cli.progress import open_progress
from flows.finetuning.settings import DatasetOptions, Evaluated, EvaluateOptions, MergeOptions, TrainOptions
from flows.orchestration.server import LocalServer
from flows.questions.launch import launched
from flows.report.exit_codes import ExitCode
from flows.runtime.control import Control
from flows.runtime.folder_use import watched
from flows.runtime.logs import logging_to
from tasks.core.wording import counted
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home

if TYPE_CHECKING:
    from flows.finetuning.pairs import Pairs, SplitPairs
    from tasks.finetuning.models import Precision


@click.group(
    "finetune",
    epilog="\b\nExamples:\n"
    "  crosscheck finetune dataset --benchmark spider-dev --backbone openai --output pairs.jsonl --held-out 0.05\n"
    "  crosscheck finetune train --pairs pairs.jsonl --output out --set model=mistralai/Mistral-7B-v0.1\n"
    "  crosscheck finetune evaluate --pairs pairs.held-out.jsonl --benchmark spider-dev --adapter out/adapter\n"
    "  crosscheck finetune merge --adapter out/adapter --output eliminator\n"
    "\n\b\nThen serve it with the command that `train` or `merge` prints, and evaluate:\n"
    "  crosscheck evaluate --pipeline sea-sql --set pipeline.eliminator=eliminator\n",
)
def command() -> None:
    """Train and evaluate the small model for bias elimination in SEA-SQL."""


@command.command(
    "dataset",
    epilog="\b\nExamples:\n"
    "  crosscheck finetune dataset --benchmark spider-dev --backbone openai --output pairs.jsonl\n"
    "  crosscheck finetune dataset --benchmark spider-dev --also bird-dev --training spider-train.yaml \\\n"
    "      --training bird-train.yaml --backbone openai --output pairs.jsonl\n"
    "      one file of pairs from two training splits, none of them in either evaluated split\n"
    "\n--questions and --limit choose from every training split.\n"
    "\nInterrupted or failed? Run the same command again to continue; no call is paid for twice.\n"
    "\nExit codes: 0 done; 2 bad input or configuration; 3 some questions failed, run it again; 130 interrupted.",
)
@options.record(DatasetOptions)
def dataset(given: DatasetOptions) -> int:
    """Write training pairs.

    A pair is the preliminary SQL of a training question, compared with its gold SQL. The questions of --benchmark and
    --also are the evaluated splits: no training split may contain any of them.
    """
    from flows.finetuning.command import run_dataset
    from flows.finetuning.settings import held_out_file, pairs_settings, prepare_output, read_evaluated

    chosen = given.settings(given.pipeline)
    prepare_output(given.output)
    benchmarks = given.evaluated(chosen.benchmark)
    settings = [
        pairs_settings(chosen.model_copy(update={"benchmark": split})) for split in given.splits(benchmarks)
    ]
    evaluated = read_evaluated(benchmarks, [one.benchmark for one in settings], given.folders)
    found = run_dataset(settings, evaluated, given.output, given.held_out)

    def show(stream: TextIO) -> None:
        click.echo(f"{counted(found.pairs, 'training pair')} in {given.output}", stream)
        if given.held_out:
            click.echo(f"{counted(found.held_out, 'held-out pair')} in {held_out_file(given.output)}", stream)
        click.echo(
            f"Of {found.questions:,} questions: {found.right:,} preliminary SQLs are correct, "
            f"{found.pairs + found.held_out - found.right:,} wrong; left out: {found.like_evaluated:,} equal "
            f"to evaluated questions, {found.without_sql:,} without SQL, {found.gold_faults:,} whose gold fails, "
            f"{found.duplicates:,} duplicates. {found.calls:,} model calls.",
            stream,
        )

    given.emit(asdict(found), show)
    return ExitCode.TRY_AGAIN if found.failed else ExitCode.DONE


@command.command(
    "train",
    epilog="\b\nThe defaults are those of the paper: LoRA of rank 64 on all linear projections and the output head,\n"
    "one epoch, batches of 64, 4,096 tokens. To change them:\n"
    "  --set rank=16 --set learning_rate=0.0001 --set device_batch_size=4\n"
    "\nInterrupted? Run the same command again to continue from the last checkpoint.\n"
    "\nExit codes: 0 done; 2 bad input or configuration; 130 interrupted, a checkpoint is kept.",
)
@options.record(TrainOptions)
def train(given: TrainOptions) -> int:
    """Fine-tune a model on training pairs.

    With LoRA. Needs the extra `finetune`, and a GPU for real models.
    """
    from flows.cli.progress import open_progress
    from flows.finetuning.settings import finetuning_settings, prepare_output
    from flows.finetuning.training import run_training
    from flows.runtime.signals import stopped_by_signals
    from tasks.finetuning.merging import merge_command, vllm_with_adapter

    settings = finetuning_settings(given.overrides)
    prepare_output(given.output / "adapter")
    with open_progress(sys.stderr) as progress, stopped_by_signals() as stop:
        trained = run_training(given.pairs, settings, given.output, given.folder, progress, stop)

    def show(stream: TextIO) -> None:
        if not trained.finished:
            click.echo(
                f"Stopped after step {trained.steps:,}; run the same command again to continue.", sys.stderr
            )
            return
        click.echo(
            f"{trained.steps:,} steps on {trained.pairs:,} pairs; the adapter is in {trained.adapter}", stream
        )
        serve = vllm_with_adapter(trained.adapter, settings.model, settings.rank)
        click.echo(
            f"Serve it after\n  {merge_command(trained.adapter)}\nor unmerged, for a base model whose output head vLLM "
            f"adapts (Llama's, not Mistral's):\n  {serve}",
            stream,
        )
        if trained.too_long:
            click.echo(
                f"{trained.too_long:,} pairs were left out: more than {settings.max_tokens:,} tokens.", stream
            )

    given.emit({**asdict(trained), "adapter": str(trained.adapter)}, show)
    return ExitCode.DONE if trained.finished else ExitCode.INTERRUPTED


@command.command(
    "evaluate",
    epilog="\b\nExamples:\n"
    "  crosscheck finetune evaluate --pairs pairs.held-out.jsonl --benchmark spider-dev --adapter out/adapter\n"
    "  crosscheck finetune evaluate --pairs pairs.held-out.jsonl --benchmark spider-dev --eliminator eliminator\n"
    "\nExit codes: 0 done; 2 bad input or configuration; 3 the endpoint cannot be reached.",
)
@options.record(EvaluateOptions)
def evaluate(given: EvaluateOptions) -> None:
    """Count what an eliminator fixes and breaks on held-out pairs."""
    from flows.cli.progress import open_progress
    from flows.finetuning.training import EliminatorEvaluation, run_eliminator_evaluation
    from tasks.backbone.kinds.kind import check_backbone
    from tasks.settings.home import find_conf
    from tasks.settings.load import load_backbone_settings, load_benchmark_settings

    if (given.adapter is None) == (given.eliminator is None):
        raise click.UsageError("Name either --adapter FOLDER or --eliminator NAME.")
    conf = find_conf()
    first = load_benchmark_settings(conf, given.benchmark, given.overrides)
    splits = given.splits(given.evaluated(first))
    eliminator = given.adapter or load_backbone_settings(conf, str(given.eliminator), given.overrides)
    if not isinstance(eliminator, Path):
        check_backbone(eliminator)
    settings = EliminatorEvaluation(given.pairs, given.trained_on, benchmarks=splits, eliminator=eliminator)
    with open_progress(sys.stderr) as progress:
        score = run_eliminator_evaluation(settings, given.folders, progress)

    def show(stream: TextIO) -> None:
        click.echo(
            f"Correct before: {int(score.before.correct):,} of {int(score.before.total):,}; "
            f"after: {int(score.after.correct):,}",
            stream,
        )
        click.echo(
            f"Changed {score.changed:,}: {len(score.fixed):,} fixed, {len(score.broken):,} broken; "
            f"no usable answer for {score.kept:,}",
            stream,
        )

    given.emit(asdict(score), show)


@command.command(
    "merge",
    epilog="\b\nExample:\n  crosscheck finetune merge --adapter out/adapter --output eliminator\n"
    "  transformers serve eliminator --host 127.0.0.1 --port 8001\n"
    "  crosscheck evaluate --pipeline sea-sql --set pipeline.eliminator=eliminator\n"
    "\nThe backbone `eliminator` asks a model of that name at port 8001; Transformers' server gives a model the\n"
    "name of its folder. For another name or place, copy conf/backbones/eliminator.yaml.\n"
    "\nExit codes: 0 done; 2 bad input or configuration.",
)
@options.record(MergeOptions)
def merge(given: MergeOptions) -> None:
    """Merge an adapter into its base model.

    Writes a folder that every server can load, with the chat template.
    """
    from flows.cli.progress import open_progress
    from tasks.finetuning.merging import NAME, transformers_merged, vllm_merged
    from tasks.finetuning.merging import merge as merge_adapter

    with open_progress(sys.stderr) as progress:
        progress.step("Merging the adapter into its base model")
        merged = merge_adapter(given.adapter, given.output, cast("Precision", given.precision))
    lines = {"vllm": vllm_merged(merged.model), "transformers": transformers_merged(merged.model)}

    def show(stream: TextIO) -> None:
        click.echo(f"{merged.base} with the adapter of rank {merged.rank} is in {merged.model}", stream)
        click.echo("\n".join(("Serve it with one of:", *(f"  {line}" for line in lines.values()))), stream)
        if merged.model.name != NAME:
            click.echo(
                f'Transformers\' server answers to the name "{merged.model.name}" alone: write it as `model` into a '
                f"copy of conf/backbones/{NAME}.yaml, or merge into a folder named {NAME}.",
                stream,
            )

    found = {"model": str(merged.model), "base": merged.base, "rank": merged.rank, "serve": lines}
    given.emit(found, show)


def run_dataset(
    splits: Sequence[EvaluationSettings], evaluated: Evaluated, output: Path, held_out: float
) -> "Pairs":
    """Make and write the pairs of every training split.

    Args:
        splits: per training split its settings, with the same backbone and pipeline.
        evaluated: the splits that the eliminator will be evaluated on.
        output: file of the pairs.
        held_out: share of the questions that are held out, into a file of their own.

    Raises:
        CrosscheckError: what is wrong and what to do about it.
        Interrupted: the user stopped it; what was answered is persisted.
    """
    home = Home(Path(splits[0].home))
    made: list[SplitPairs] = []
    with watched(home), logging_to(home), LocalServer(home) as server:
        for place, settings in enumerate(splits, 1):
            with open_progress(sys.stderr) as progress:
                progress.step(f"{place} of {len(splits)}: {settings.benchmark.name}")
                control = Control(progress)
                with launched(settings, control, server) as prefect:
                    from flows.finetuning.pairs import pairs_flow

                    flow = pairs_flow(control, prefect.preparation)
                    made.append(prefect.loop.run(flow(settings, evaluated)))
    from flows.finetuning.pairs import write_splits

    return write_splits(made, output, held_out)
