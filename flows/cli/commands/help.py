"""`crosscheck help`."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TextIO, get_args

import click
import yaml
from click.shell_completion import CompletionItem

from flows.cli import options
from flows.cli.command_table import COMMANDS, CommandEntry
from tasks.core.errors import ConfigurationError, did_you_mean, first_problem

Kind = Literal["benchmarks", "backbones", "pipelines"]
TOPICS = Path(__file__).parents[1] / "topics"


def topics() -> dict[str, str]:
    """Return the topics with their titles."""
    files = sorted(TOPICS.glob("*.md"))
    return {file.stem: file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") for file in files}


def topic_text(name: str) -> str:
    """Return the text of a topic, as Markdown."""
    text = (TOPICS / f"{name}.md").read_text(encoding="utf-8")
    return f"{text}\n{_record_fields()}" if name == "json" else text


def _complete(context: click.Context, parameter: click.Parameter, prefix: str) -> list[CompletionItem]:
    names = {**topics(), **{name: entry.help for name, entry in COMMANDS.items()}}
    return [CompletionItem(name, help=text) for name, text in names.items() if name.startswith(prefix)]


class Help(options.Command):
    """Explain a TOPIC: causes of wrong answers, fields of JSON, exit codes, a gate in CI, workers; or a command.

    `crosscheck help commands` lists all commands.

    Examples:
      crosscheck help
      crosscheck help causes
      crosscheck help nights show
          the same as crosscheck nights show --help

    Exit codes: 0 shown; 2 bad input.
    """

    topic: Annotated[
        tuple[str, ...], options.Argument("[TOPIC]"), options.More(shell_complete=_complete)
    ] = ()

    def __call__(self) -> None:
        name = " ".join(self.topic)
        if not name:
            click.echo("crosscheck help TOPIC explains one of these; crosscheck COMMAND --help a command.\n")
            width = max(map(len, topics()))
            for name, title in topics().items():
                click.echo(f"  {name:<{width}}  {title}")
            return
        if name in topics():
            _print(topic_text(name))
            return
        if name == "commands":
            _print_commands(COMMANDS)
            return
        context = click.get_current_context().find_root()
        for word in self.topic:
            group = context.command
            command = group.get_command(context, word) if isinstance(group, click.Group) else None
            if command is None:
                names = ["commands", *topics(), *COMMANDS]
                raise ConfigurationError(
                    f'There is no topic or command "{name}". {did_you_mean(name, names)}'
                )
            context = click.Context(command, info_name=word, parent=context)
        click.echo(context.command.get_help(context))


def _print_commands(commands: Mapping[str, CommandEntry], group: str = "") -> None:
    """Print the commands with what they do, those of a group behind it."""
    for name, entry in commands.items():
        click.echo(f"{f'{group}{name}':<20}  {entry.help}")
        _print_commands(entry.commands, f"{name} ")


def _print(text: str) -> None:
    """Print Markdown: formatted on a terminal, unchanged into a file or pipe."""
    if not sys.stdout.isatty():
        click.echo(text.rstrip())
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(emoji=False).print(Markdown(text))


def _record_fields() -> str:
    """Return the fields of a run's record with their meaning, from the record itself."""
    from tasks.core.described import field_docstrings
    from tasks.results.run_record import RunHeader, RunRecord

    def lines(names: list[str]) -> str:
        descriptions = field_docstrings(RunRecord)
        rows = (f"| `{name}` | {' '.join(descriptions.get(name, '').split())} |" for name in names)
        return "\n".join(("| field | meaning |", "|--|--|", *rows))

    header = list(RunHeader.model_fields)
    others = [name for name in RunRecord.model_fields if name not in header]
    return f"Of every list of runs, too:\n\n{lines(header)}\n\nOf one run:\n\n{lines(others)}\n"


class List(options.Json):
    """List the available benchmarks, backbones and pipelines.

    Each is a YAML file in conf/, or comes from an installed package. To use your own file, give its
    path instead of a name.

    Examples:
      crosscheck list
      crosscheck list pipelines
      crosscheck list backbones --json

    Exit codes: 0 listed; 2 bad input.
    """

    kinds: Annotated[tuple[Kind, ...], options.Argument()] = ()

    def __call__(self) -> None:
        from tasks.settings.home import find_conf
        from tasks.settings.load import available, offered

        conf = find_conf()
        names: dict[str, dict[str, str]] = {}
        for kinds in self.kinds or get_args(Kind):
            kind = kinds.removesuffix("s")
            files = {name: _description(path) for name, path in available(conf, kind).items()}
            names[kinds] = dict.fromkeys(offered(kind), "from an installed package") | files

        def show(stream: TextIO) -> None:
            width = max((len(name) for entries in names.values() for name in entries), default=0)
            for kind, entries in names.items():
                click.echo(kind if os.environ.get("NO_COLOR") else click.style(kind, bold=True), stream)
                for name, description in entries.items():
                    click.echo(f"  {name:<{width}}  {description}", stream)

        self.emit(names, show)


def _description(path: Path) -> str:
    """Return the description in a file, or the reason why the file cannot be read."""
    from tasks.settings.load import load_yaml

    try:
        content = load_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        return f"cannot be read: {' '.join(first_problem(error).split())}"
    return str(content.get("description", "")) if isinstance(content, dict) else ""
