"""`crosscheck list`."""

import json
import os
from pathlib import Path

import click
import yaml

from flows.cli import options


@click.command(
    "list",
    epilog="\b\nExamples:\n  crosscheck list\n  crosscheck list pipelines\n  crosscheck list backbones --json",
)
@click.argument("kinds", nargs=-1, type=click.Choice(["benchmarks", "backbones", "pipelines"]))
@options.as_json
def command(kinds: tuple[str, ...], as_json: bool) -> None:
    """Show the benchmarks, backbones and pipelines there are.

    Each is a YAML file in conf/, or comes from an installed package; a file of your own works by its path.
    """
    from tasks.settings.home import find_conf
    from tasks.settings.load import available, offered

    conf = find_conf()
    found = {
        kind: {
            **dict.fromkeys(offered(kind.removesuffix("s")), "from an installed package"),
            **{name: _description(path) for name, path in available(conf, kind.removesuffix("s")).items()},
        }
        for kind in kinds or ("benchmarks", "backbones", "pipelines")
    }
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    width = max((len(name) for entries in found.values() for name in entries), default=0)
    for kind, entries in found.items():
        click.echo(kind if os.environ.get("NO_COLOR") else click.style(kind, bold=True))
        for name, description in entries.items():
            click.echo(f"  {name:<{width}}  {description}")


def _description(path: Path) -> str:
    """Return what a file says of itself; one that cannot be read is listed all the same."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        return f"cannot be read: {' '.join(str(error).split())}"
    return str(content.get("description", "")) if isinstance(content, dict) else ""
