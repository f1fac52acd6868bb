"""Output of `crosscheck query` and `crosscheck answer`."""

import json
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from flows.evaluate.answering import Answered
from flows.runtime.output import write_csv
from tasks.core.records import Execution
from tasks.core.wording import counted
from tasks.documents.terminal import fits, literal, open_console
from tasks.documents.text import visible
from tasks.results.warehouse.views import QueryResult, plain, schema, views

MAX_ROWS = 200
MAX_COLUMNS = 10


def print_rows(table: QueryResult, stream: TextIO) -> None:
    """Print the first rows of a result as a table, or in blocks if it has many columns."""
    console = open_console(stream)
    if len(table.columns) > MAX_COLUMNS:
        _print_blocks(table, console)
    else:
        _print_table(table, console)
    rest = len(table.rows) - MAX_ROWS
    more = f", the first {MAX_ROWS} of them here; --csv and --json print all" if rest > 0 else ""
    console.print(f"{counted(len(table.rows), 'row')}{more}")


def _print_blocks(table: QueryResult, console: Console) -> None:
    width = max(len(name) for name in table.columns)
    for row in table.rows[:MAX_ROWS]:
        for name, value in zip(table.columns, row, strict=True):
            console.print(Text(visible(f"{name:<{width}}  {_text(value)}")))
        console.print()


def _print_table(table: QueryResult, console: Console) -> None:
    grid = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, name in enumerate(table.columns):
        is_numeric = all(isinstance(row[index], int | float) for row in table.rows if row[index] is not None)
        grid.add_column(
            Text(visible(name)), justify="right" if is_numeric and table.rows else "left", overflow="fold"
        )
    for row in table.rows[:MAX_ROWS]:
        grid.add_row(*(Text(visible(_text(value))) for value in row))
    console.print(grid)


def print_csv(table: QueryResult, stream: TextIO) -> None:
    """Print a result as CSV with a header; NULL is an empty cell, and numbers have all their digits."""

    def cell(value: object) -> object:
        return "" if value is None else value if isinstance(value, float) else _text(value)

    write_csv((table.columns, *([cell(value) for value in row] for row in table.rows)), stream)


def print_views(stream: TextIO) -> None:
    """Print the views that can be queried, with their columns."""
    for name, view in views().items():
        stream.write(f"{name}: {view.about}\n  {', '.join(view.columns)}\n\n")


def print_schema(stream: TextIO) -> None:
    """Print the views with the type and the meaning of every column."""
    console = open_console(stream)
    for name, columns in schema().items():
        console.print(Text.assemble((name, "bold"), f": one row is {views()[name].about}"))
        grid = RichTable(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        grid.add_column()
        grid.add_column()
        grid.add_column(overflow="fold")
        for column in columns:
            grid.add_row(Text(column.name), Text(column.type, "dim"), Text(column.meaning))
        console.print(grid)
        console.print()
    console.print("NULL means unknown, never 0.")


def _text(value: object) -> str:
    """Return the text of a value: six digits of a fraction, all of a larger number; NULL is a dash."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 100_000 else f"{value:.15g}"
    text = plain(value)
    return text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)


def print_answer(answered: Answered, stream: TextIO) -> None:
    """Print the SQL, its result and the remarks."""
    console = open_console(stream)
    outcome, execution = answered.outcome, answered.execution
    if answered.remark:
        console.print(f"[bold yellow]![/] {literal(answered.remark)}\n")
    if outcome.failure or outcome.sql is None or execution is None:
        console.print(f"[red]No answer:[/] {literal(answered.error)}")
        return
    sql = visible(outcome.sql)
    if stream.isatty():
        console.print(Syntax(sql, "sql", background_color="default", word_wrap=True))
    else:
        stream.write(f"{sql}\n")  # Rich would replace its tabs
    console.print()
    if not execution.ok:
        console.print(f"[red]It does not run:[/] {literal(answered.error)}")
        return
    table = _table(execution)
    if fits(console, table):
        console.print(table)
    else:
        _print_records(console, execution)
    rows = len(execution.rows)
    total = execution.row_count or 0
    first = f", the first {rows:,} shown" if rows < total else ""
    console.print(f"\n[dim]{counted(total, 'row')}{first}[/]")


def _table(execution: Execution) -> RichTable:
    headers = (Column(Text(_on_one_line(name))) for name in execution.columns)
    table = RichTable(*headers, box=None, pad_edge=False, header_style="bold")
    for row in execution.rows:
        table.add_row(*(Text(_on_one_line(value)) for value in row))
    return table


def _print_records(console: Console, execution: Execution) -> None:
    """Print a line for each value, because a table wider than the terminal cannot be read."""
    columns = [_on_one_line(name) for name in execution.columns]
    width = max(map(len, columns))
    for number, row in enumerate(execution.rows, 1):
        console.print(f"[dim]row {number}[/]")
        for name, value in zip(columns, row, strict=True):
            console.print(
                Text.assemble((name.ljust(width), "bold"), "  ", _on_one_line(value)), soft_wrap=True
            )


def _on_one_line(value: Any) -> str:
    return "NULL" if value is None else visible(str(value)).replace("\n", "\\n").replace("\t", "\\t")
