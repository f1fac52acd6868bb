"""Terminal output of the questions of a run that are not right: a line for each."""

from collections.abc import Mapping, Sequence
from typing import TextIO

from flows.show.run_view import RunView, causes_of
from tasks.core.wording import counted
from tasks.documents.terminal import literal, open_console
from tasks.documents.text import visible
from tasks.scoring.report import QuestionScore
from tasks.tracking.predictions import status


def print_lists(
    view: RunView, listed: Mapping[str, Sequence[QuestionScore]], limit: int, stream: TextIO
) -> None:
    """Print a line for each of the first questions by "wrong" and "unanswered", and how to see one of them."""
    console = open_console(stream)
    for kind, rows in listed.items():
        console.print(f"\n[bold]{counted(len(rows), 'question')} {kind}[/] of {view.record.questions:,}")
        shown = rows[:limit]
        for line in _question_lines(view, shown, console.width):
            console.print(line, markup=False)
        if len(rows) > limit:
            console.print(f"[dim]the first {limit:,} of {len(rows):,}; --limit shows more[/]")
    if view.problem:
        console.print(f"[yellow]![/] The causes cannot be read: {literal(view.problem)}")
    run_id = view.stored.run.run_id
    first = next((row.question.id for rows in listed.values() for row in rows), None)
    if first is not None:
        console.print(f"\ncrosscheck show {run_id} {literal(first)}")
    if view.record.retryable:
        console.print(f"crosscheck rerun {run_id}")


def _question_lines(view: RunView, rows: Sequence[QuestionScore], width: int) -> list[str]:
    """Return a line of at most `width` for each question: id, database, causes or status, and its text."""
    facts = [
        (
            row.question.id,
            _cut(row.question.database_id, max(18, width // 10)),
            _cut(_why(view, row), max(12, width * 3 // 10)),
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*facts, strict=True)]
    lines = []
    for row, cells in zip(rows, facts, strict=True):
        head = visible("".join(f"{cell:<{size}}  " for cell, size in zip(cells, widths, strict=True)))
        text = " ".join(visible(row.question.text).split())
        lines.append((head + _cut(text, width - len(head))).rstrip())
    return lines


def _why(view: RunView, row: QuestionScore) -> str:
    failure = row.outcome.failure
    return failure.kind if failure else ", ".join(causes_of(view, row)) or status(row)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"
