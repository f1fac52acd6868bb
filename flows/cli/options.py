"""Options of commands: fields of frozen records that commands inherit from.

@dataclass(frozen=True, kw_only=True)
class RunsOptions(options.Output):
    limit: int = options.option("--limit", default=20, help="The latest N.")

@click.command("runs")
@options.record(RunsOptions)
def command(given: RunsOptions) -> None: ...
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
from annotated_types import Ge

from flows.cli import completion
from flows.runtime.output import emit_json, write_page
from tasks.settings.base import Metavar
from tasks.settings.evaluation import EvaluationNames, QuestionSelection

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from flows.runtime.control import Progress
    from flows.runtime.folders import Folders
    from tasks.results.run_record import RunRecord
    from tasks.settings.base import Settings
    from tasks.settings.evaluation import EvaluationSettings
    from tasks.settings.home import Home


T = TypeVar("T")

_position = count()
OPTIONS = "Options"
"""Heading of the options that name none."""


class Option(click.Option):
    """An option with the heading under which the help of a `GroupedCommand` lists it."""

    def __init__(self, *names: Any, group: str = OPTIONS, **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.group = group


class GroupedCommand(click.Command):
    """Command whose help lists options under headings, in the order of their first options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by their groups."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            shown = None if isinstance(parameter, click.Argument) else parameter.get_help_record(ctx)
            if shown:
                groups.setdefault(getattr(parameter, "group", OPTIONS), []).append(shown)
        for title, listed in groups.items():
            with formatter.section(title):
                formatter.write_dl(listed)


def option(*names: str, last: bool = False, **attributes: Any) -> Any:
    """Declare an option as a field of a record.

    Args:
        names: names of the option, for example `--limit`.
        last: whether `--help` lists it after the command's own options.
        attributes: `group`, its heading in the help of a `GroupedCommand`, and further keyword arguments of
            `click.option`; `--help` shows a default.
    """
    attributes.setdefault("cls", Option)
    attributes.setdefault("show_default", bool(attributes.get("default")))
    return _declared(click.option, names, attributes, last=last)


def flag(name: str, help: str, **attributes: Any) -> Any:
    """Declare an option without a value."""
    return option(name, is_flag=True, help=help, **attributes)


def path(name: str, **attributes: Any) -> Any:
    """Declare an option that takes a path, in which `~` is the user's home."""
    attributes.setdefault("shell_complete", completion.BY_METAVAR[attributes["metavar"]])
    return option(name, type=_expanded, **attributes)


def _expanded(text: str) -> Path:
    return Path(text).expanduser()


def number(*names: str, **attributes: Any) -> Any:
    """Declare an option that takes a number of things, at least 1."""
    return option(*names, type=click.IntRange(min=1), metavar="N", **attributes)


def set_option(what: str, **attributes: Any) -> Any:
    """Declare `--set`, which changes one setting of what the sentence `what` names."""
    text = f"{what} May be given several times."
    return option("--set", multiple=True, metavar="KEY=VALUE", help=text, **attributes)


def argument(**attributes: Any) -> Any:
    """Declare a positional argument as a field of a record; `attributes` are those of `click.argument`."""
    return _declared(click.argument, (), attributes)


def _declared(
    make: Callable[..., Any], names: tuple[str, ...], attributes: dict[str, Any], *, last: bool = False
) -> Any:
    """Return the field of an option or argument; the shell completes its values by its metavar."""
    known = completion.BY_METAVAR.get(attributes.get("metavar", ""))
    if known and "type" not in attributes:
        attributes = {"shell_complete": known, **attributes}
    return field(
        metadata={"make": make, "names": names, "attributes": attributes, "position": (last, next(_position))}
    )


def of_model(model: "type[Settings]", **attributes: Any) -> Any:
    """Declare an option for every field of a settings model, as one field of a record that holds the settings.

    Name, description, type, default and least value of an option are the field's; its metavar is the `Metavar` in the
    field's annotation, or N for a number. `attributes` are those of `option`.
    """
    options = {
        name: option(f"--{name.replace('_', '-')}", **_attributes(declared), **attributes).metadata
        for name, declared in model.model_fields.items()
    }
    return field(metadata={"model": model, "options": options})


def _attributes(declared: "FieldInfo") -> dict[str, Any]:
    """Return the attributes of an option that come from the field of a model."""
    attributes = {"default": declared.default, "help": declared.description}
    metavar = next((str(note) for note in declared.metadata if isinstance(note, Metavar)), None)
    if metavar:
        return {**attributes, "metavar": metavar}
    least: Any = next((note.ge for note in declared.metadata if isinstance(note, Ge)), None)
    return {**attributes, "type": click.IntRange(min=least), "metavar": "N"}


