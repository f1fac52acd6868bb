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

if TYPE_CHECKING:
    from tasks.settings.evaluation import EvaluationSettings
    from tasks.settings.home import Home

T = TypeVar("T")

_place = count()


def option(*names: str, last: bool = False, **attributes: Any) -> Any:
    """Declare an option as a field of a record.

    Args:
        names: as click takes them, `--limit`.
        last: list it behind the command's own options in `--help`.
        attributes: further keyword arguments of `click.option`.
    """
    return field(
        metadata={
            "make": click.option,
            "names": names,
            "attributes": attributes,
            "place": (last, next(_place)),
        }
    )


def argument(**attributes: Any) -> Any:
    """Declare a positional argument as a field of a record; `attributes` are those of `click.argument`."""
    return field(
        metadata={
            "make": click.argument,
            "names": (),
            "attributes": attributes,
            "place": (False, next(_place)),
        }
    )


def record(declared: type[T]) -> Callable[[Callable[[T], int | None]], Callable[..., int | None]]:
    """Give a command the options that the fields of a record declare, and pass it one frozen record.

    What the command returns is its exit code; None is 0.
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
    """Make `--home` the working folder of this process and of every process that it starts."""
    if value:
        os.environ["CROSSCHECK_HOME"] = str(Path(value).expanduser().resolve())
    return value


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Option of the commands that need a benchmark."""

    benchmark: str = option(
        "--benchmark", default="demo", show_default=True, metavar="NAME", help="`crosscheck list benchmarks`."
    )


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """Option of the commands that ask a model."""

    backbone: str = option(
        "--backbone",
        default="offline",
        show_default=True,
        metavar="NAME",
        help="The model: `crosscheck list backbones`.",
    )


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Option of the commands that run a pipeline."""

    pipeline: str = option(
        "--pipeline",
        default="rsl-sql+dac",
        show_default=True,
        metavar="NAME",
        help="`crosscheck list pipelines`.",
    )


@dataclass(frozen=True, kw_only=True)
class Questions:
    """Options that select questions of the benchmark."""

    limit: int | None = option(
        "--limit", type=click.IntRange(min=1), metavar="N", help="Take the first N questions only."
    )
    questions: str | None = option(
        "--questions", metavar="IDS", help="Take these only: ids and ranges, `717-845,900`, or @FILE."
    )


@dataclass(frozen=True, kw_only=True)
class Details:
    """Option of the commands that end with a summary."""

    details: bool = option(
        "--details",
        last=True,
        is_flag=True,
        help="Show all that lies behind the score: causes of errors, where the rules disagree, and more.",
    )


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Option of the commands that configure an evaluation."""

    overrides: tuple[str, ...] = option(
        "--set",
        last=True,
        multiple=True,
        metavar="KEY=VALUE",
        help="Change one setting: benchmark.*, backbone.*, pipeline.* or tracking.*. May be given several times.",
    )


@dataclass(frozen=True, kw_only=True)
class BenchmarkOverrides:
    """Option of the commands that configure a benchmark alone."""

    overrides: tuple[str, ...] = option(
        "--set",
        last=True,
        multiple=True,
        metavar="KEY=VALUE",
        help="Change one setting of the benchmark: benchmark.*. May be given several times.",
    )


@dataclass(frozen=True, kw_only=True)
class Data:
    """Option of the commands that read a benchmark's files."""

    data: str | None = option(
        "--data",
        last=True,
        metavar="FOLDER",
        help="Where the benchmarks' files are. [default: CROSSCHECK_DATA, else ./data]",
    )


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Option of the commands that use the working folder."""

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
    """Option of the commands with a result for scripts."""

    as_json: bool = option(
        "--json",
        last=True,
        is_flag=True,
        help="Print one JSON object on standard output; all else on standard error.",
    )


@dataclass(frozen=True, kw_only=True)
class Output(Json, Folder):
    """Options of nearly every command: the working folder, and JSON for scripts."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """Option of the commands that can write a page."""

    html: Path | None = option(
        "--html",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Also write one self-contained page.",
    )


@dataclass(frozen=True, kw_only=True)
class Evaluation(Benchmark, Backbone, Questions, Overrides, Data, Output):
    """Options that describe an evaluation but for its pipeline."""

    def settings(self, pipeline: str, *overrides: str, **more: Any) -> "EvaluationSettings":
        """Return the settings that the options stand for.

        Args:
            pipeline: name of the pipeline.
            overrides: as of `--set`, in addition.
            more: further arguments of `evaluation_settings`.

        Raises:
            ConfigurationError: an unknown name, key or value.
        """
        from tasks.settings.assemble import evaluation_settings

        return evaluation_settings(
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
