"""`crosscheck query`."""

from dataclasses import asdict
from typing import Annotated

from flows.cli import options
from tasks.core.errors import ConfigurationError


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
        from flows.pages.lists import print_csv, print_rows, print_schema, print_views
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
