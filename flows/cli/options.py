"""Commands as classes: the docstring is the help, the fields are the options, a call does what the command does.

class Runs(options.Output):
    '''List all runs, newest first.

Examples:
      crosscheck runs --limit 5

    Exit codes: 0 listed; 2 bad input.
    '''

    limit: Annotated[int, Ge(1), Metavar("N")] = 20
    '''List only the latest N runs.'''

    def __call__(self) -> None: ...
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TextIO, get_args, get_origin

import click
from annotated_types import Ge, Gt, Le, Lt
from click.shell_completion import CompletionItem
from pydantic import BaseModel, ConfigDict

from flows.cli.values import FilePath as FilePath
from flows.cli.values import NewFile as NewFile
from flows.cli.values import Number, PageFile, Text
from flows.runtime.folders import Folders
from flows.runtime.output import emit_json, write_page
from tasks.core.described import Described, field_docstrings
from tasks.core.errors import CrosscheckError
from tasks.settings.base import Metavar as Metavar
from tasks.settings.choices import EvaluationChoice, EvaluationNames, QuestionSelection, labels
from tasks.settings.home import Home, find_data, find_home

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from flows.api.results import Results
    from flows.runtime.control import Progress
    from tasks.documents.model import Document
    from tasks.results.run_record import RunRecord
    from tasks.results.warehouse.runs import Warehouse
    from tasks.settings.evaluation import EvaluationSettings


Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _names(_context: click.Context, parameter: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Complete the name of a benchmark, backbone or pipeline in `conf/` or of an installed package, else of a file."""
    from tasks.settings.load import known_names

    try:
        names = known_names(str(parameter.name))
    except CrosscheckError:  # an error message would be taken for a value
        names = []
    items = [CompletionItem(name) for name in names if name.startswith(prefix)]
    return items or [CompletionItem(prefix, type="file")]


