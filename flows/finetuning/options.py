"""Options of `crosscheck finetune`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.cli import options

if TYPE_CHECKING:
    from tasks.settings.benchmark import BenchmarkSettings


@dataclass(frozen=True, kw_only=True)
class TrainingSplits(options.Benchmark):
    """Options that name the evaluated benchmarks and the training splits."""

    also: tuple[str, ...] = options.option(
        "--also",
        multiple=True,
        metavar="NAME",
        help="A further evaluated benchmark, beside --benchmark. May be given several times.",
    )
    training: tuple[str, ...] = options.option(
        "--training",
        multiple=True,
        metavar="NAME",
        help="Benchmark whose questions are a training split. May be given several times. [default: the training "
        "questions of every evaluated benchmark]",
    )

    def evaluated(self, first: "BenchmarkSettings") -> "tuple[BenchmarkSettings, ...]":
        """Return the settings of the evaluated benchmarks, of which the first is that of --benchmark.

        Raises:
            ConfigurationError: there is no benchmark of a name.
        """
        return (first, *_load(self.also))

    def splits(self, evaluated: "Sequence[BenchmarkSettings]") -> "tuple[BenchmarkSettings, ...]":
        """Return the settings of the training splits.

        Raises:
            ConfigurationError: there is no benchmark of a name, or one has no training split.
        """
        from flows.finetuning.settings import training_benchmark

        return _load(self.training) if self.training else tuple(map(training_benchmark, evaluated))


@dataclass(frozen=True, kw_only=True)
class DatasetOptions(TrainingSplits, options.Evaluation):
    """Options of `crosscheck finetune dataset`."""

    pipeline: str = options.option(
        "--pipeline",
        default="sea-sql",
        metavar="NAME",
        help="A pipeline of the kind sea-sql.",
    )
    output: Path = options.path(
        "--output", required=True, metavar="FILE", help="File for the training pairs, as JSON lines."
    )
    held_out: float = options.option(
        "--held-out",
        type=click.FloatRange(0, 0.9),
        default=0.05,
        metavar="SHARE",
        help="Share of the questions whose pairs are written to a second file, for the evaluation.",
    )


@dataclass(frozen=True, kw_only=True)
class TrainOptions(options.Output):
    """Options of `crosscheck finetune train`."""

    pairs: Path = options.path(
        "--pairs", required=True, metavar="FILE", help="Training pairs of `crosscheck finetune dataset`."
    )
    output: Path = options.path(
        "--output", required=True, metavar="FOLDER", help="Folder for the adapter and the checkpoints."
    )
    overrides: tuple[str, ...] = options.set_option("Change one setting of the training.")


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(TrainingSplits, options.Overrides, options.Files):
    """Options of `crosscheck finetune evaluate`."""

    pairs: Path = options.path("--pairs", required=True, metavar="FILE", help="File with the held-out pairs.")
    trained_on: Path | None = options.path(
        "--trained-on",
        metavar="FILE",
        help="File with the training pairs: an error if it has a question of the held-out pairs.",
    )
    adapter: Path | None = options.path(
        "--adapter", metavar="FOLDER", help="Adapter of `crosscheck finetune train`, loaded in this process."
    )
    eliminator: str | None = options.option(
        "--eliminator",
        metavar="NAME",
        help="Instead of --adapter: a backbone that serves the eliminator, of `crosscheck list backbones`.",
    )


@dataclass(frozen=True, kw_only=True)
class MergeOptions(options.Json):
    """Options of `crosscheck finetune merge`."""

    adapter: Path = options.path(
        "--adapter", required=True, metavar="FOLDER", help="Adapter of `crosscheck finetune train`."
    )
    output: Path = options.path(
        "--output", required=True, metavar="FOLDER", help="Folder for the merged model."
    )
    precision: str = options.option(
        "--precision",
        type=click.Choice(["auto", "float32", "bfloat16"]),
        default="auto",
        help="Type of the weights; auto: bfloat16 on a GPU that has it, else float32.",
    )


def _load(names: "Sequence[str]") -> "tuple[BenchmarkSettings, ...]":
    from tasks.settings.home import find_conf
    from tasks.settings.load import load_benchmark_settings

    return tuple(load_benchmark_settings(find_conf(), name) for name in names)
