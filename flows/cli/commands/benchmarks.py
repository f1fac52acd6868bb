"""`crosscheck benchmarks`."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO
from urllib.parse import quote

import click
from annotated_types import Ge

from flows.cli import options
from tasks.core.errors import ConfigurationError, DataError, ExitCode, did_you_mean
from tasks.core.wording import counted

if TYPE_CHECKING:
    from tasks.benchmarks.benchmark import Benchmark
    from tasks.documents.model import Document


class Init(options.Json):
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
        from tasks.benchmarks.custom import SQL_NAMES, make_benchmark
        from tasks.benchmarks.rows import plain_name

        names = (plain_name(self.sql_column),) if self.sql_column else SQL_NAMES
        custom = make_benchmark(self.questions, self.database, self.output, self.rule, names)
        file = shlex.quote(str(custom.file))
        questions = counted(custom.questions, "question")
        databases = counted(custom.databases, "database")
        self.emit(
            {"benchmark": str(custom.file), "questions": custom.questions, "databases": custom.databases},
            f"{custom.file.parent} has {questions} on {databases}.\n"
            f"Check the SQL:  crosscheck benchmarks verify --benchmark {file}\n"
            f"Evaluate:       crosscheck evaluate --benchmark {file}",
        )


class Verify(options.Benchmark, options.BenchmarkOverrides, options.Page, options.Files):
    """Run every gold query of a benchmark, and list those that fail, are slow or return nothing.

    If every gold query of a question fails, each of its predictions counts as wrong: put the question on the
    benchmark's quarantine list.

    Examples:
      crosscheck benchmarks verify --benchmark bird-dev --data ~/text2sql
      crosscheck benchmarks verify --benchmark spider-dev --split train
      crosscheck benchmarks verify --benchmark spider-dev --gold train_gold.sql --json
      crosscheck benchmarks verify --benchmark bird-dev --slow 1 --strict
      crosscheck benchmarks verify --benchmark bird-dev --key corrections.json
      crosscheck benchmarks verify --benchmark bird-mini-dev --key arcwise --html key.html

    An answer key is the name of a benchmark whose golds it is, a file of id and SQL (JSON, JSON lines, CSV), or
    a file of corrections: an object with the key corrections, a list of objects with question_id, action (replace,
    add or withdraw), sql (a text or a list), reason and source. A run with
    --set benchmark.answer_keys=corrections.json has a score by this key beside the official one.

    Exit codes: 0 all queries were run; 1 with --strict: a gold query failed, was stopped, or returned too
    large a result; 2 bad input or configuration, and with --key anything that is wrong with the key;
    3 a database cannot be read.
    """

    split: Literal["dev", "train"] = "dev"
    """dev: the evaluated questions; train: the training questions."""
    gold: Path | None = None
    """Run this file's queries on the benchmark's databases instead: a SQL, a tab and its database per line."""
    key: Annotated[str | None, options.Metavar("KEY")] = None
    """Check this answer key instead, a file or the name of a benchmark: run its SQL, and compare its results with
    those of the official golds."""
    slow: Annotated[float, options.Metavar("SECONDS"), Ge(0)] = 5.0
    """Queries that take longer are listed as slow."""
    no_undecided: bool = False
    """Do not look for golds whose result the data do not decide, for which most golds are executed several times."""
    strict: bool = False
    """Exit with 1 if a gold query fails, is stopped, or returns a result that is too large."""

    def __call__(self) -> int:
        """Check the golds, or the answer key that `--key` names: other golds for the same questions."""
        if self.key is not None and self.gold is not None:
            raise ConfigurationError("--gold and --key each name the queries to run: give one of them.")
        if self.key is not None:
            return self._check_key(self.key)
        from flows.cli.display.gold_check import VerifiedDocument, gold_document
        from flows.evaluate.gold_check import run_verify_gold
        from tasks.settings.assemble import benchmark_settings

        with self.progress() as progress:
            verified = run_verify_gold(
                benchmark_settings(self.benchmark, self.overrides),
                self.folders,
                progress,
                split=self.split,
                file=self.gold,
                slow_s=self.slow,
                undecided=not self.no_undecided,  # golds whose result the data do not decide
            )
        self._show(VerifiedDocument.model_validate(verified), gold_document(verified))
        if verified.report.by_class["unreadable_database"]:
            return ExitCode.TRY_AGAIN  # its golds were not run
        return ExitCode.NEGATIVE if self.strict and verified.report.faults else ExitCode.DONE

    def _check_key(self, item: str) -> int:
        from flows.cli.display.gold_check import KeyDocument, key_document
        from flows.evaluate.gold_check import check_key
        from tasks.settings.assemble import benchmark_settings

        settings = benchmark_settings(self.benchmark, self.overrides)
        with self.progress() as progress:
            checked = check_key(settings, item, self.folders, progress)
        self._show(KeyDocument.model_validate(checked), key_document(checked))
        return ExitCode.BAD_INPUT if checked.problems else ExitCode.DONE

    def _show(self, value: Any, document: "Document") -> None:
        self.write_page(lambda: document)
        self.emit(value, document, text_too=True)


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
    databases: Annotated[str | None, options.Metavar("NAMES")] = None
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
            selected = [name.strip() for name in (self.databases or "").split(",") if name.strip()]
            names = _databases_to_copy(benchmark, selected)
            if len(names) > 1 and PLACEHOLDER not in self.to:
                raise ConfigurationError(
                    f"--to: {len(names)} databases would be one. Write {PLACEHOLDER} where the name of each belongs, "
                    "as in postgresql://owner@host/{database}, or name one with --databases."
                )
            for name in names:
                progress.step(f"Copying {name}")
                target = locate(self.to.replace(PLACEHOLDER, quote(name, safe="")))
                copies.append(copy_database(open_benchmark_database(benchmark, name, sample_rows=0), target))

        def show(stream: TextIO) -> None:
            for copy in copies:
                outcome = "copied" if copy.copied else "already there"
                size = f"{counted(copy.tables, 'table')}, {counted(copy.rows, 'row')}"
                click.echo(f"{copy.database}: {outcome} ({size}) {copy.to}", stream)
                for note in copy.notes:
                    click.echo(visible(f"  {note}"), stream)
            # READER takes the place of the role that copies, and of its password; a file has no role.
            role, _, address = self.to.rpartition("@")
            url = f"{role.partition('://')[0]}://READER@{address}" if role else address
            evaluate = ["crosscheck", "evaluate", "--benchmark", self.benchmark]
            command = [*evaluate, "--set", f"benchmark.url={url}"]
            click.echo(
                f"Evaluate there, as a role that only reads (docs/database.md):  {shlex.join(command)}",
                stream,
            )

        self.emit({"benchmark": settings.name, "databases": [asdict(copy) for copy in copies]}, show)


def _databases_to_copy(benchmark: "Benchmark", selected: Sequence[str]) -> Sequence[str]:
    """Return the ids of the databases to copy: those that the user names, or all that are there."""
    ids = tuple(dict.fromkeys(question.database_id for question in benchmark.questions))
    if unknown := [name for name in selected if name not in ids]:
        raise ConfigurationError(
            f'--databases: there is no database "{unknown[0]}". {did_you_mean(unknown[0], ids)}'
        )
    absent = [name for name in selected or ids if name in benchmark.missing]
    # without a selection, absent databases are passed over unless all are absent
    if absent and (selected or len(absent) == len(ids)):
        raise DataError(
            f"{benchmark.settings.name}: the database {absent[0]} is not at {benchmark.location(absent[0])}. "
            f"{benchmark.where_from}"
        )
    return selected or [name for name in ids if name not in absent]


class Prepare(options.Evaluation):
    """Prepare a benchmark for evaluations, and describe undescribed columns.

    Builds the demo, reads and checks the databases, embeds demonstrations, and lets a model write one sentence
    about each column without a description. With `--limit` or `--questions`, only the databases of those questions
    are prepared.

    Examples:
      crosscheck benchmarks prepare --benchmark bird-dev --backbone openai
      crosscheck benchmarks prepare --benchmark spider-dev --backbone openai --questions 0-99

    It costs one model call for each table with undescribed columns. Interrupted or failed? The same command
    continues.

    Exit codes: 0 done; 2 bad input or configuration; 3 some tables failed, run it again; 130 interrupted.
    """

    def __call__(self) -> int:
        from flows.evaluate.run import launched
        from flows.runtime.control import Control
        from flows.runtime.progress import open_progress
        from tasks.documents.text import visible

        settings = self.settings_of(pipeline="rsl-sql")
        with open_progress(sys.stderr) as progress:
            control = Control(progress)
            with launched(settings, control) as prefect:
                from flows.evaluate.descriptions import prepare_flow

                prepared = prefect.loop.run(prepare_flow(control, prefect.preparation)(settings))
        self.emit(
            asdict(prepared),
            f"{counted(prepared.databases, 'database')}; {counted(prepared.undescribed, 'column')} without a "
            f"description, {prepared.described:,} described; {counted(prepared.calls, 'model call')}.",
        )
        if prepared.described:
            click.echo(
                f"  Written by {visible(settings.backbone.name)}. Prompts of every model that is evaluated in this "
                "working folder show them, and its runs say so; "
                f"without {self.folder.path / 'descriptions'} they are written again.",
                err=True,
            )
        if prepared.left_out:
            click.echo(
                f"  Left out of the model's replies: {counted(prepared.left_out, 'column')}. Try another --backbone.",
                err=True,
            )
        for name, reason in prepared.failures.items():
            click.echo(visible(f"  {name}: {reason}"), err=True)
        return ExitCode.TRY_AGAIN if prepared.failures else ExitCode.DONE
