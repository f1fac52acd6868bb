"""Options that several commands take, in records to inherit from; how a record declares them is in `fields`."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from flows.cli import completion
from flows.cli.fields import GroupedCommand as GroupedCommand
from flows.cli.fields import argument as argument
from flows.cli.fields import flag as flag
from flows.cli.fields import number as number
from flows.cli.fields import option as option
from flows.cli.fields import path as path
from flows.cli.fields import record as record
from flows.cli.fields import set_option as set_option
from flows.cli.output import emit_json, write_page
from tasks.settings.home import DEFAULT_BACKBONE, DEFAULT_BENCHMARK, DEFAULT_PIPELINE

if TYPE_CHECKING:
    from flows.runtime.control import Progress
    from flows.runtime.folders import Folders
    from tasks.settings.evaluation import EvaluationSettings
    from tasks.settings.home import Home
    from tasks.tracking.warehouse.stored import StoredRun


EVALUATED, LABELS, OUTPUT, FOLDERS = (
    "Benchmark, model and pipeline",
    "Labels, to find the run later",
    "Output",
    "Folders",
)
"""Headings of options in the help of commands that have many."""


def end_of(name: str | Path, most: int = 60) -> str:
    """Return the end of a name, which may be the path of a file: for a line of progress."""
    text = str(name)
    return text if len(text) <= most else f"…{text[1 - most :]}"


def _make_default(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Set the working folder of this process and its child processes to `--home`."""
    if value:
        os.environ["CROSSCHECK_HOME"] = str(Path(value).expanduser().absolute())
    return value


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
class Data:
    """Option of commands that read a benchmark's files."""

    data: str | None = option(
        "--data",
        last=True,
        group=FOLDERS,
        metavar="FOLDER",
        help="Folder of the benchmarks' files. [default: CROSSCHECK_DATA, else ./data]",
    )


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Option of commands that use the working folder."""

    home: str | None = option(
        "--home",
        last=True,
        group=FOLDERS,
        metavar="FOLDER",
        callback=_make_default,
        help="Working folder for caches, stores and results. [default: CROSSCHECK_HOME, else .crosscheck]",
    )

    @property
    def folder(self) -> "Home":
        """The working folder; made where it is missing."""
        from tasks.settings.home import find_home

        return find_home(self.home)

    @property
    def read_folder(self) -> "Home":
        """The working folder as it is, which may be missing: for what only reads."""
        from tasks.settings.home import find_home

        return find_home(self.home, make=False)

    @contextmanager
    def progress(self) -> "Iterator[Progress]":
        """Show progress on standard error, and write warnings to the working folder's log, while the block runs."""
        from flows.cli.progress import open_progress
        from flows.runtime.logs import logging_to

        with open_progress(sys.stderr) as progress, logging_to(self.read_folder):
            yield progress

    def read_runs(self, *names: str) -> "list[StoredRun]":
        """Return the runs that a user names, with their questions.

        Raises:
            DataError: there is no run of a name.
        """
        from tasks.tracking.warehouse.run_names import find_run
        from tasks.tracking.warehouse.runs import Warehouse

        warehouse = Warehouse(self.read_folder.warehouse)
        known = warehouse.runs()
        return [warehouse.read_run(find_run(name, known).run_id) for name in names]


@dataclass(frozen=True, kw_only=True)
class Json:
    """Option of commands that print JSON."""

    as_json: bool = flag(
        "--json",
        "Print one JSON object to standard output, and everything else to standard error.",
        last=True,
        group=OUTPUT,
    )

    def emit(self, value: Any, show: Callable[[TextIO], None], *, text_too: bool = False) -> None:
        """Print the result of a command.

        Args:
            value: the result as plain JSON, for `--json`.
            show: prints the result as text to a stream.
            text_too: whether the text is printed to standard error in addition to the JSON.
        """
        if not self.as_json:
            show(sys.stdout)
            return
        emit_json(value)
        if text_too:
            show(sys.stderr)


@dataclass(frozen=True, kw_only=True)
class Output(Json, Folder):
    """Options of most commands: the working folder and JSON."""


@dataclass(frozen=True, kw_only=True)
class Files(Data, Output):
    """Options of commands that read a benchmark's files and use the working folder."""

    @property
    def folders(self) -> "Folders":
        """Both folders."""
        from flows.runtime.folders import Folders
        from tasks.settings.home import find_data

        return Folders(find_data(self.data), self.folder)


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
class Page(Output):
    """Options of commands that write an HTML page."""

    html: Path | None = option(
        "--html",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Also write a self-contained HTML page.",
    )

    def write_page(self, render: Callable[[], str]) -> None:
        """Write the page that `--html` asks for: before printing, which fails where `head` reads the output."""
        if self.html is not None:
            write_page(render(), self.html)

    def name_page(self) -> None:
        """Say where the page is."""
        if self.html is not None:
            click.echo(f"The page is {self.html}.", err=self.as_json)


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