def record(declared: type[T]) -> Callable[[Callable[[T], int | None]], Callable[..., int | None]]:
    """Add the options of a record's fields to a command, which receives them as one frozen record.

    The command returns its exit code; None is 0.
    """
    options: dict[str, Mapping[str, Any]] = {}
    models: dict[str, type[Settings]] = {}
    for declaration in fields(declared):  # type: ignore[arg-type]
        if "model" in declaration.metadata:
            models[declaration.name] = declaration.metadata["model"]
            options |= declaration.metadata["options"]
        else:
            options[declaration.name] = declaration.metadata

    def decorate(command: Callable[[T], int | None]) -> Callable[..., int | None]:
        def collect(**values: Any) -> int | None:
            settings = {
                name: model.of_options(**{key: values.pop(key) for key in model.model_fields})
                for name, model in models.items()
            }
            return command(declared(**values, **settings))

        collect.__doc__ = command.__doc__
        decorated: Callable[..., int | None] = collect
        for name, option in sorted(options.items(), key=lambda item: item[1]["position"], reverse=True):
            decorated = option["make"](*option["names"], name, **option["attributes"])(decorated)
        return decorated

    return decorate


OUTPUT, FOLDERS = "Output", "Folders"
"""Headings of these options in the help of commands that have many."""


def _make_default(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Set the working folder of this process and its child processes to `--home`."""
    if value:
        os.environ["CROSSCHECK_HOME"] = str(Path(value).expanduser().absolute())
    return value


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
        from flows.runtime.signals import logging_to

        with open_progress(sys.stderr) as progress, logging_to(self.read_folder):
            yield progress

    def read_runs(self, *names: str, question_id: str | None = None) -> "list[RunRecord]":
        """Return the runs that a user names, with their questions, or with one of them."""
        from tasks.results.warehouse.run_names import find_run
        from tasks.results.warehouse.runs import Warehouse

        warehouse = Warehouse(self.read_folder.warehouse)
        runs = warehouse.runs()
        return [warehouse.read_run(find_run(name, runs).run_id, question_id) for name in names]


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
            value: the result, a document or plain JSON, for `--json`.
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


EVALUATED, LABELS = "Benchmark, model and pipeline", "Labels, to find the run later"
"""Headings of options in the help of commands that have many."""


def end_of(name: str | Path, most: int = 60) -> str:
    """Return the end of a name, which may be the path of a file: for a line of progress."""
    text = str(name)
    return text if len(text) <= most else f"…{text[1 - most :]}"


def chosen(field: str, **attributes: Any) -> Any:
    """Declare the option of one field of `EvaluationNames`; the rest is as in `of_model`."""
    declared = _attributes(EvaluationNames.model_fields[field])
    return option(f"--{field}", group=EVALUATED, **declared, **attributes)


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Option of commands that use a benchmark."""

    benchmark: str = chosen("benchmark", shell_complete=completion.names("benchmark"))


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """Option of commands that call a model."""

    backbone: str = chosen("backbone", shell_complete=completion.names("backbone"))


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Option of commands that run a pipeline."""

    pipeline: str = chosen("pipeline", shell_complete=completion.names("pipeline"))


@dataclass(frozen=True, kw_only=True)
class Questions:
    """Options that select questions of the benchmark."""

    selection: QuestionSelection = of_model(QuestionSelection, group=EVALUATED)


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
        """Tags of the run, its name and note among them."""
        from tasks.settings.evaluation import labels

        return labels(self.name, self.tag, self.note).as_tags


@dataclass(frozen=True, kw_only=True)
class Evaluation(Benchmark, Backbone, Questions, Overrides, Files):
    """Options of an evaluation, except its pipeline."""

    def settings(self, pipeline: str, *overrides: str, **more: Any) -> "EvaluationSettings":
        """Return the settings of the options, with further values of `--set` and fields of `EvaluationChoice`."""
        from tasks.settings.assemble import evaluation_settings
        from tasks.settings.evaluation import EvaluationChoice

        return evaluation_settings(
            EvaluationChoice.of_options(
                benchmark=self.benchmark,
                backbone=self.backbone,
                pipeline=pipeline,
                overrides=(*self.overrides, *overrides),
                **self.selection.model_dump(),
                data=self.data,
                home=self.home,
                **more,
            )
        )
