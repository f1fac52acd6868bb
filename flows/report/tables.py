"""Tables of the summaries."""

from collections.abc import Iterable
from typing import TextIO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tasks.scoring.report import Cost
from tasks.tables import TextTable
from tasks.wording import money, number, seconds

PAGE = 110
"""Width of output that is not a terminal."""
BOUNDLESS = 100_000


class _Console(Console):
    """Console that leaves it to the command what happens when the reader of the output has closed it."""

    def on_broken_pipe(self) -> None:
        """Raise it again, where Rich would end the process with exit code 1."""
        raise BrokenPipeError


def open_console(stream: TextIO, width: int = PAGE) -> Console:
    """Return a console with colours on a terminal only, and without emoji codes (`:name:`).

    Args:
        stream: output stream.
        width: of output that is not a terminal.
    """
    return _Console(file=stream, highlight=False, emoji=False, width=None if stream.isatty() else width)


def fits(console: Console, made: Table) -> bool:
    """Return whether a table can be printed without wrapping or truncating a cell."""
    room = console.options.update(width=BOUNDLESS)
    return console.measure(made, options=room).maximum <= console.width


def show(console: Console, made: Table, keep: int = 2) -> None:
    """Print a table; if it does not fit, with less padding, then without its last columns, which the caption names.

    Rich truncates names in a table that is too wide.

    Args:
        console: where it is printed.
        made: the table.
        keep: number of first columns that are printed in any case.
    """
    if not fits(console, made):
        made.padding = (0, 0)
    if not fits(console, made):
        for column in made.columns:
            column.header = str(column.header).replace(" ", "\n")
    left_out: list[str] = []
    while not fits(console, made) and len(made.columns) > keep:
        left_out.insert(0, str(made.columns.pop().header).replace("\n", " "))
    if left_out:
        caption = f"{made.caption}; " if made.caption else ""
        made.caption = f"{caption}a wider terminal also shows {', '.join(left_out)}"
    console.print(made)


def show_all(console: Console, tables: Iterable[TextTable]) -> None:
    """Print tables, one below the other."""
    for described in tables:
        made = table(described.title, *described.columns)
        for row in described.rows:
            if row is None:
                made.add_section()
            else:
                made.add_row(*map(escape, row))
        made.caption = escape(described.caption) or None
        show(console, made)


def cost_cells(cost: Cost, input_tokens: int | None, output_tokens: int | None) -> tuple[str, ...]:
    """Return the cells of a bill: calls, calls from a cache, tokens, money, and seconds of a call."""
    counts = (cost.calls, cost.cached_calls, input_tokens, output_tokens)
    return *map(number, counts), money(cost.cost_usd), seconds(cost.p50_s), seconds(cost.p95_s)


def table(title: str, first: str, *others: str) -> Table:
    """Return an empty table: the first column holds names, the others numbers."""
    made = Table(
        title=f"\n{title}" if title else None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        caption_justify="left",
    )
    made.add_column(first)
    for name in others:
        made.add_column(name, justify="right")
    return made
