"""`crosscheck finetune`: training of SEA-SQL's eliminator."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

import click

from flows.cli import options
from tasks.core.wording import counted


@click.group(
    "finetune",
    epilog="\b\nExamples:\n"
    "  crosscheck evaluate --benchmark spider-train.yaml --pipeline sea-sql --backbone openai\n"
    "  crosscheck finetune pairs latest --evaluated spider-dev --output pairs.jsonl\n"
    "  crosscheck finetune train --pairs pairs.jsonl --output out --set model=mistralai/Mistral-7B-v0.1\n"
    "\nThen serve the model with its adapter, and evaluate:\n"
    "  crosscheck evaluate --pipeline sea-sql --set pipeline.eliminator=eliminator\n",
)
def command() -> None:
    """Train the small model for bias elimination in SEA-SQL."""


@dataclass(frozen=True, kw_only=True)
class PairsOptions(options.Files):
    """Options of `crosscheck finetune pairs`."""

    runs: tuple[str, ...] = options.argument(metavar="RUN...", nargs=-1, required=True)
    evaluated: tuple[str, ...] = options.option(
        "--evaluated",
        multiple=True,
        required=True,
        metavar="NAME",
        help="Benchmark that the model will be evaluated on: no pair has one of its questions or golds. May be given "
        "several times.",
    )
    output: Path = options.path(
        "--output", required=True, metavar="FILE", help="File for the training pairs, as JSON lines."
    )


@command.command(
    "pairs",
    epilog="\b\nExamples:\n"
    "  crosscheck finetune pairs latest --evaluated spider-dev --output pairs.jsonl\n"
    "  crosscheck finetune pairs latest latest~1 --evaluated spider-dev --evaluated bird-dev --output pairs.jsonl\n"
    "\nA pair is the eliminator's prompt for a question of a RUN of SEA-SQL, and the SQL to answer: the preliminary\n"
    "SQL if it is right, else the gold SQL. No model is called.\n"
    "\nExit codes: 0 done; 2 bad input.",
)
@options.record(PairsOptions)
def pairs(arguments: PairsOptions) -> None:
    """Write training pairs from runs on training splits."""
    from flows.evaluate.finetuning import make_pairs, write_pairs
    from tasks.core.files import check_writable
    from tasks.settings.assemble import benchmark_settings

    check_writable(arguments.output, "--output")
    with arguments.progress() as progress:
        evaluated = [
            arguments.folders.benchmark(benchmark_settings(name), progress) for name in arguments.evaluated
        ]
        written = make_pairs(arguments.read_runs(*arguments.runs), evaluated, arguments.folders, progress)
    write_pairs(arguments.output, written)
    right = sum(pair.right for pair in written.by_prompt.values())
    left_out = dict(written.left_out)

    def show(stream: TextIO) -> None:
        reasons = "; ".join(f"{number:,} {reason}" for reason, number in left_out.items())
        click.echo(
            f"{counted(len(written.by_prompt), 'training pair')} in {arguments.output}, {right:,} with a right "
            f"preliminary SQL. Questions left out: {reasons}.",
            stream,
        )

    arguments.emit({"pairs": len(written.by_prompt), "right": right, "left_out": left_out}, show)


@dataclass(frozen=True, kw_only=True)
class TrainOptions(options.Output):
    """Options of `crosscheck finetune train`."""

    pairs: Path = options.path(
        "--pairs", required=True, metavar="FILE", help="Training pairs of `crosscheck finetune pairs`."
    )
    output: Path = options.path(
        "--output", required=True, metavar="FOLDER", help="Folder for the adapter and the checkpoints."
    )
    overrides: tuple[str, ...] = options.set_option("Change one setting of the training.")


@command.command(
    "train",
    epilog="\b\nThe defaults are those of the paper: LoRA of rank 64 on all linear projections and the output head,\n"
    "one epoch, batches of 64, 4,096 tokens. To change them:\n"
    "  --set rank=16 --set learning_rate=0.0001 --set device_batch_size=4\n"
    "\nInterrupted? Run the same command again to continue from the last checkpoint.\n"
    "\nExit codes: 0 done; 2 bad input or configuration; 130 interrupted.",
)
@options.record(TrainOptions)
def train(arguments: TrainOptions) -> None:
    """Fine-tune a model on training pairs with TRL and LoRA.

    Needs the extra `finetune`, and a GPU for models of the paper's size. Parameters and metrics are logged to MLflow.
    """
    from flows.evaluate.finetuning import finetuning_settings, read_pairs
    from flows.evaluate.finetuning import train as train_adapter

    settings = finetuning_settings(arguments.overrides)
    trained = train_adapter(read_pairs(arguments.pairs), settings, arguments.output, arguments.folder)

    def show(stream: TextIO) -> None:
        click.echo(
            f"{trained.steps:,} steps on {counted(trained.pairs, 'pair')}; the adapter is in {trained.adapter}",
            stream,
        )
        if trained.too_long:
            click.echo(
                f"{counted(trained.too_long, 'pair')} left out: more than {settings.max_tokens:,} tokens.",
                stream,
            )

    arguments.emit({**asdict(trained), "adapter": str(trained.adapter)}, show)
