"""Terminal table of runs."""

from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tasks.scoring.report import Ratio
from tasks.tracking.ranking import ORACLE, REROLLED
from tasks.tracking.warehouse.runs import RunHeader
from tasks.wording import counts, percent

WIDE = 240
"""Width if the output is not a terminal, so that nothing is truncated."""


def print_runs(runs: Sequence[RunHeader], limit: int, stream: TextIO) -> None:
    """Print a table of runs, newest first, and how many more there are."""
    console = Console(file=stream, highlight=False, width=None if stream.isatty() else WIDE)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("run", no_wrap=True)
    table.add_column("started (UTC)", no_wrap=True)
    for name in ("benchmark", "backbone", "pipeline"):
        table.add_column(name, overflow="fold")
    table.add_column("EX", justify="right", no_wrap=True)
    table.add_column("right", justify="right", no_wrap=True)
    table.add_column("rule")
    table.add_column("status", no_wrap=True)
    for run in runs[:limit]:
        ex = None if run.ex_correct is None or run.ex_total is None else Ratio(run.ex_correct, run.ex_total)
        table.add_row(
            run.run_id,
            f"{run.started:%Y-%m-%d %H:%M}",
            escape(run.benchmark),
            escape(run.backbone),
            escape(run.pipeline),
            percent(ex),
            counts(ex),
            escape(run.rule),
            _status(run),
        )
    console.print(table)
    if len(runs) > limit:
        console.print(f"[dim]the latest {limit:,} of {len(runs):,}; --limit shows more[/]")


def _status(run: RunHeader) -> str:
    """Return a run's status, with the tags that exclude it from ranking."""
    tags = [tag for tag in (ORACLE, REROLLED) if tag in run.tags]
    status = ", ".join([run.status, *tags])
    return status if status == "complete" else f"[yellow]{escape(status)}[/]"
