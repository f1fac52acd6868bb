"""Options of commands as frozen records: a field declares its option, and the command receives the record.

@dataclass(frozen=True, kw_only=True)
class RunsOptions(options.Output):
    limit: int = options.option("--limit", default=20, help="The latest N.")

@click.command("runs")
@options.record(RunsOptions)
def command(given: RunsOptions) -> None: ...
"""

from collections.abc import Callable
from dataclasses import field, fields
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import click

from flows.cli import completion

T = TypeVar("T")

_place = count()
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
        metadata={"make": make, "names": names, "attributes": attributes, "place": (last, next(_place))}
    )


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
