"""Tables, SQL and texts of the summaries on a terminal."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TextIO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from tasks.core.wording import TextTable, counts, money, number, percent, seconds, signed
from tasks.scoring.cost import Cost
from tasks.scoring.degradation import Degradation
from tasks.scoring.report import Ratio, StageScore
from tasks.tracking.pages.text import visible

BOUNDLESS = 100_000
"""Width of output that is not a terminal: nothing in a file or a pipe is wrapped, cut or left out for its width."""


class _Console(Console):
    """Console that leaves it to the command what happens when the reader of the output has closed it."""

    def on_broken_pipe(self) -> None:
        """Raise it again, where Rich would end the process with exit code 1."""
        raise BrokenPipeError


def open_console(stream: TextIO) -> Console:
    """Return a console with colours on a terminal only, and without emoji codes (`:name:`) and line breaks.

    It is as wide as the terminal; where the output is not one, `BOUNDLESS`.
    """
    wide = None if stream.isatty() else BOUNDLESS
    return _Console(file=stream, highlight=False, emoji=False, soft_wrap=True, width=wide)


def literal(text: str) -> str:
    """Return text that is printed as it is: nothing in it is markup, and control characters are spelled out."""
    return escape(visible(text))


def print_sql(console: Console, sql: str | None) -> None:
    """Print a SQL, indented; on a terminal in colours."""
    if sql is None:
        console.print("    [dim]none[/]")
        return
    text = visible(sql.strip())
    if console.is_terminal:
        from rich.syntax import Syntax  # imports Pygments

        coloured = Syntax(text, "sql", background_color="default", word_wrap=True)
        console.print(Padding(coloured, (0, 0, 0, 4)), soft_wrap=False)
        return
    for line in text.splitlines():
        console.print(f"    {line}", markup=False)


def fits(console: Console, made: Table) -> bool:
    """Return whether a table can be printed without wrapping or truncating a cell."""
    room = console.options.update(width=BOUNDLESS)
    return console.measure(made, options=room).maximum <= console.width


def show(console: Console, made: Table, keep: int = 2) -> None:
    """Print a table; if it does not fit, with less padding, then without its last columns, which the caption names.

    Rich truncates names in a table that is too wide. The caption is printed below, as wide as the page.

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
        before = f"{made.caption}; " if made.caption else ""
        made.caption = f"{before}a wider terminal also shows {', '.join(left_out)}"
    caption, made.caption = made.caption, None  # Rich wraps it to the width of the table
    console.print(made, soft_wrap=False)
    if caption:
        console.print(caption, style="table.caption", soft_wrap=False)


def show_all(console: Console, tables: Iterable[TextTable]) -> None:
    """Print tables, one below the other."""
    for described in tables:
        made = table(literal(described.title), *map(literal, described.columns))
        for row in described.rows:
            if row is None:
                made.add_section()
            else:
                made.add_row(*map(literal, row))
        made.caption = literal(described.caption) or None
        show(console, made)


def degradation_lines(found: Degradation) -> Iterator[str]:
    """Yield the sentences on degraded stages, in red if a stage had no effect."""
    colour = "red" if any(each.without_effect for each in found.stages) else "yellow"
    yield from (f"[{colour}]![/] {literal(sentence)}" for sentence in found.sentences)


def stage_table(title: str, stages: Iterable[StageScore]) -> TextTable:
    """Describe the accuracy after each stage, and what the stage fixed and broke."""
    rows = (
        (
            stage.name,
            percent(stage.ex),
            counts(stage.ex),
            number(stage.fixed, missing=""),
            number(stage.broken, missing=""),
            "" if stage.fixed is None or stage.broken is None else signed(stage.fixed - stage.broken),
        )
        for stage in stages
    )
    return TextTable(title, ("stage", "EX", "right", "fixed", "broken", "net"), tuple(rows))


def share_table(title: str, shares: Mapping[str, Ratio]) -> TextTable:
    """Describe accuracies by their names."""
    rows = ((name, percent(ratio), counts(ratio)) for name, ratio in shares.items())
    return TextTable(title, ("", "EX", "right"), tuple(rows))


def cost_cells(cost: Cost, input_tokens: int | None, output_tokens: int | None) -> tuple[str, ...]:
    """Return the cells of a bill: calls, calls from a cache, tokens, money paid and from scratch, seconds of a call."""
    numbers = (cost.calls, cost.cached_calls, input_tokens, output_tokens)
    usd = (cost.cost_usd, cost.from_scratch_usd)
    return *map(number, numbers), *map(money, usd), seconds(cost.p50_s), seconds(cost.p95_s)


def table(title: str, *columns: str, texts: Collection[str] = ()) -> Table:
    """Return an empty table: the first column and those in `texts` hold texts, the others numbers."""
    made = Table(
        title=f"\n{title}" if title else None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        caption_justify="left",
    )
    for place, name in enumerate(columns):
        if place == 0 or name in texts:
            made.add_column(name, overflow="fold")
        else:
            made.add_column(name, justify="right", no_wrap=True)
    return made
