"""Options and settings of `crosscheck finetune`, and the checks before the first model call."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import ValidationError

from flows.cli import options
from flows.runtime.folders import Folders
from tasks.benchmarks.benchmark import Benchmark
from tasks.core.errors import ConfigurationError, did_you_mean, first_problem
from tasks.core.records import Question
from tasks.finetuning.pairs import refuse_evaluated
from tasks.finetuning.settings import FinetuningSettings
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.pipeline import SeaSqlSettings

if TYPE_CHECKING:
    from tasks.settings.benchmark import BenchmarkSettings


def training_benchmark(evaluated: BenchmarkSettings) -> BenchmarkSettings:
    """Return a benchmark's settings with its training questions in the place of its questions.

    Raises:
        ConfigurationError: the benchmark has no training questions as JSON.
    """
    if not evaluated.train or not all(name.lower().endswith(".json") for name in evaluated.train_files):
        has = (
            f"has its training questions in {', '.join(evaluated.train_files)}"
            if evaluated.train
            else "has no training questions"
        )
        raise ConfigurationError(
            f"{evaluated.name} {has}; training pairs need them as JSON, with their databases. Describe the training "
            "split in a benchmark's YAML file, and name that file with --training."
        )
    return evaluated.model_copy(
        update={
            "name": f"{evaluated.name}-train",
            "questions": evaluated.train,
            "train": None,
            "quarantine": (),
        }
    )


def pairs_settings(settings: EvaluationSettings) -> EvaluationSettings:
    """Return the settings with SEA-SQL's pipeline cut after the preliminary SQL.

    Raises:
        ConfigurationError: the pipeline is not SEA-SQL.
    """
    pipeline = settings.pipeline
    if not isinstance(pipeline, SeaSqlSettings):
        raise ConfigurationError(
            f'Training pairs are made with SEA-SQL; the pipeline "{pipeline.name}" is of the kind "{pipeline.kind}". '
            "Name one of the kind sea-sql with --pipeline."
        )
    return settings.model_copy(
        update={
            "pipeline": pipeline.model_copy(
                update={
                    "bias_elimination": pipeline.bias_elimination.model_copy(update={"enabled": False}),
                    "execution_adjustment": pipeline.execution_adjustment.model_copy(update={"rounds": 0}),
                    "rewrite_concat": False,
                }
            )
        }
    )


@dataclass(frozen=True)
class Evaluated:
    """The splits that the eliminator will be evaluated on: none of their questions may be trained on."""

    splits: tuple[Benchmark, ...]

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions of every split."""
        return tuple(question for split in self.splits for question in split.questions)

    @property
    def gold_fingerprints(self) -> frozenset[str]:
        """Fingerprints of the gold of every split."""
        return frozenset().union(*(split.gold_fingerprints for split in self.splits))

    def refuse(self, training: Iterable[Question]) -> None:
        """Check that no training question is in an evaluated split.

        Raises:
            ConfigurationError: some are; the message names them.
        """
        known = tuple(training)
        for split in self.splits:
            refuse_evaluated(known, split.questions, split.settings.name)


def read_evaluated(
    evaluated: Sequence[BenchmarkSettings], training: Sequence[BenchmarkSettings], folders: Folders
) -> Evaluated:
    """Read the evaluated splits, and check that no training split overlaps with one of them.

    Raises:
        CrosscheckError: they overlap, or one of them cannot be read.
    """
    found = Evaluated(tuple(map(folders.benchmark, evaluated)))
    for one in training:
        found.refuse(folders.benchmark(one).questions)
    return found


def held_out_file(output: Path) -> Path:
    """Return the file of the held-out pairs, in the folder of the training pairs."""
    return output.with_name(f"{output.stem}.held-out{output.suffix}")


def finetuning_settings(overrides: Sequence[str]) -> FinetuningSettings:
    """Return the paper's settings with the values of `--set KEY=VALUE`.

    Raises:
        ConfigurationError: an unknown key or an invalid value.
    """
    content: dict[str, str] = {}
    for override in overrides:
        key, equals, content[key] = override.partition("=")
        if not equals or key not in FinetuningSettings.model_fields:
            hint = did_you_mean(key, FinetuningSettings.model_fields)
            raise ConfigurationError(
                f'--set {override}: write KEY=VALUE, for example "--set rank=16". {hint}'
            )
    try:
        return FinetuningSettings.model_validate(content, strict=False)
    except ValidationError as error:
        raise ConfigurationError(f"--set {first_problem(error)}.") from None


def prepare_output(path: Path) -> None:
    """Create the folder of a file and check that it is writable.

    Raises:
        ConfigurationError: the folder cannot be created or is not writable.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"--output {path}: {path.parent} cannot be created: {error.strerror}."
        ) from None
    if not os.access(path.parent, os.W_OK):
        raise ConfigurationError(f"--output {path}: {path.parent} is not writable.")


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