def _runs(context: click.Context, _parameter: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Complete the id of a run, newest first: its help is its score, if it has one, and what was evaluated."""
    from tasks.core.wording import percent_and_counts
    from tasks.results.warehouse.runs import Warehouse

    try:
        runs = Warehouse(find_home(context.params.get("home"), make=False).warehouse, wait_s=1.0).runs()
    except CrosscheckError:
        return []
    items = [CompletionItem("latest", help="the last finished run")]
    for run in runs:
        score = percent_and_counts(run.accuracy) if run.accuracy else run.status
        items.append(CompletionItem(run.run_id, help=f"{score}  {run.name} on {run.benchmark}"))
    return [item for item in items if item.value.startswith(prefix)]


def _path(kind: str) -> Complete:
    """Return what completes a path: `kind` is "file" or "dir"."""
    return lambda _context, _parameter, prefix: [CompletionItem(prefix, type=kind)]


BY_METAVAR = {
    **dict.fromkeys(("FILE", "DATABASE"), _path("file")),
    "FOLDER": _path("dir"),
    **dict.fromkeys(("RUN", "RUN...", "[RUN]"), _runs),
}
"""Completion of values by what `--help` calls them."""
BY_FIELD = dict.fromkeys(("benchmark", "backbone", "pipeline"), _names)
"""Completion of values by the name of their option."""


OPTIONS = "Options"
"""Heading of the options that name none."""


class More:
    """What neither the type of a field nor its docstring says of its option."""

    def __init__(
        self, name: str = "", *, group: str = OPTIONS, last: bool = False, **attributes: Any
    ) -> None:
        """Describe an option by its name, if it is not the field's own, and further attributes of `click.Option`.

        `group` is its heading in the help of a command whose options are `grouped`; `last`: whether the help lists it
        after the command's own options.
        """
        self.name, self.group, self.last, self.attributes = name, group, last, attributes


class Argument(str):
    """What the help of a command writes for a positional argument, as an annotation of its type."""


class Option(click.Option):
    """An option with its heading."""

    group = OPTIONS


class GroupedCommand(click.Command):
    """Command whose help lists options under headings, in the order of their first options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by their groups."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = None if isinstance(parameter, click.Argument) else parameter.get_help_record(ctx)
            if record:
                groups.setdefault(getattr(parameter, "group", OPTIONS), []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Command(Described, BaseModel):
    """A command: its fields are its options, and it is called with their values."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    grouped: ClassVar[bool] = False
    """Whether its help lists options under headings."""

    def __call__(self) -> int | None:
        """Do what the command does, and return its exit code; None is 0."""
        raise NotImplementedError

    @classmethod
    def click_command(cls, name: str) -> click.Command:
        """Return the command of the command line: its help is the docstring, whose examples stand at the end.

        Click has checked the values, so the model does not check them again.
        """
        fields: dict[str, FieldInfo] = {}
        # options stand in the order in which this module defines their classes, then the command's own
        for base in (*globals().values(), cls):
            if base in cls.__mro__ and issubclass(base, Command):
                fields |= _own_fields(base, cls)
        descriptions = field_docstrings(EvaluationNames) | field_docstrings(cls)
        parameters = [_parameter(name, field, descriptions.get(name, "")) for name, field in fields.items()]
        text, examples, epilog = inspect.cleandoc(cls.__doc__ or "").partition("\n\nExample")
        paragraphs = f"Example{epilog}".split("\n\n") if examples else []
        # with \b, click keeps the line breaks of a paragraph
        paragraphs = [f"\b\n{part}" if "\n  " in f"\n{part}" else part for part in paragraphs]
        return (GroupedCommand if cls.grouped else click.Command)(
            name,
            params=[parameter for _, parameter in sorted(parameters, key=lambda pair: pair[0])],
            callback=lambda **values: cls.model_construct(**values)(),
            help=text,
            epilog="\n\n".join(paragraphs),
        )


def _own_fields(base: type[Command], command: type[Command]) -> "dict[str, FieldInfo]":
    """Return the fields of a command that a base class of it declares, and those of the settings it inherits from."""
    settings = [
        model for model in base.__bases__ if issubclass(model, BaseModel) and not issubclass(model, Command)
    ]
    inherited = {name: like(name) for model in settings for name in model.model_fields}
    declared = vars(base).get("__annotations__", ())
    return inherited | {name: command.model_fields[name] for name in declared if name in command.model_fields}


def _parameter(name: str, field: "FieldInfo", description: str) -> tuple[bool, click.Parameter]:
    """Return the option or argument of a field, and whether the help lists it after the command's own options."""
    # the field's annotations, such as `More` and bounds, by type
    by_type = {type(note): note for note in field.metadata}
    kind, several = _kind_of(field.annotation)
    required = field.is_required()
    default = None if required else field.default
    # an empty text is refused, except where it is the default
    click_type = str if default == "" else _click_type(kind, by_type)
    attributes: dict[str, Any] = {"required": required, "type": click_type}
    if default not in (None, ()):
        attributes["default"] = default
    metavar = str(by_type.get(Argument) or by_type.get(Metavar) or ("N" if kind is int else "")) or None
    complete = BY_FIELD.get(name) or BY_METAVAR.get(metavar or "")
    if complete:
        attributes["shell_complete"] = complete
    extras = by_type.get(More) or More()
    if Argument in by_type:
        attributes |= {"nargs": -1 if several else 1, "metavar": metavar}
        return False, click.Argument([name], **attributes | extras.attributes)
    if kind is bool:  # a flag: it takes no value, so it has no type
        attributes = {"is_flag": True}
    option = Option(
        [extras.name or f"--{name.replace('_', '-')}", name],
        multiple=several,
        metavar=metavar,
        help=" ".join(description.split()),
        show_default=bool(default),
        **attributes | extras.attributes,
    )
    option.group = extras.group
    return extras.last, option


def _kind_of(annotation: Any) -> tuple[Any, bool]:
    """Return the type of a value, and whether there may be several of them: of `str | None` it is `str`."""
    if get_origin(annotation) is tuple:
        return get_args(annotation)[0], True
    types = [part for part in get_args(annotation) if part is not type(None)]
    return (types[0], False) if types and get_origin(annotation) is not Literal else (annotation, False)


def _click_type(kind: Any, by_type: dict[type, Any]) -> Any:
    """Return click's type for values of a field's type, within the bounds of its annotations, which are `by_type`."""
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if kind is Path:
        return FilePath(dir_okay="FOLDER" in (by_type.get(Metavar), by_type.get(Argument)), path_type=Path)
    if kind is str:
        return Text()
    if kind not in (int, float):
        return kind
    lower = by_type.get(Ge) or by_type.get(Gt)
    upper = by_type.get(Le) or by_type.get(Lt)
    if kind is int and not (lower or upper):
        return int
    least = getattr(lower, "ge", getattr(lower, "gt", None))
    most = getattr(upper, "le", getattr(upper, "lt", None))
    make: Any = click.IntRange if kind is int else Number
    number = make(least, most, min_open=Gt in by_type, max_open=Lt in by_type)
    number.name = "integer" if kind is int else "number"  # a value is no "integer range"
    return number


OUTPUT, FOLDERS, EVALUATED = "Output", "Folders", "Benchmark, model and pipeline"
LABELS = "Labels, to find the run later"
"""Headings of these options in the help of commands that have many."""


def like(name: str) -> Any:
    """Declare the option of a field of `EvaluationNames`: its type, least value, default and description."""
    field = copy(EvaluationNames.model_fields[name])
    field.metadata = [note for note in field.metadata if not isinstance(note, Le)] + [More(group=EVALUATED)]
    return field


def _make_default(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Set the working folder of this process and its child processes to `--home`."""
    if value:
        os.environ["CROSSCHECK_HOME"] = str(Path(value).expanduser().absolute())
    return value


class Data(Command):
    """Option of commands that read a benchmark's files."""

    data: Annotated[str | None, Metavar("FOLDER"), More(last=True, group=FOLDERS)] = None
    """Folder of the benchmarks' files. [default: CROSSCHECK_DATA, else ./data]"""


class Folder(Command):
    """Option of commands that use the working folder."""

    home: Annotated[str | None, Metavar("FOLDER"), More(last=True, group=FOLDERS, callback=_make_default)] = (
        None
    )
    """Working folder for caches, stores and results. [default: CROSSCHECK_HOME, else .crosscheck]"""

    @property
    def folder(self) -> Home:
        """The working folder; made where it is missing."""
        return find_home(self.home)

    @property
    def read_folder(self) -> Home:
        """The working folder as it is, which may be missing: for what only reads."""
        return find_home(self.home, make=False)

    @property
    def warehouse(self) -> "Warehouse":
        """The results of all runs, for what only reads."""
        from tasks.results.warehouse.runs import Warehouse

        return Warehouse(self.read_folder.warehouse)

    @property
    def results(self) -> "Results":
        """The Python interface to these results."""
        from flows.api.results import Results

        return Results(home=self.home)

    @contextmanager
    def progress(self) -> "Iterator[Progress]":
        """Show progress on standard error, and write warnings to the working folder's log, while the block runs."""
        from flows.runtime.progress import open_progress
        from flows.runtime.signals import logging_to

        with open_progress(sys.stderr) as progress, logging_to(self.read_folder):
            yield progress

    def read_runs(self, *names: str, question_id: str | None = None) -> "list[RunRecord]":
        """Return the runs that a user names, with their questions, or with one of them."""
        from tasks.results.warehouse.runs import find_run

        runs = self.warehouse.runs()
        return [self.warehouse.read_run(find_run(name, runs).run_id, question_id) for name in names]


class Json(Command):
    """Option of commands that print JSON."""

    as_json: Annotated[bool, More("--json", last=True, group=OUTPUT)] = False
    """Print one JSON object to standard output, and everything else to standard error."""

    def emit(
        self, value: Any, text: "str | Document | Callable[[TextIO], None]", *, text_too: bool = False
    ) -> None:
        """Print the result of a command: with `--json` its value, a record or plain JSON, else its text.

        With `text_too` the text is printed to standard error in addition to the JSON.
        """
        if self.as_json:
            emit_json(value)
        if not self.as_json or text_too:
            _print(text, sys.stderr if self.as_json else sys.stdout)


def _print(text: "str | Document | Callable[[TextIO], None]", stream: TextIO) -> None:
    if isinstance(text, str):
        click.echo(text, stream, nl=bool(text))  # an empty text prints no empty line
    elif callable(text):
        text(stream)
    else:
        from tasks.documents.terminal import print_document

        print_document(text, stream)


class Output(Json, Folder):
    """Options of most commands: the working folder and JSON."""


class Files(Data, Output):
    """Options of commands that read a benchmark's files and use the working folder."""

    @property
    def folders(self) -> Folders:
        """Both folders."""
        return Folders(find_data(self.data), self.folder)

    def settings_of(self, **others: Any) -> "EvaluationSettings":
        """Return the settings of an evaluation by this command's options; `others` are further or replacing fields."""
        from tasks.settings.assemble import evaluation_settings

        own_values = {
            name: getattr(self, name) for name in EvaluationChoice.model_fields if name in self.model_fields
        }
        return evaluation_settings(EvaluationChoice.of_options(**own_values | others))


class Page(Output):
    """Options of commands that write an HTML page."""

    html: Annotated[Path | None, Metavar("FILE"), More(type=PageFile())] = None
    """Also write a self-contained HTML page."""

    def write_page(self, render: "Callable[[], Document]") -> None:
        """Write the page that `--html` asks for, and say where it is.

        Call it before anything is printed: printing raises an error if the output's reader has ended, as `head` does.
        """
        from tasks.documents.html import html

        if self.html is not None:
            write_page(html(render()), self.html)
            click.echo(f"The page is {self.html}.", err=self.as_json)


class Benchmark(Command):
    """Option of commands that use a benchmark."""

    benchmark: str = like("benchmark")


class Backbone(Command):
    """Option of commands that call a model."""

    backbone: str = like("backbone")


class Pipeline(Command):
    """Option of commands that run a pipeline."""

    pipeline: str = like("pipeline")


class Questions(Command, QuestionSelection):
    """Options that select questions of the benchmark."""

    @property
    def selection(self) -> QuestionSelection:
        """Which questions they select."""
        return QuestionSelection.of_options(
            **{name: getattr(self, name) for name in QuestionSelection.model_fields}
        )


class Details(Command):
    """Option of commands that end with a summary."""

    details: Annotated[bool, More(last=True, group=OUTPUT)] = False
    """Show everything: by rule, difficulty and database, causes, schema linking, calls, MLflow and Prefect."""


SETTING = Metavar("KEY=VALUE")


class Overrides(Command):
    """Option of commands that configure an evaluation."""

    overrides: Annotated[tuple[str, ...], SETTING, More("--set", group=EVALUATED)] = ()
    """Change one setting: benchmark.*, backbone.*, pipeline.* or tracking.*. May be given several times."""


class BenchmarkOverrides(Command):
    """Option of commands that configure a benchmark alone."""

    overrides: Annotated[tuple[str, ...], SETTING, More("--set", group=EVALUATED)] = ()
    """Change one setting of the benchmark: benchmark.*. May be given several times."""


class Labels(Command):
    """Options of commands that make runs."""

    name: Annotated[str | None, More(last=True, group=LABELS)] = None
    """Name of the run in MLflow and in lists."""
    tag: Annotated[tuple[str, ...], Metavar("KEY=VALUE"), More(last=True, group=LABELS)] = ()
    """Tag of the run, for `crosscheck runs --tag`. May be given several times."""
    note: Annotated[str | None, More(last=True, group=LABELS)] = None
    """Remark on the run."""

    @property
    def labels(self) -> dict[str, str]:
        """Tags of the run, its name and note among them."""
        return labels(self.name, self.tag, self.note).as_tags


class Evaluation(Benchmark, Backbone, Questions, Overrides, Files):
    """Options of an evaluation, except its pipeline."""
