"""Terminal output of nightly runs: verdict, scores and costs, failures and commands to continue."""

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table as Grid

from tasks.documents.terminal import literal, make_grid, open_console, show
from tasks.tracking.night import sentences as words
from tasks.tracking.night.night import Judged, Night
from tasks.tracking.night.tables import Table, costs, scores

_COLOURS = {"Red": "red", "Amber": "yellow", "Green": "green", "No baseline yet": "dim"}


def print_nights(nights: Sequence[Night], stream: TextIO) -> None:
    """Print a list of nightly runs, the latest first."""
    console = open_console(stream)
    table = make_grid("", "night", "", "verdict", texts=("", "verdict"))
    for night in nights:
        table.add_row(
            literal(night.name), f"[{_COLOURS[night.colour]}]{night.colour}[/]", literal(night.verdict)
        )
    console.print(table, soft_wrap=False)


def print_night(night: Night, stream: TextIO) -> None:
    """Print one nightly run."""
    console = open_console(stream)
    colour = _COLOURS[night.colour]
    console.print(f"[bold {colour}]{night.colour}[/]: {literal(night.verdict)}")
    for name, value in (("night", night.name), *words.facts(night)):
        console.print(f"[dim]{name}[/] {literal(value)}")
    console.print()
    show(console, _table(scores(night)))
    console.print()
    show(console, _table(costs(night)))
    for line in words.corrected(night):
        console.print(literal(line))
    for judged in night.entries:
        if judged.verdict == "declining" or judged.entry.pinned:
            _print_baseline_and_trend(console, judged)
        _print_problem(console, judged)
        if judged.entry.degradation:
            console.print(f"\n[yellow]![/] [bold]{literal(judged.entry.name)}[/]")
        for sentence in judged.entry.degradation:
            console.print(f"  {literal(sentence)}")
    moved = [
        each.entry for each in night.entries if each.entry.comparison and each.entry.comparison.differing
    ]
    if moved:
        console.print("\nWhich questions were fixed and broken, with both SQLs:")
    for entry in moved:
        console.print(f"  {literal(words.compare_command(entry))}")


def _table(table: Table) -> Grid:
    """Return a table of evaluations for the terminal."""
    grid = make_grid("", "evaluation", *table.columns)
    for row in table.rows:
        cells = [literal(cell) for cell in row.cells]
        colour = _COLOURS[row.judged.colour] if row.judged.colour in ("Red", "Amber") else ""
        grid.add_row(
            literal(row.judged.entry.name),
            *(f"[{colour}]{cell}[/]" if colour and cell == row.judged.verdict else cell for cell in cells),
        )
    return grid


def _print_baseline_and_trend(console: Console, judged: Judged) -> None:
    entry = judged.entry
    pinned = f"baseline {entry.baseline}, {entry.pinned}" if entry.pinned else ""
    trend = words.decline(judged) if judged.verdict == "declining" else ""
    for line in filter(None, (pinned, trend)):
        console.print(f"\n[dim]{literal(entry.name)}[/]\n  {literal(line)}")


def _print_problem(console: Console, judged: Judged) -> None:
    entry = judged.entry
    if not entry.problem and not entry.continue_with:
        return
    console.print(f"\n[red]✗[/] [bold]{literal(entry.name)}[/]")
    if entry.problem:
        console.print(f"  {literal(entry.problem)}")
    if entry.continue_with:
        console.print(f"  {words.what_continues(entry)}\n  {literal(entry.continue_with)}")
