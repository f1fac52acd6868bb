"""Options of commands as frozen records: a field declares its option, and the command receives the record.

    @dataclass(frozen=True, kw_only=True)
    class RunsOptions(options.Output):
        limit: int = options.option("--limit", default=20, help="The latest N.")

    @click.command("runs")
    @options.record(RunsOptions)
    def command(given: RunsOptions) -> None: ...

Options that several commands take are declared here once, in records to inherit from.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flows.cli import completion
from tasks.settings.home import DEFAULT_BACKBONE, DEFAULT_BENCHMARK, DEFAULT_PIPELINE

if TYPE_CHECKING:
    from tasks.settings.evaluation import EvaluationSettings
    from tasks.settings.home import Home

T = TypeVar("T")

_place = count()


def option(*names: str, last: bool = False, **attributes: Any) -> Any:
    """Declare an option as a field of a record.

    Args:
        names: names of the option, for example `--limit`.
        last: whether `--help` lists it after the command's own options.
        attributes: further keyword arguments of `click.option`; `--help` shows a default.
    """
    attributes.setdefault("show_default", bool(attributes.get("default")))
    return field(
        metadata={
            "make": click.option,
            "names": names,
            "attributes": _completed(attributes),
            "place": (last, next(_place)),
        }
    )


def number(*names: str, **attributes: Any) -> Any:
    """Declare an option that takes a number of things, at least 1."""
    return option(*names, type=click.IntRange(min=1), metavar="N", **attributes)


def argument(**attributes: Any) -> Any:
    """Declare a positional argument as a field of a record; `attributes` are those of `click.argument`."""
    return field(
        metadata={
            "make": click.argument,
            "names": (),
            "attributes": _completed(attributes),
            "place": (False, next(_place)),
        }
    )


def _completed(attributes: dict[str, Any]) -> dict[str, Any]:
    """Add how the shell completes values, where the option does not say it and its metavar tells."""
    known = completion.BY_METAVAR.get(attributes.get("metavar", ""))
    return {"shell_complete": known, **attributes} if known and "type" not in attributes else attributes


def record(declared: type[T]) -> Callable[[Callable[[T], int | None]], Callable[..., int | None]]:
    """Add the options of a record's fields to a command, which receives them as one frozen record.

    The command returns its exit code; None is 0.
    """

    def decorate(command: Callable[[T], int | None]) -> Callable[..., int | None]:
        def collect(**values: Any) -> int | None:
            return command(declared(**values))

        collect.__doc__ = command.__doc__
        decorated: Callable[..., int | None] = collect
        for each in sorted(fields(declared), key=lambda each: each.metadata["place"], reverse=True):  # type: ignore[arg-type]
            made = each.metadata
            names = (*made["names"], each.name)
            decorated = made["make"](*names, **made["attributes"])(decorated)
        return decorated

    return decorate


def _make_default(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Set the working folder of this process and its child processes to `--home`."""
    if value:
        os.environ["CROSSCHECK_HOME"] = str(Path(value).expanduser().resolve())
    return value


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Option of commands that use a benchmark."""

    benchmark: str = option(
        "--benchmark",
        shell_complete=completion.names("benchmark"),
        default=DEFAULT_BENCHMARK,
        metavar="NAME",
        help="The benchmark, of `crosscheck list benchmarks`.",
    )


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """Option of commands that call a model."""

    backbone: str = option(
        "--backbone",
        shell_complete=completion.names("backbone"),
        default=DEFAULT_BACKBONE,
        metavar="NAME",
        help="The model, of `crosscheck list backbones`.",
    )


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Option of commands that run a pipeline."""

    pipeline: str = option(
        "--pipeline",
        shell_complete=completion.names("pipeline"),
        default=DEFAULT_PIPELINE,
        metavar="NAME",
        help="`crosscheck list pipelines`, a YAML file, or path/to/file.py:function of your own.",
    )


@dataclass(frozen=True, kw_only=True)
class Questions:
    """Options that select questions of the benchmark."""

    limit: int | None = number("--limit", help="Use only the first N questions.")
    questions: str | None = option(
        "--questions",
        metavar="IDS",
        help="Use only these questions: ids and ranges, `717-845,900`, or @FILE.",
    )


@dataclass(frozen=True, kw_only=True)
class Details:
    """Option of commands that end with a summary."""

    details: bool = option(
        "--details",
        last=True,
        is_flag=True,
        help="Show more tables: causes of errors, disagreements between comparison rules, and others.",
    )


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Option of commands that configure an evaluation."""

    overrides: tuple[str, ...] = option(
        "--set",
        last=True,
        multiple=True,
        metavar="KEY=VALUE",
        help="Change one setting: benchmark.*, backbone.*, pipeline.* or tracking.*. May be given several times.",
    )


@dataclass(frozen=True, kw_only=True)
class BenchmarkOverrides:
    """Option of commands that configure a benchmark alone."""

    overrides: tuple[str, ...] = option(
        "--set",
        last=True,
        multiple=True,
        metavar="KEY=VALUE",
        help="Change one setting of the benchmark: benchmark.*. May be given several times.",
    )


@dataclass(frozen=True, kw_only=True)
class Data:
    """Option of commands that read a benchmark's files."""

    data: str | None = option(
        "--data",
        last=True,
        metavar="FOLDER",
        help="Folder of the benchmarks' files. [default: CROSSCHECK_DATA, else ./data]",
    )


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Option of commands that use the working folder."""

    home: str | None = option(
        "--home",
        last=True,
        metavar="FOLDER",
        callback=_make_default,
        help="Working folder for caches, stores and results. [default: CROSSCHECK_HOME, else .crosscheck]",
    )

    @property
    def folder(self) -> "Home":
        """The working folder."""
        from tasks.settings.home import find_home

        return find_home(self.home)


@dataclass(frozen=True, kw_only=True)
class Json:
    """Option of commands that print JSON."""

    as_json: bool = option(
        "--json",
        last=True,
        is_flag=True,
        help="Print one JSON object to standard output, and everything else to standard error.",
    )


@dataclass(frozen=True, kw_only=True)
class Output(Json, Folder):
    """Options of most commands: the working folder and JSON."""


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Options of commands that make runs."""

    name: str | None = option(
        "--name", last=True, metavar="TEXT", help="Name of the run in MLflow and in lists."
    )
    tag: tuple[str, ...] = option(
        "--tag",
        last=True,
        multiple=True,
        metavar="KEY=VALUE",
        help="Tag of the run, for `crosscheck runs --tag`. May be given several times.",
    )
    note: str | None = option("--note", last=True, metavar="TEXT", help="Remark on the run.")

    @property
    def labels(self) -> dict[str, str]:
        """Tags of the run, its name and note among them.

        Raises:
            ConfigurationError: a tag is not valid.
        """
        from tasks.settings.evaluation import labels

        return labels(self.name, self.tag, self.note).as_tags


@dataclass(frozen=True, kw_only=True)
class Page:
    """Option of commands that write an HTML page."""

    html: Path | None = option(
        "--html",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Also write a self-contained HTML page.",
    )


@dataclass(frozen=True, kw_only=True)
class Evaluation(Benchmark, Backbone, Questions, Overrides, Data, Output):
    """Options of an evaluation, except its pipeline."""

    def settings(self, pipeline: str, *overrides: str, **more: Any) -> "EvaluationSettings":
        """Return the settings of the options.

        Args:
            pipeline: name of the pipeline.
            overrides: further values of `--set`.
            more: further fields of `EvaluationChoice`.

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
