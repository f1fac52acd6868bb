"""Options that several commands take, spelled and explained once."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tasks.settings.home import DEFAULT_BACKBONE, DEFAULT_BENCHMARK, DEFAULT_PIPELINE

F = TypeVar("F", bound=Callable[..., Any])


def home(function: F) -> F:
    """Add `--home`."""
    return click.option(
        "--home",
        metavar="FOLDER",
        callback=_make_default,
        help="Working folder for caches, stores and results. [default: CROSSCHECK_HOME, else .crosscheck]",
    )(function)


def _make_default(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Make `--home` what everything in this process, and every process it starts, takes for the working folder."""
    if value:
        os.environ["CROSSCHECK_HOME"] = str(Path(value).expanduser().resolve())
    return value


def data(function: F) -> F:
    """Add `--data`."""
    return click.option(
        "--data",
        metavar="FOLDER",
        help="Where the benchmarks' files are. [default: CROSSCHECK_DATA, else ./data]",
    )(function)


def overrides(function: F) -> F:
    """Add `--set`."""
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Change one setting: benchmark.*, backbone.*, pipeline.* or tracking.*. May be given several times.",
    )(function)


def benchmark_overrides(function: F) -> F:
    """Add `--set` where nothing but a benchmark is configured."""
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Change one setting of the benchmark: benchmark.*. May be given several times.",
    )(function)


def details(function: F) -> F:
    """Add `--details`."""
    return click.option(
        "--details",
        is_flag=True,
        help="Show all that lies behind the score: causes of errors, where the rules disagree, and more.",
    )(function)


def backbone(function: F) -> F:
    """Add `--backbone`."""
    return click.option(
        "--backbone",
        default=DEFAULT_BACKBONE,
        show_default=True,
        metavar="NAME",
        help="The model: `crosscheck list backbones`.",
    )(function)


def pipeline(function: F) -> F:
    """Add `--pipeline`."""
    return click.option(
        "--pipeline",
        default=DEFAULT_PIPELINE,
        show_default=True,
        metavar="NAME",
        help="`crosscheck list pipelines`, a YAML file, or path/to/file.py:function of your own.",
    )(function)


def benchmark(function: F) -> F:
    """Add `--benchmark`."""
    return click.option(
        "--benchmark",
        default=DEFAULT_BENCHMARK,
        show_default=True,
        metavar="NAME",
        help="`crosscheck list benchmarks`.",
    )(function)


def as_json(function: F) -> F:
    """Add `--json`."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON object on standard output; all else on standard error.",
    )(function)
