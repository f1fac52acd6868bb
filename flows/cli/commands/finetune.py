"""`crosscheck finetune`: training of SEA-SQL's eliminator."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from flows.cli import options
from tasks.core.wording import counted


class Pairs(options.Files):
    """Write training pairs from runs on training splits.

    Examples:
      crosscheck finetune pairs latest --evaluated spider-dev --output pairs.jsonl
      crosscheck finetune pairs latest latest~1 --evaluated spider-dev --evaluated bird-dev --output pairs.jsonl

    A pair is the eliminator's prompt for a question of a RUN of SEA-SQL, and the SQL to answer: the preliminary
    SQL if it is right, else the gold SQL. No model is called.

    Exit codes: 0 done; 2 bad input.
    """

    runs: Annotated[tuple[str, ...], options.Argument("RUN...")]
    evaluated: Annotated[tuple[str, ...], options.Metavar("NAME")]
    """Benchmark that the model will be evaluated on: no pair has one of its questions or golds. May be given
    several times."""
    output: Annotated[Path, options.Metavar("FILE"), options.More(type=options.NewFile())]
    """File for the training pairs, as JSON lines."""

    def __call__(self) -> None:
        from flows.evaluate.finetuning import make_pairs, write_pairs
        from tasks.settings.assemble import benchmark_settings

        with self.progress() as progress:
            evaluated = [
                self.folders.benchmark(benchmark_settings(name), progress) for name in self.evaluated
            ]
            pairs = make_pairs(self.read_runs(*self.runs), evaluated, self.folders, progress)
        write_pairs(self.output, pairs)
        right = sum(pair.right for pair in pairs.by_prompt.values())
        left_out = dict(pairs.left_out)

        reasons = "; ".join(f"{number:,} {reason}" for reason, number in left_out.items())
        self.emit(
            {"pairs": len(pairs.by_prompt), "right": right, "left_out": left_out},
            f"{counted(len(pairs.by_prompt), 'training pair')} in {self.output}, {right:,} with a right preliminary "
            f"SQL. Questions left out: {reasons}.",
        )


class Train(options.Output):
    """Fine-tune a model on training pairs with TRL and LoRA.

    Needs the extra `finetune`, and a GPU for models of the paper's size. Parameters and metrics are logged to MLflow.

    Examples:
      crosscheck finetune train --pairs pairs.jsonl --output out --set model=mistralai/Mistral-7B-v0.1

    The defaults are those of the paper: LoRA of rank 64 on all linear projections and the output head,
    one epoch, batches of 64, 4,096 tokens. To change them:
      --set rank=16 --set learning_rate=0.0001 --set device_batch_size=4

    Interrupted? Run the same command again to continue from the last checkpoint.

    Exit codes: 0 done; 2 bad input or configuration; 130 interrupted.
    """

    pairs: Path
    """Training pairs of `crosscheck finetune pairs`."""
    output: Annotated[Path, options.Metavar("FOLDER")]
    """Folder for the adapter and the checkpoints."""
    overrides: Annotated[tuple[str, ...], options.SETTING, options.More("--set")] = ()
    """Change one setting of the training. May be given several times."""

    def __call__(self) -> None:
        from flows.evaluate.finetuning import finetuning_settings, read_pairs
        from flows.evaluate.finetuning import train as train_adapter

        settings = finetuning_settings(self.overrides)
        trained = train_adapter(read_pairs(self.pairs), settings, self.output, self.folder)

        steps, pairs = counted(trained.steps, "step"), counted(trained.pairs, "pair")
        text = f"{steps} on {pairs}; the adapter is in {trained.adapter}"
        if trained.too_long:
            left_out = counted(trained.too_long, "pair")
            text += f"\n{left_out} left out: more than {settings.max_tokens:,} tokens."
        self.emit({**asdict(trained), "adapter": str(trained.adapter)}, text)
