"""`crosscheck benchmarks init`."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

from flows.cli import options
from tasks.core.wording import counted


class InitBenchmark(options.Json):
    """Create your own benchmark from questions with their SQL and a database.

    Writes a folder in BIRD's layout and a YAML file that --benchmark takes.

    Examples:
      crosscheck benchmarks init --questions questions.csv --database shop.sqlite --output shop
      crosscheck benchmarks init --questions questions.csv --database postgresql://reader@host/shop --output shop
      crosscheck benchmarks verify --benchmark shop/shop.yaml
      crosscheck evaluate --benchmark shop/shop.yaml

    questions.csv:
      question,sql
      How many customers are there?,SELECT COUNT(*) FROM customer

    Further columns: question_id, evidence, difficulty, and db_id (the file's name without its ending) where
    there are several databases. A list of SQL holds several golds.

    Exit codes: 0 made; 2 bad input.
    """

    questions: Path
    """Questions with their SQL: CSV, TSV, JSON lines or a JSON list."""
    database: Annotated[tuple[str, ...], options.Metavar("FILE|URL")]
    """Database that the questions are about. A SQLite file is copied; a DuckDB file, a folder of Parquet or CSV
    files, or a server's database (postgresql://reader@host/shop) stays where it is. May be given several times."""
    sql_column: Annotated[str | None, options.Metavar("NAME")] = None
    """Column of the SQL, where it has another name than sql or query."""
    output: Annotated[Path, options.Metavar("FOLDER")]
    """Folder to make; its name is the benchmark's."""
    rule: Literal["bird", "spider", "strict", "subset"] = "bird"
    """Rule of the headline score."""

    def __call__(self) -> None:
        from tasks.benchmarks.custom import SQL_NAMES, NewBenchmark, make_benchmark
        from tasks.benchmarks.rows import plain_name

        names = (plain_name(self.sql_column),) if self.sql_column else SQL_NAMES
        made = make_benchmark(NewBenchmark(self.questions, self.database, self.output, self.rule, names))
        file = shlex.quote(str(made.file))
        questions, databases = counted(made.questions, "question"), counted(made.databases, "database")
        self.emit(
            {"benchmark": str(made.file), "questions": made.questions, "databases": made.databases},
            f"{made.file.parent} has {questions} on {databases}.\n"
            f"Check the SQL:  crosscheck benchmarks verify --benchmark {file}\n"
            f"Evaluate:       crosscheck evaluate --benchmark {file}",
        )
