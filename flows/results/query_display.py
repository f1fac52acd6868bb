"""Output of query results."""

import json
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table as Shown
from rich.text import Text

from flows.cli.output import write_csv
from tasks.core.wording import counted
from tasks.documents.terminal import open_console
from tasks.documents.text import visible
from tasks.tracking.warehouse.views import Table, plain, schema, views

MOST, MOST_COLUMNS = 200, 10


def print_rows(table: Table, stream: TextIO) -> None:
    """Print the first rows of a result as a table, or in blocks if it has many columns."""
    console = open_console(stream)
    if len(table.columns) > MOST_COLUMNS:
        _print_blocks(table, console)
    else:
        _print_table(table, console)
    rest = len(table.rows) - MOST
    more = f", the first {MOST} of them here; --csv and --json print all" if rest > 0 else ""
    console.print(f"{counted(len(table.rows), 'row')}{more}")


def _print_blocks(table: Table, console: Console) -> None:
    width = max(len(name) for name in table.columns)
    for row in table.rows[:MOST]:
        for name, value in zip(table.columns, row, strict=True):
            console.print(Text(visible(f"{name:<{width}}  {_text(value)}")))
        console.print()


def _print_table(table: Table, console: Console) -> None:
    shown = Shown(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, name in enumerate(table.columns):
        numbers = all(isinstance(row[place], int | float) for row in table.rows if row[place] is not None)
        shown.add_column(
            Text(visible(name)), justify="right" if numbers and table.rows else "left", overflow="fold"
        )
    for row in table.rows[:MOST]:
        shown.add_row(*(Text(visible(_text(value))) for value in row))
    console.print(shown, soft_wrap=False)


def print_csv(table: Table, stream: TextIO) -> None:
    """Print a result as CSV with a header; NULL is an empty cell."""
    rows = (["" if value is None else _text(value) for value in row] for row in table.rows)
    write_csv((table.columns, *rows), stream)


def print_views(stream: TextIO) -> None:
    """Print the views that can be queried, with their columns."""
    for name, view in views().items():
        stream.write(f"{name}: {view.about}\n  {', '.join(view.columns)}\n\n")


def print_schema(stream: TextIO) -> None:
    """Print the views with the type and the meaning of every column."""
    console = open_console(stream)
    for name, columns in schema().items():
        console.print(Text.assemble((name, "bold"), f": one row is {views()[name].about}"))
        shown = Shown(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        shown.add_column()
        shown.add_column()
        shown.add_column(overflow="fold")
        for column in columns:
            shown.add_row(Text(column.name), Text(column.type, "dim"), Text(column.meaning))
        console.print(shown, soft_wrap=False)
        console.print()
    console.print("NULL means unknown, never 0.")


def _text(value: object) -> str:
    """Return the text of a value; NULL is a dash."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    made = plain(value)
    return made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)
