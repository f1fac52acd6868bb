"""`crosscheck load`."""

import shlex
from dataclasses import asdict, dataclass
from typing import TextIO

import click

from flows.cli import options
from tasks.core.wording import counted


@dataclass(frozen=True, kw_only=True)
class LoadOptions(options.Benchmark, options.BenchmarkOverrides, options.Files):
    """Options of `crosscheck load`."""

    to: str = options.option(
        "--to",
        required=True,
        metavar="URL",
        help="Where the copies go; {database} stands for a database's name: postgresql://owner@host/{database}, "
        "mysql://owner@host/{database}, duckdb:///folder/{database}.duckdb. "
        "The password comes from PGPASSWORD or MYSQL_PWD.",
    )
    databases: str = options.option(
        "--databases", default="", metavar="NAMES", help="Only these, separated by commas. [default: all]"
    )
    reader: str | None = options.option(
        "--reader",
        metavar="ROLE",
        help="Grant this role read access to the copies. A role that does not exist is created with the password in "
        "CROSSCHECK_READER_PASSWORD. Evaluations need a read-only role.",
    )
    invalid: str = options.option(
        "--invalid",
        type=click.Choice(["text", "null"]),
        default="text",
        help="Where values do not fit their column's declared type: text makes it a column of text, "
        "which loses nothing; null keeps the type and makes these values NULL.",
    )
    replace: bool = options.flag(
        "--replace", "Drop tables that this command has not created, where they are in the way."
    )
    dry_run: bool = options.flag("--dry-run", "Say what would be copied, and as what; write nothing.")


@click.command(
    "load",
    epilog="\b\nExamples:\n"
    "  crosscheck load --benchmark bird-dev --to postgresql://owner@db.example/{database} --reader reader\n"
    "  crosscheck load --benchmark bird-dev --to duckdb:///data/bird/{database}.duckdb --databases superhero\n"
    "  crosscheck load --to mysql://root@127.0.0.1/{database} --dry-run\n"
    "\nTypes follow from the values, because a SQLite column may hold any: whole numbers become 64-bit integers,\n"
    "numbers doubles, columns declared as DATE, DATETIME or BOOLEAN those types if every value is one, everything\n"
    "else text. Keys that hold are created, column descriptions become comments. PostgreSQL's names are in lower\n"
    "case unless they need quotes.\n"
    "\nA copy that is complete is not made again; one that was interrupted is replaced. The role of --to owns\n"
    "what it creates (PostgreSQL: CREATEDB; MySQL: ALL on the database). Evaluations refuse that role: give them\n"
    "one that only reads.\n"
    "\nExit codes: 0 copied; 2 bad input, or the server refuses; what was copied before stays.",
)
@options.record(LoadOptions)
def command(given: LoadOptions) -> None:
    """Copy a benchmark's SQLite databases into PostgreSQL, MySQL, MariaDB or DuckDB.

    No other command writes to a database server of yours.
    """
    from flows.benchmarks.loading import LoadSettings, evaluating, run_load
    from tasks.database.loading.load import LoadChoice
    from tasks.documents.text import visible
    from tasks.settings.assemble import benchmark_settings

    settings = LoadSettings(
        benchmark_settings(given.benchmark, given.overrides),
        given.to,
        tuple(name.strip() for name in given.databases.split(",") if name.strip()),
        LoadChoice("null" if given.invalid == "null" else "text", given.replace, given.dry_run, given.reader),
    )
    with given.progress() as progress:
        done = list(run_load(settings, given.folders, progress))
    there = evaluating(settings, given.reader or "READER")
    hint = shlex.join(["crosscheck", "evaluate", "--benchmark", given.benchmark, *there])

    def show(stream: TextIO) -> None:
        for each in done:
            size = "" if each.rows is None else f", {counted(each.rows, 'row')}, {each.seconds:.1f} s"
            click.echo(f"{each.database}: {each.outcome} ({each.tables} tables{size}) {each.to}", stream)
            for note in each.notes:
                click.echo(visible(f"  {note}"), stream)
        if not given.dry_run:
            click.echo(f"Evaluate there, as a role that only reads:  {hint}", stream)

    given.emit({"benchmark": settings.benchmark.name, "databases": [asdict(each) for each in done]}, show)
