"""`crosscheck runs`, `leaderboard` and `list`."""

import os
from pathlib import Path
from typing import Annotated, Literal, TextIO, get_args

import click
import yaml
from annotated_types import Ge

from flows.cli import options


class Runs(options.Output):
    """List all runs, newest first.

    Examples:
      crosscheck runs
      crosscheck runs --benchmark bird-dev --limit 5
      crosscheck runs --tag team=search
      crosscheck compare latest~1 latest

    Exit codes: 0 listed; 2 bad input.
    """

    benchmark: Annotated[str | None, options.Metavar("NAME")] = None
    """List only runs of this benchmark."""
    tag: Annotated[tuple[str, ...], options.Metavar("KEY[=VALUE]")] = ()
    """List only runs with this tag. May be given several times."""
    limit: Annotated[int, Ge(1)] = 20
    """List only the latest N runs."""

    def __call__(self) -> None:
        from tasks.core.errors import DataError, did_you_mean
        from tasks.documents.terminal import open_console, print_blocks
        from tasks.pages.lists import runs_table
        from tasks.results.warehouse.runs import Warehouse

        warehouse = self.read_folder.warehouse
        tags = [tag.partition("=")[::2] for tag in self.tag]
        runs = Warehouse(warehouse).runs()
        if (
            self.benchmark
            and (benchmarks := {run.benchmark for run in runs})
            and self.benchmark not in benchmarks
        ):
            raise DataError(
                f'There is no run of "{self.benchmark}". {did_you_mean(self.benchmark, sorted(benchmarks))}'
            )
        records = [
            run
            for run in runs
            if self.benchmark in (None, run.benchmark)
            and all(key in run.tags and value in ("", run.tags[key]) for key, value in tags)
        ]

        def show(stream: TextIO) -> None:
            if records:
                table = runs_table(records, self.limit, more="; --limit shows more")
                print_blocks(open_console(stream), (table,))
                return
            of = f" of {self.benchmark}" if self.benchmark else ""
            of += f" with the tag {' and '.join(self.tag)}" if self.tag else ""
            click.echo(
                f'There is no run{of} in {warehouse} yet. Start one with "crosscheck evaluate".', stream
            )

        listed = [run.model_dump(mode="json") for run in records[: self.limit]]
        self.emit({"runs": listed, "total": len(records)}, show)


class Leaderboard(options.Page):
    """Rank the latest run of each backbone and pipeline by its execution accuracy, or by the score that --by names.

    Runs with the same questions are ranked together. Runs that saw the gold, repeated an answer (tag rerolled)
    or are not complete are listed apart, with the reason.

    Examples:
      crosscheck leaderboard
      crosscheck leaderboard --benchmark bird-dev --html leaderboard.html
      crosscheck leaderboard --benchmark bird-dev --by arcwise

    Exit codes: 0 printed; 2 bad input.
    """

    benchmark: Annotated[str | None, options.Metavar("NAME")] = None
    """Only this benchmark."""
    by: Annotated[str, options.Metavar("SCORE")] = ""
    """Rank by another score of the runs: an answer key, decided, without_quarantine or a rule. [default: execution
    accuracy]"""

    def __call__(self) -> None:
        from tasks.core.errors import ConfigurationError, DataError, did_you_mean
        from tasks.pages.lists import leaderboard_document
        from tasks.results.leaderboard import leaderboard
        from tasks.results.run_record import json_of

        boards = leaderboard(self.warehouse, self.benchmark, self.by)
        if self.benchmark is not None and not boards:
            benchmarks = sorted({run.benchmark for run in self.warehouse.runs()})
            raise DataError(
                f'No run of "{self.benchmark}" is finished. {did_you_mean(self.benchmark, benchmarks)}'.strip()
            )
        if self.by and boards and not any(board.ranked for board in boards):
            scores = {name for stored in self.warehouse.finished_runs() for name in stored.scores}
            raise ConfigurationError(
                f'No run that can be ranked has a score "{self.by}". {did_you_mean(self.by, sorted(scores))}'
            )
        document = leaderboard_document(boards)
        self.write_page(lambda: document)
        self.emit({"boards": [json_of(board) for board in boards]}, document)


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
