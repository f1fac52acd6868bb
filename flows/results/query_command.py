"""`crosscheck query`."""

from dataclasses import dataclass

import click

from flows.cli import options
from flows.cli.output import emit
from tasks.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class QueryOptions(options.Output):
    """Options of `crosscheck query`."""

    sql: str | None = options.argument(required=False, metavar="[SQL]")
    as_csv: bool = options.option("--csv", is_flag=True, help="Print CSV with a header.")


@click.command(
    "query",
    epilog="\b\nViews: runs, questions, candidates (the SQL after each stage), stages, calls.\n"
    "`crosscheck query` alone lists their columns.\n"
    "\b\nExamples:\n"
    '  crosscheck query "SELECT run_id, backbone, pipeline, ex, cost_usd FROM runs ORDER BY started"\n'
    "\b\n"
    "  # what went wrong, by database\n"
    '  crosscheck query "SELECT database, status, count(*) AS n FROM questions\n'
    '                    WHERE NOT correct GROUP BY ALL ORDER BY n DESC"\n'
    "\b\n"
    "  # tokens and money by stage, paid calls only\n"
    '  crosscheck query "SELECT run_id, stage, count(*) AS calls, sum(input_tokens) AS input, sum(cost_usd) AS usd\n'
    '                    FROM calls WHERE paid GROUP BY ALL ORDER BY ALL" --csv\n'
    "\b\n"
    "  # questions that no run ever answered right\n"
    '  crosscheck query "SELECT question_id, question FROM questions GROUP BY ALL HAVING NOT bool_or(correct)"\n'
    "\b\nNothing can be changed by a query, and no other file read.\n"
    "\b\nExit codes: 0 done; 2 bad input.",
)
@options.record(QueryOptions)
def command(given: QueryOptions) -> None:
    """Run SQL (DuckDB's) on what all runs found; without SQL, list the views and columns there are."""
    from flows.results.query_display import print_csv, print_rows, print_views
    from tasks.tracking.warehouse.views import VIEWS, query

    if given.as_csv and given.as_json:
        raise ConfigurationError("--csv and --json: give one of them.")
    if given.sql is None:
        columns = {name: list(view.columns) for name, view in VIEWS.items()}
        emit(columns, print_views, as_json=given.as_json, text_too=False)
        return
    table = query(given.folder.warehouse, given.sql)
    emit(
        {"columns": table.columns, "rows": table.as_objects()} if given.as_json else None,
        lambda stream: (print_csv if given.as_csv else print_rows)(table, stream),
        as_json=given.as_json,
        text_too=False,
    )
