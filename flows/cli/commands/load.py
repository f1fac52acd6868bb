"""`crosscheck benchmarks load`."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TextIO
from urllib.parse import quote

import click

from flows.cli import options
from tasks.core.errors import ConfigurationError, DataError, did_you_mean
from tasks.core.wording import counted

if TYPE_CHECKING:
    from tasks.benchmarks.benchmark import Benchmark

PLACEHOLDER = "{database}"


class Load(options.Benchmark, options.BenchmarkOverrides, options.Files):
    r"""Copy a benchmark's SQLite databases into PostgreSQL, MySQL, MariaDB or DuckDB.

    No other command writes to a database server of yours.

    Examples:
      crosscheck benchmarks load --benchmark bird-dev --to postgresql://owner@db.example/{database}
      crosscheck benchmarks load --benchmark bird-dev --databases superhero \
        --to duckdb:///data/bird/{database}.duckdb

    Types follow from the values, because a SQLite column may hold any: integers, doubles, BLOBs; everything
    else is text, dates too. Keys that hold are created; views are not copied. PostgreSQL's names are in lower
    case unless they need quotes.

    A database that has these tables with as many rows is not copied again. The role of --to owns what it
    creates. Evaluations refuse that role: give them one that only reads (docs/database.md).

    Exit codes: 0 copied; 2 bad input, or the server refuses; what was copied before stays.
    """

    to: Annotated[str, options.Metavar("URL")]
    """Where the copies go; {database} stands for a database's name: postgresql://owner@host/{database},
    mysql://owner@host/{database}, duckdb:///folder/{database}.duckdb. The password comes from PGPASSWORD or
    MYSQL_PWD."""
    databases: Annotated[str, options.Metavar("NAMES")] = ""
    """Only these, separated by commas. [default: all]"""

    def __call__(self) -> None:
        from tasks.benchmarks.databases import open_benchmark_database
        from tasks.database.database import locate
        from tasks.database.loading import copy_database
        from tasks.documents.text import visible
        from tasks.settings.assemble import benchmark_settings

        settings = benchmark_settings(self.benchmark, self.overrides)
        copies = []
        with self.progress() as progress:
            # the files are read, whatever server the benchmark is configured for
            benchmark = self.folders.benchmark(settings.model_copy(update={"url": ""}), progress)
            names = _names(benchmark, [name.strip() for name in self.databases.split(",") if name.strip()])
            if len(names) > 1 and PLACEHOLDER not in self.to:
                raise ConfigurationError(
                    f"--to: {len(names)} databases would be one. Write {PLACEHOLDER} where the name of each belongs, "
                    "as in postgresql://owner@host/{database}, or name one with --databases."
                )
            for name in names:
                progress.step(f"Copying {name}")
                to = locate(self.to.replace(PLACEHOLDER, quote(name, safe="")))
                copies.append(copy_database(open_benchmark_database(benchmark, name, 0), to))

        def show(stream: TextIO) -> None:
            for copy in copies:
                outcome = "copied" if copy.copied else "already there"
                size = f"{counted(copy.tables, 'table')}, {counted(copy.rows, 'row')}"
                click.echo(f"{copy.database}: {outcome} ({size}) {copy.to}", stream)
                for note in copy.notes:
                    click.echo(visible(f"  {note}"), stream)
            role, _, address = self.to.rpartition("@")
            url = f"{role.partition('://')[0]}://READER@{address}" if role else address
            evaluate = ["crosscheck", "evaluate", "--benchmark", self.benchmark]
            command = [*evaluate, "--set", f"benchmark.url={url}"]
            click.echo(
                f"Evaluate there, as a role that only reads (docs/database.md):  {shlex.join(command)}",
                stream,
            )

        self.emit({"benchmark": settings.name, "databases": [asdict(copy) for copy in copies]}, show)


def _names(benchmark: "Benchmark", selected: Sequence[str]) -> Sequence[str]:
    """Return the ids of the databases to copy: those that the user names, or all that are there."""
    ids = tuple(dict.fromkeys(question.database_id for question in benchmark.questions))
    if unknown := [name for name in selected if name not in ids]:
        raise ConfigurationError(
            f'--databases: there is no database "{unknown[0]}". {did_you_mean(unknown[0], ids)}'
        )
    absent = [name for name in selected or ids if name in benchmark.missing]
    if absent and (selected or len(absent) == len(ids)):
        raise DataError(
            f"{benchmark.settings.name}: the database {absent[0]} is not at {benchmark.location(absent[0])}. "
            f"{benchmark.where_from}"
        )
    return selected or [name for name in ids if name not in absent]
