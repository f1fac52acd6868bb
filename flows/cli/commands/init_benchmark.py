"""`crosscheck benchmarks init`."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import click

from flows.cli import options
from tasks.core.wording import counted


@dataclass(frozen=True, kw_only=True)
class InitOptions(options.Json):
    """Options of `crosscheck benchmarks init`."""

    questions: Path = options.path(
        "--questions",
        required=True,
        metavar="FILE",
        help="Questions with their SQL: CSV, TSV, JSON lines or a JSON list.",
    )
    database: tuple[str, ...] = options.option(
        "--database",
        required=True,
        multiple=True,
        metavar="FILE|URL",
        help="Database that the questions are about. A SQLite file is copied; a DuckDB file, a folder of Parquet or "
        "CSV files, or a server's database (postgresql://reader@host/shop) stays where it is. May be given "
        "several times.",
    )
    sql_column: str | None = options.option(
        "--sql-column", metavar="NAME", help="Column of the SQL, where it has another name than sql or query."
    )
    output: Path = options.path(
        "--output", required=True, metavar="FOLDER", help="Folder to make; its name is the benchmark's."
    )
    rule: str = options.option(
        "--rule",
        type=click.Choice(["bird", "spider", "strict", "subset"]),
        default="bird",
        help="Rule of the headline score.",
    )


@click.command(
    "init",
    epilog="\b\nExamples:\n"
    "  crosscheck benchmarks init --questions questions.csv --database shop.sqlite --output shop\n"
    "  crosscheck benchmarks init --questions questions.csv --database postgresql://reader@host/shop --output shop\n"
    "  crosscheck benchmarks verify --benchmark shop/shop.yaml\n"
    "  crosscheck evaluate --benchmark shop/shop.yaml\n"
    "\n\b\nquestions.csv:\n"
    "  question,sql\n"
    "  How many customers are there?,SELECT COUNT(*) FROM customer\n"
    "\nFurther columns: question_id, evidence, difficulty, and db_id (the file's name without its ending) where\n"
    "there are several databases. A list of SQL holds several golds.\n"
    "\nExit codes: 0 made; 2 bad input.",
)
@options.record(InitOptions)
def command(arguments: InitOptions) -> None:
    """Create your own benchmark from questions with their SQL and a database.

    Writes a folder in BIRD's layout and a YAML file that --benchmark takes.
    """
    from tasks.benchmarks.custom import SQL_NAMES, NewBenchmark, make_benchmark
    from tasks.benchmarks.rows import plain_name

    names = (plain_name(arguments.sql_column),) if arguments.sql_column else SQL_NAMES
    made = make_benchmark(
        NewBenchmark(arguments.questions, arguments.database, arguments.output, arguments.rule, names)
    )
    file = shlex.quote(str(made.file))
    verify = f"crosscheck benchmarks verify --benchmark {file}"
    evaluate = f"crosscheck evaluate --benchmark {file}"

    def show(stream: TextIO) -> None:
        click.echo(
            f"{made.file.parent} has {counted(made.questions, 'question')} on {counted(made.databases, 'database')}.\n"
            f"Check the SQL:  {verify}\nEvaluate:       {evaluate}",
            stream,
        )

    arguments.emit(
        {"benchmark": str(made.file), "questions": made.questions, "databases": made.databases}, show
    )
