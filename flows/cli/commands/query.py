"""`crosscheck query`."""

from dataclasses import asdict, dataclass

import click

from flows.cli import options
from tasks.core.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class QueryOptions(options.Output):
    """Options of `crosscheck query`."""

    sql: str | None = options.argument(required=False, metavar="[SQL]")
    as_csv: bool = options.flag("--csv", "Print CSV with a header.")
    as_schema: bool = options.flag("--schema", "Print every column of the tables with its type and meaning.")


@click.command(
    "query",
    epilog="Tables: runs, questions, candidates (the SQL after each stage), stages, calls.\n"
    "`crosscheck query` alone lists their columns, `--schema` also their meaning; docs/warehouse.md has more queries.\n"
    "\n\b\nExamples:\n"
    '  crosscheck query "SELECT run_id, backbone, pipeline, ex, cost_usd FROM runs ORDER BY started"\n'
    "\n\b\n"
    "  # causes of wrong answers, by database\n"
    '  crosscheck query "SELECT database, status, count(*) AS n FROM questions\n'
    '                    WHERE NOT correct GROUP BY ALL ORDER BY n DESC"\n'
    "\n\b\n"
    "  # tokens and costs by stage, paid calls only\n"
    '  crosscheck query "SELECT run_id, stage, count(*) AS calls, sum(input_tokens) AS input, sum(cost_usd) AS usd\n'
    '                    FROM calls WHERE paid GROUP BY ALL ORDER BY ALL" --csv\n'
    "\n\b\n"
    "  # questions that no run answered correctly\n"
    '  crosscheck query "SELECT question_id, question FROM questions GROUP BY ALL HAVING NOT bool_or(correct)"\n'
    "\nA query cannot change the results or read other files.\n"
    "\nExit codes: 0 done; 2 bad input.",
)
@options.record(QueryOptions)
def command(arguments: QueryOptions) -> None:
    """Run SQL (DuckDB's dialect) on the results of all runs; without SQL, list the tables and their columns."""
    from flows.pages.lists import print_csv, print_rows, print_schema, print_views
    from tasks.results.warehouse.views import query, schema, views

    if arguments.as_csv and arguments.as_json:
        raise ConfigurationError("--csv and --json cannot be used together.")
    if arguments.as_schema:
        if arguments.sql is not None:
            raise ConfigurationError("--schema takes no query.")
        columns = {name: [asdict(column) for column in columns] for name, columns in schema().items()}
        arguments.emit(columns, print_schema)
        return
    if arguments.sql is None:
        arguments.emit({name: list(view.columns) for name, view in views().items()}, print_views)
        return
    table = query(arguments.read_folder.warehouse, arguments.sql)
    document = {"columns": table.columns, "rows": table.as_objects()} if arguments.as_json else {}
    print_table = print_csv if arguments.as_csv else print_rows
    arguments.emit(document, lambda stream: print_table(table, stream))
