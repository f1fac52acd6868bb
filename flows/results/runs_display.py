"""Terminal table of runs."""

from collections.abc import Sequence
from typing import TextIO

from tasks.core.wording import counts, percent
from tasks.documents.terminal import literal, make_grid, open_console, show
from tasks.settings.evaluation import labels_in_words
from tasks.tracking.evaluation import DATABASES_CHANGED, ORACLE, REROLLED, TRANSLATED
from tasks.tracking.run_record import RunHeader

SCORE, NAMES = ("EX", "right"), ("benchmark", "backbone", "pipeline")
"""Columns that are shown on a terminal of any width, beside the run's id."""


def print_runs(runs: Sequence[RunHeader], limit: int, stream: TextIO) -> None:
    """Print a table of runs, newest first, and how many more there are."""
    console = open_console(stream)
    others = ("rule", "started (UTC)")
    shown = make_grid("", "run", *SCORE, *NAMES, *others, texts=NAMES)
    shown.columns[0].no_wrap = True
    for run in runs[:limit]:
        shown.add_row(
            run.run_id,
            percent(run.accuracy),
            counts(run.accuracy),
            *map(literal, (run.benchmark, run.backbone)),
            _what(run),
            literal(run.rule),
            f"{run.started:%Y-%m-%d %H:%M}",
        )
    show(console, shown, keep=1 + len(SCORE) + len(NAMES))
    if len(runs) > limit:
        console.print(f"[dim]the latest {limit:,} of {len(runs):,}; --limit shows more[/]")


def _what(run: RunHeader) -> str:
    """Return the pipeline, its end where it is not complete, settings that differ, and what the user wrote on it."""
    more = (run.tags.get("changed", ""), labels_in_words(run.tags))
    lines = (literal(run.pipeline), _status(run), *(f"[dim]{literal(each)}[/]" for each in more if each))
    return "\n".join(filter(None, lines))


def _status(run: RunHeader) -> str:
    """Return a run's status, with the tags that exclude it from ranking; "" of a complete run without any."""
    tags = [tag for tag in (ORACLE, REROLLED, TRANSLATED, DATABASES_CHANGED) if tag in run.tags]
    unanswered = [f"{run.unanswered:,} unanswered"] if run.unanswered else []
    status = ", ".join([run.status, *unanswered, *tags])
    return "" if status == "complete" else f"[yellow]{literal(status)}[/]"
