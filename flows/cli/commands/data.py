"""`crosscheck query` and `crosscheck export`: results as data."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal, cast

import click

from flows.cli import options
from tasks.core.errors import ConfigurationError
from tasks.core.wording import counted


class Query(options.Output):
    """Run SQL (DuckDB's dialect) on the results of all runs; without SQL, list the tables and their columns.

    Tables: runs, questions, candidates (the SQL after each stage), stages, calls.
    `crosscheck query` alone lists their columns, `--schema` also their meaning; docs/warehouse.md has more queries.

    Examples:
      crosscheck query "SELECT run_id, backbone, pipeline, ex, cost_usd FROM runs ORDER BY started"

      # causes of wrong answers, by database
      crosscheck query "SELECT database, status, count(*) AS n FROM questions
                        WHERE NOT correct GROUP BY ALL ORDER BY n DESC"

      # tokens and costs by stage, paid calls only
      crosscheck query "SELECT run_id, stage, count(*) AS calls, sum(input_tokens) AS input, sum(cost_usd) AS usd
                        FROM calls WHERE paid GROUP BY ALL ORDER BY ALL" --csv

      # questions that no run answered correctly
      crosscheck query "SELECT question_id, question FROM questions GROUP BY ALL HAVING NOT bool_or(correct)"

    A query cannot change the results or read other files.

    Exit codes: 0 done; 2 bad input.
    """

    sql: Annotated[str | None, options.Argument("[SQL]")] = None
    as_csv: Annotated[bool, options.More("--csv")] = False
    """Print CSV with a header."""
    as_schema: Annotated[bool, options.More("--schema")] = False
    """Print every column of the tables with its type and meaning."""

    def __call__(self) -> None:
        from flows.cli.display.lists import print_csv, print_rows, print_schema, print_views
        from tasks.results.warehouse.views import query, schema, views

        if self.as_csv and self.as_json:
            raise ConfigurationError("--csv and --json cannot be used together.")
        if self.as_schema:
            if self.sql is not None:
                raise ConfigurationError("--schema takes no query.")
            columns = {name: [asdict(column) for column in columns] for name, columns in schema().items()}
            self.emit(columns, print_schema)
            return
        if self.sql is None:
            self.emit({name: list(view.columns) for name, view in views().items()}, print_views)
            return
        table = query(self.read_folder.warehouse, self.sql)
        document = {"columns": table.columns, "rows": table.as_objects()} if self.as_json else {}
        print_table = print_csv if self.as_csv else print_rows
        self.emit(document, lambda stream: print_table(table, stream))


FORMS = {"bird": "bird", "spider": "lines"}


class Export(options.Files):
    """Write the results of all runs to FOLDER: one Parquet file for each view of `crosscheck query`.

    With --submission: write the predictions of one RUN for the official evaluator (docs/numbers.md).

    Examples:
      crosscheck export results
      python -c "import pandas; print(pandas.read_parquet('results/runs.parquet'))"
      crosscheck export latest --submission predict.json
          the predictions of the last finished run, as BIRD's or Spider's evaluator reads them
      crosscheck export 20261121-020000-3f9a1c --submission predict.txt --format spider

    Exit codes: 0 done; 2 bad input.
    """

    target: Annotated[str, options.Argument("FOLDER|RUN")]
    submission: Annotated[Path | None, options.Metavar("FILE"), options.More(type=options.NewFile())] = None
    """Write the predictions of RUN to FILE, for the official evaluator of its benchmark."""
    form: Annotated[Literal["bird", "spider"] | None, options.More("--format")] = None
    """Form of --submission. [default: that of the run's benchmark]"""
    overwrite: bool = False
    """Replace the files of an earlier export."""

    def __call__(self) -> None:
        if self.submission is not None:
            self._write_submission(self.submission)
            return
        if self.form:
            raise click.UsageError("--format is the form of --submission FILE, which is missing.")
        from tasks.results.warehouse.views import export

        target = Path(self.target)
        rows = export(self.read_folder.warehouse, target.expanduser(), overwrite=self.overwrite)

        lines = [f"{target / f'{name}.parquet'}: {counted(count, 'row')}" for name, count in rows.items()]
        self.emit({"folder": str(target), "rows": rows}, "\n".join(lines))

    def _write_submission(self, target: Path) -> None:
        from flows.evaluate.submission import export_submission
        from tasks.benchmarks.layouts import Submission

        if target.exists() and not self.overwrite:
            raise ConfigurationError(f"--submission {target} exists. Name another file, or add --overwrite.")
        (run,) = self.read_runs(self.target)
        form = cast("Submission | None", FORMS[self.form] if self.form else None)
        export = export_submission(run, target, self.folders, form)

        lines = [
            f"{counted(export.answered, 'prediction', 'is')} in {export.file}, of run {run.run_id}. Questions without "
            f"an answer, which count as wrong: {export.questions - export.answered:,} of {export.questions:,}."
        ]
        if export.changed:
            lines.append(
                f"{counted(len(export.changed), 'SQL', 'has')} a line break or tab inside a literal; this form cannot "
                f"hold it, and it became a space: {', '.join(export.changed[:10])}"
            )
        self.emit({"run_id": run.run_id, **asdict(export)}, "\n".join(lines))
