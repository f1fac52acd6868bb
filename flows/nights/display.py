"""How nights are printed: the verdict first, then the scores, then what is to be mended."""

from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.report.tables import open_console, show
from tasks.tracking.night import wording as words
from tasks.tracking.night.records import CONFIDENCE, Judged, Night
from tasks.tracking.pages.wording import counts, p_value, percent, points, seconds, visible

WIDE = 160
_COLOURS = {"Red": "red", "Green": "green"}


def print_nights(nights: Sequence[Night], stream: TextIO) -> None:
    """Print the nights there are, the latest first."""
    console = open_console(stream)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("night", "", "verdict"):
        table.add_column(name, overflow="fold")
    for night in nights:
        table.add_row(_text(night.name), f"[{_COLOURS[night.colour]}]{night.colour}[/]", _text(night.verdict))
    console.print(table)


def print_night(night: Night, stream: TextIO) -> None:
    """Print what a night found."""
    console = Console(file=stream, highlight=False, emoji=False, width=None if stream.isatty() else WIDE)
    colour = _COLOURS[night.colour]
    console.print(f"[bold {colour}]{night.colour}[/]: {_text(night.verdict)}", soft_wrap=True)
    for name, value in (("night", night.name), *words.facts(night)):
        console.print(f"[dim]{name}[/] {_text(value)}", soft_wrap=True)
    console.print()
    show(console, _scores(night))
    console.print()
    show(console, _bills(night))
    for judged in night.entries:
        _print_trouble(console, judged)
    moved = [
        each.entry for each in night.entries if each.entry.comparison and each.entry.comparison.differing
    ]
    if moved:
        console.print("\nWhich questions were fixed and broken, with both SQLs:")
    for entry in moved:
        console.print(f"  {_text(words.compare_command(entry))}", soft_wrap=True)


def _scores(night: Night) -> Table:
    table = _table(
        "evaluation", "EX", "right", f"{100 * CONFIDENCE:g} % interval", "difference",
        f"{100 * (1 - night.gate.level):g} % interval", "fixed", "broken", "p (Holm)", "verdict",
    )  # fmt: skip
    for judged in night.entries:
        entry, found = judged.entry, judged.entry.comparison
        standing = f"[red]{judged.standing}[/]" if judged.red else judged.standing
        table.add_row(
            _text(entry.name),
            percent(entry.ex),
            counts(entry.ex),
            f"{100 * entry.interval[0]:.1f} to {100 * entry.interval[1]:.1f} %" if entry.interval else "",
            points(found.difference) if found else "",
            f"{points(found.low)} to {points(found.high)}" if found else "",
            f"{len(found.fixed):,}" if found else "",
            f"{len(found.broken):,}" if found else "",
            p_value(judged.p_value) if found else "",
            standing,
        )
    return table


def _bills(night: Night) -> Table:
    table = _table("evaluation", "paid calls", "spared", "paid", "median", "p95", "took", "without an answer")
    for judged in night.entries:
        entry = judged.entry
        table.add_row(
            _text(entry.name),
            words.count(entry.calls),
            words.count(entry.cached_calls),
            words.money(entry.cost_usd, entry.calls),
            seconds(entry.p50_s),
            seconds(entry.p95_s),
            words.duration(entry.seconds),
            _text(words.lost(entry)),
        )
    return table


def _print_trouble(console: Console, judged: Judged) -> None:
    entry = judged.entry
    if not entry.problem and not entry.continue_with:
        return
    console.print(f"\n[red]✗[/] [bold]{_text(entry.name)}[/]", soft_wrap=True)
    if entry.problem:
        console.print(f"  {_text(entry.problem)}", soft_wrap=True)
    if entry.continue_with:
        console.print(f"  {words.what_continues(entry)}\n  {_text(entry.continue_with)}", soft_wrap=True)


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _text(text: str) -> str:
    return escape(visible(text))
