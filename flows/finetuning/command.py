"""`crosscheck finetune`: training of SEA-SQL's eliminator."""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from flows.cli import options
from flows.cli.output import emit

if TYPE_CHECKING:
    from tasks.settings.benchmark import BenchmarkSettings

RETRYABLE_FAILURES, INTERRUPTED = 3, 130


@dataclass(frozen=True, kw_only=True)
class TrainingSplit(options.Benchmark):
    """Options that name the evaluated benchmark and its training split."""

    training: str | None = options.option(
        "--training",
        metavar="NAME",
        help="Benchmark whose questions are the training split. [default: the training questions of --benchmark]",
    )

    def split(self, evaluated: "BenchmarkSettings") -> "BenchmarkSettings":
        """Return the settings of the training split.

        Raises:
            ConfigurationError: the benchmark has no training split.
        """
        from flows.finetuning.settings import training_benchmark
        from tasks.settings.home import find_conf
        from tasks.settings.load import load_benchmark_settings

        if self.training:
            return load_benchmark_settings(find_conf(), self.training)
        return training_benchmark(evaluated)


@dataclass(frozen=True, kw_only=True)
class DatasetOptions(TrainingSplit, options.Evaluation):
    """Options of `crosscheck finetune dataset`."""

    pipeline: str = options.option(
        "--pipeline",
        default="sea-sql",
        show_default=True,
        metavar="NAME",
        help="A pipeline of the kind sea-sql.",
    )
    output: str = options.option(
        "--output", required=True, metavar="FILE", help="File for the training pairs, as JSON lines."
    )
    held_out: float = options.option(
        "--held-out",
        type=click.FloatRange(0, 0.9),
        default=0.05,
        show_default=True,
        metavar="SHARE",
        help="Share of the questions whose pairs are written to a second file, for the evaluation.",
    )


@dataclass(frozen=True, kw_only=True)
class TrainOptions(options.Output):
    """Options of `crosscheck finetune train`."""

    pairs: str = options.option(
        "--pairs", required=True, metavar="FILE", help="Training pairs of `crosscheck finetune dataset`."
    )
    output: str = options.option(
        "--output", required=True, metavar="FOLDER", help="Folder for the adapter and the checkpoints."
    )
    overrides: tuple[str, ...] = options.option(
        "--set",
        multiple=True,
        metavar="KEY=VALUE",
        help="Change one setting of the training. May be given several times.",
    )


@dataclass(frozen=True, kw_only=True)
class JudgeOptions(TrainingSplit, options.Overrides, options.Data, options.Output):
    """Options of `crosscheck finetune evaluate`."""

    pairs: str = options.option(
        "--pairs", required=True, metavar="FILE", help="File with the held-out pairs."
    )
    trained_on: str | None = options.option(
        "--trained-on",
        metavar="FILE",
        help="File with the training pairs: an error if it has a question of the held-out pairs.",
    )
    adapter: str | None = options.option(
        "--adapter", metavar="FOLDER", help="Adapter of `crosscheck finetune train`, loaded in this process."
    )
    eliminator: str | None = options.option(
        "--eliminator",
        metavar="NAME",
        help="Instead of --adapter: a backbone that serves the eliminator, of `crosscheck list backbones`.",
    )


@click.group(
    "finetune",
    epilog="\b\nExamples:\n"
    "  crosscheck finetune dataset --benchmark spider-dev --backbone openai --output pairs.jsonl --held-out 0.05\n"
    "  crosscheck finetune train --pairs pairs.jsonl --output eliminator --set model=mistralai/Mistral-7B-v0.1\n"
    "  crosscheck finetune evaluate --pairs pairs.held-out.jsonl --benchmark spider-dev --adapter eliminator/adapter\n"
    "\b\nThen serve the base model with the adapter at an OpenAI-compatible endpoint, describe the endpoint in a\n"
    "backbone's YAML file, and evaluate: crosscheck evaluate --pipeline sea-sql --set pipeline.eliminator=NAME\n",
)
def command() -> None:
    """Train and evaluate the small model for bias elimination in SEA-SQL."""


