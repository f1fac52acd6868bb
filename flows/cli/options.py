"""Options that several commands take, in records to inherit from; how a record declares them is in `fields`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli import completion
from flows.cli.fields import GroupedCommand as GroupedCommand
from flows.cli.fields import argument as argument
from flows.cli.fields import flag as flag
from flows.cli.fields import number as number
from flows.cli.fields import option as option
from flows.cli.fields import path as path
from flows.cli.fields import record as record
from flows.cli.fields import set_option as set_option
from flows.cli.folder_options import OUTPUT as OUTPUT
from flows.cli.folder_options import Data as Data
from flows.cli.folder_options import Files as Files
from flows.cli.folder_options import Folder as Folder
from flows.cli.folder_options import Json as Json
from flows.cli.folder_options import Output as Output
from flows.cli.folder_options import Page as Page
from tasks.settings.home import DEFAULT_BACKBONE, DEFAULT_BENCHMARK, DEFAULT_PIPELINE

if TYPE_CHECKING:
    from tasks.settings.evaluation import EvaluationSettings


EVALUATED, LABELS = "Benchmark, model and pipeline", "Labels, to find the run later"
"""Headings of options in the help of commands that have many."""


def end_of(name: str | Path, most: int = 60) -> str:
    """Return the end of a name, which may be the path of a file: for a line of progress."""
    text = str(name)
    return text if len(text) <= most else f"…{text[1 - most :]}"


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Option of commands that use a benchmark."""

    benchmark: str = option(
        "--benchmark",
        group=EVALUATED,
        shell_complete=completion.names("benchmark"),
        default=DEFAULT_BENCHMARK,
        metavar="NAME",
        help="Benchmark: a name from `crosscheck list benchmarks`, or a YAML file.",
    )


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """Option of commands that call a model."""

    backbone: str = option(
        "--backbone",
        group=EVALUATED,
        shell_complete=completion.names("backbone"),
        default=DEFAULT_BACKBONE,
        metavar="NAME",
        help="Model: a name from `crosscheck list backbones`, or a YAML file.",
    )


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Option of commands that run a pipeline."""

    pipeline: str = option(
        "--pipeline",
        group=EVALUATED,
        shell_complete=completion.names("pipeline"),
        default=DEFAULT_PIPELINE,
        metavar="NAME",
        help="Pipeline: a name from `crosscheck list pipelines`, a YAML file, or path/to/file.py:function.",
    )


@dataclass(frozen=True, kw_only=True)
class Questions:
    """Options that select questions of the benchmark."""

    limit: int | None = number("--limit", group=EVALUATED, help="Use only the first N questions.")
    questions: str | None = option(
        "--questions",
        group=EVALUATED,
        metavar="IDS",
        help="Use only these questions: ids and ranges, `717-845,900`, or @FILE.",
    )


@dataclass(frozen=True, kw_only=True)
class Details:
    """Option of commands that end with a summary."""

    details: bool = flag(
        "--details",
        "Show everything: by rule, difficulty and database, causes, schema linking, calls, MLflow and Prefect.",
        last=True,
        group=OUTPUT,
    )


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Option of commands that configure an evaluation."""

    overrides: tuple[str, ...] = set_option(
        "Change one setting: benchmark.*, backbone.*, pipeline.* or tracking.*.", group=EVALUATED
    )


@dataclass(frozen=True, kw_only=True)
class BenchmarkOverrides:
    """Option of commands that configure a benchmark alone."""

    overrides: tuple[str, ...] = set_option(
        "Change one setting of the benchmark: benchmark.*.", group=EVALUATED
    )


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Options of commands that make runs."""

    name: str | None = option(
        "--name", last=True, group=LABELS, metavar="TEXT", help="Name of the run in MLflow and in lists."
    )
    tag: tuple[str, ...] = option(
        "--tag",
        last=True,
        group=LABELS,
        multiple=True,
        metavar="KEY=VALUE",
        help="Tag of the run, for `crosscheck runs --tag`. May be given several times.",
    )
    note: str | None = option("--note", last=True, group=LABELS, metavar="TEXT", help="Remark on the run.")

    @property
    def labels(self) -> dict[str, str]:
        """Tags of the run, its name and note among them.

        Raises:
            ConfigurationError: a tag is not valid.
        """
        from tasks.settings.evaluation import labels

        return labels(self.name, self.tag, self.note).as_tags


@dataclass(frozen=True, kw_only=True)
class Evaluation(Benchmark, Backbone, Questions, Overrides, Files):
    """Options of an evaluation, except its pipeline."""

    def settings(self, pipeline: str, *overrides: str, **more: Any) -> "EvaluationSettings":
        """Return the settings of the options, with further values of `--set` and fields of `EvaluationChoice`.

        Raises:
            ConfigurationError: an unknown name, key or value.
        """
        from tasks.settings.assemble import EvaluationChoice, evaluation_settings

        return evaluation_settings(
            EvaluationChoice(
                benchmark=self.benchmark,
                backbone=self.backbone,
                pipeline=pipeline,
                overrides=(*self.overrides, *overrides),
                limit=self.limit,
                questions=self.questions,
                data=self.data,
                home=self.home,
                **more,
            )
        )
