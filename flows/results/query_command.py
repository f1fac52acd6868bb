"""`crosscheck query`."""

import json
import sys

import click

from flows.cli import options
from tasks.errors import ConfigurationError


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
@click.argument("sql", required=False, metavar="[SQL]")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header.")
@options.home
@options.as_json
def command(sql: str | None, as_csv: bool, home: str | None, as_json: bool) -> None:
    """Run SQL (DuckDB's) on what all runs found; without SQL, list the views and columns there are."""
    from flows.results.query_display import print_csv, print_rows, print_views
    from tasks.settings.home import find_home
    from tasks.tracking.warehouse.views import query, views

    if as_csv and as_json:
        raise ConfigurationError("--csv and --json: give one of them.")
    if sql is None:
        if as_json:
            click.echo(json.dumps({name: list(view.columns) for name, view in views().items()}))
        else:
            print_views(sys.stdout)
        return
    table = query(find_home(home).warehouse, sql)
    if as_json:
        click.echo(json.dumps({"columns": table.columns, "rows": table.as_objects()}, ensure_ascii=False))
    elif as_csv:
        print_csv(table, sys.stdout)
    else:
        print_rows(table, sys.stdout)