@command.command(
    "dataset",
    epilog="\b\nInterrupted or failed? The same command continues; no call is paid for twice.\n"
    "\b\nExit codes: 0 done; 2 bad input or configuration; 3 some questions failed, run it again; 130 interrupted.",
)
@options.record(DatasetOptions)
def dataset(given: DatasetOptions) -> int:
    """Write training pairs: the preliminary SQL of every training question, compared with its gold SQL.

    The questions of --benchmark are the evaluated split: the training questions must not contain any of them.
    """
    from flows.cli.progress import open_progress
    from flows.finetuning.settings import check_splits, check_writable, held_out_file, pairs_settings
    from flows.questions.launch import launched
    from flows.runtime.control import Control

    chosen = given.settings(given.pipeline)
    path = Path(given.output).expanduser()
    check_writable(path)
    settings = pairs_settings(chosen.model_copy(update={"benchmark": given.split(chosen.benchmark)}))
    check_splits(settings, chosen.benchmark)
    with open_progress(sys.stderr) as progress:
        control = Control(progress)
        with launched(settings, control) as prefect:
            from flows.finetuning.pairs import making_pairs

            flow = making_pairs(control, prefect.preparation)
            found = prefect.loop.run(flow(settings, chosen.benchmark, str(path), given.held_out))

    def show(stream: TextIO) -> None:
        click.echo(f"{found.pairs:,} training pairs in {path}", stream)
        if given.held_out:
            click.echo(f"{found.held_out:,} held-out pairs in {held_out_file(path)}", stream)
        click.echo(
            f"Of {found.questions:,} questions: {found.right:,} preliminary SQLs are correct, "
            f"{found.pairs + found.held_out - found.right:,} wrong; left out: {found.like_evaluated:,} equal "
            f"to evaluated questions, {found.without_sql:,} without SQL, {found.gold_faults:,} whose gold fails, "
            f"{found.duplicates:,} duplicates. {found.calls:,} model calls.",
            stream,
        )

    emit(asdict(found), show, as_json=given.as_json, text_too=False)
    return RETRYABLE_FAILURES if found.failed else 0


@command.command(
    "train",
    epilog="\b\nThe defaults are those of the paper: LoRA of rank 64 on all linear projections and the output head,\n"
    "one epoch, batches of 64, 4,096 tokens. To change them:\n"
    "  --set rank=16 --set learning_rate=0.0001 --set device_batch_size=4\n"
    "\b\nInterrupted? The same command continues from the last checkpoint.\n"
    "\b\nExit codes: 0 done; 2 bad input or configuration; 130 interrupted, a checkpoint is kept.",
)
@options.record(TrainOptions)
def train(given: TrainOptions) -> int:
    """Fine-tune a model on training pairs with LoRA. Needs the extra `finetune`, and a GPU for real models."""
    from flows.cli.progress import open_progress
    from flows.finetuning.settings import check_writable, finetuning_settings
    from flows.finetuning.training import run_training
    from flows.runtime.signals import stopped_by_signals

    settings = finetuning_settings(given.overrides)
    folder = Path(given.output).expanduser()
    check_writable(folder / "adapter")
    with open_progress(sys.stderr) as progress, stopped_by_signals() as stop:
        trained = run_training(Path(given.pairs).expanduser(), settings, folder, given.folder, progress, stop)

    def show(stream: TextIO) -> None:
        if not trained.finished:
            click.echo(f"Stopped after step {trained.steps:,}; the same command continues.", sys.stderr)
            return
        click.echo(
            f"{trained.steps:,} steps on {trained.pairs:,} pairs; the adapter is in {trained.adapter}", stream
        )
        if trained.too_long:
            click.echo(
                f"{trained.too_long:,} pairs were left out: more than {settings.max_tokens:,} tokens.", stream
            )

    emit({**asdict(trained), "adapter": str(trained.adapter)}, show, as_json=given.as_json, text_too=False)
    return 0 if trained.finished else INTERRUPTED


@command.command("evaluate")
@options.record(JudgeOptions)
def evaluate(given: JudgeOptions) -> None:
    """Count what an eliminator fixes and breaks on held-out pairs."""
    from flows.cli.progress import open_progress
    from flows.finetuning.training import EliminatorEvaluation, run_eliminator_evaluation
    from tasks.backbone.kinds.kind import check_backbone
    from tasks.settings.home import find_conf, find_data
    from tasks.settings.load import load_backbone_settings, load_benchmark_settings

    if (given.adapter is None) == (given.eliminator is None):
        raise click.UsageError("Name either --adapter FOLDER or --eliminator NAME.")
    conf = find_conf()
    split = given.split(load_benchmark_settings(conf, given.benchmark, given.overrides))
    asked = (
        Path(given.adapter).expanduser()
        if given.adapter
        else load_backbone_settings(conf, str(given.eliminator), given.overrides)
    )
    if not isinstance(asked, Path):
        check_backbone(asked)
    with open_progress(sys.stderr) as progress:
        settings = EliminatorEvaluation(
            Path(given.pairs).expanduser(),
            trained_on=Path(given.trained_on).expanduser() if given.trained_on else None,
            benchmark=split,
            eliminator=asked,
            data=find_data(given.data),
            home=given.folder,
        )
        score = run_eliminator_evaluation(settings, progress)

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

    emit(asdict(score), show, as_json=given.as_json, text_too=False)
