"""`crosscheck list`."""

import os
from pathlib import Path
from typing import Annotated, Literal, TextIO, get_args

import click
import yaml

from flows.cli import options

Kind = Literal["benchmarks", "backbones", "pipelines"]


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
        names = {
            kind: {
                **dict.fromkeys(offered(kind.removesuffix("s")), "from an installed package"),
                **{
                    name: _description(path) for name, path in available(conf, kind.removesuffix("s")).items()
                },
            }
            for kind in self.kinds or get_args(Kind)
        }

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
        return f"cannot be read: {' '.join(str(error).split())}"
    return str(content.get("description", "")) if isinstance(content, dict) else ""
