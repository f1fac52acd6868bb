"""Output of one question's answer."""

from typing import Any, TextIO

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Column, Table
from rich.text import Text

from flows.answer.answering import Answered
from tasks.core.records import Execution
from tasks.core.wording import counted
from tasks.documents.terminal import fits, literal, open_console
from tasks.documents.text import visible


def print_answer(answered: Answered, stream: TextIO) -> None:
    """Print the SQL, its result and the remarks."""
    terminal = stream.isatty()
    console = open_console(stream)
    outcome, execution = answered.outcome, answered.execution
    if answered.remark:
        console.print(f"[bold yellow]![/] {literal(answered.remark)}\n", soft_wrap=False)
    if outcome.failure:
        console.print(f"[red]No answer:[/] {literal(outcome.failure.message)}")
        return
    if outcome.sql is None or execution is None:
        console.print("[red]No answer:[/] the backbone's replies held no SQL.")
        return
    sql = visible(outcome.sql)
    if terminal:
        console.print(Syntax(sql, "sql", background_color="default", word_wrap=True))
    else:
        stream.write(f"{sql}\n")  # Rich would replace its tabs
    console.print()
    if not execution.ok:
        console.print(f"[red]It does not run:[/] {literal(execution.error or execution.status)}")
        return
    table = _table(execution)
    if fits(console, table):
        console.print(table)
    else:
        _print_records(console, execution)
    shown, total = len(execution.rows), execution.row_count or 0
    rows = counted(total, "row")
    console.print(f"\n[dim]{rows}{f', the first {shown:,} shown' if shown < total else ''}[/]")


def _table(execution: Execution) -> Table:
    headers = (Column(Text(_shown(name))) for name in execution.columns)
    table = Table(*headers, box=None, pad_edge=False, header_style="bold")
    for row in execution.rows:
        table.add_row(*(Text(_shown(value)) for value in row))
    return table


def _print_records(console: Console, execution: Execution) -> None:
    """Print a line for each value, because a table wider than the terminal cannot be read."""
    columns = [_shown(name) for name in execution.columns]
    width = max(map(len, columns))
    for number, row in enumerate(execution.rows, 1):
        console.print(f"[dim]row {number}[/]")
        for name, value in zip(columns, row, strict=True):
            console.print(Text.assemble((name.ljust(width), "bold"), "  ", _shown(value)), soft_wrap=True)


def _shown(value: Any) -> str:
    """Return the text of a value on one line."""
    return "NULL" if value is None else visible(str(value)).replace("\n", "\\n").replace("\t", "\\t")


def as_object(answered: Answered) -> dict[str, Any]:
    """Return the object that `answer --json` prints."""
    outcome, execution = answered.outcome, answered.execution
    calls = [call for record in outcome.stages for call in record.calls]
    return {
        "question": answered.question.text,
        "sql": outcome.sql,
        "remark": answered.remark or None,
        "status": execution.status if execution else "no_answer",
        "error": (execution.error if execution else None)
        or (outcome.failure.message if outcome.failure else None),
        "columns": list(execution.columns) if execution else [],
        "rows": execution.rows if execution else [],
        "row_count": execution.row_count if execution else None,
        "stages": [{"name": candidate.stage, "sql": candidate.sql} for candidate in outcome.candidates],
        "calls": sum(not call.cached for call in calls),
        "cached_calls": sum(call.cached for call in calls),
        "notes": [
            *outcome.notes,
            *(f"{record.label}: {note}" for record in outcome.stages for note in record.notes),
        ],
    }
