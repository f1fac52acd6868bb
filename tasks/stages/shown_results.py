"""How the result of a query is shown to a backbone."""

from collections.abc import Iterable
from dataclasses import dataclass

from tasks.core.records import Execution
from tasks.database.rendering import BREAKS, LONGEST_VALUE

EMPTY = "No rows."
"""How a result without rows is shown."""
LONGEST_ERROR = 500
"""Characters of an error that are shown; SQLite quotes what it cannot read, up to the whole statement."""


@dataclass(frozen=True, slots=True)
class ExecutedSql:
    """A SQL and what it returned, as a prompt shows them; the SQL is "" where a reply held none."""

    sql: str
    result: str


def show_result(execution: Execution | None, rows: int, *, counts: bool = False) -> str:
    """Return the first rows of a result as text, or the error, or the time-out (RSL-SQL, section 3.3).

    The text depends on the SQL and the database only, never on how long anything took: it goes into a prompt, and
    for a prompt that varies the reply cache holds no reply.

    Args:
        execution: the execution; None when there was no SQL.
        rows: rows shown at most.
        counts: also say how many rows there are (acl).
    """
    if execution is None:
        return "There is no query."
    if execution.status == "timeout":
        return "Time-out: the query took too long and was stopped."
    if not execution.ok:
        return f"Error: {_line(execution.error, LONGEST_ERROR)}"
    if not execution.row_count:
        return EMPTY
    shown = execution.rows[:rows]
    lines = [_row(execution.columns), *(_row(row) for row in shown)]
    if counts:
        total = f"{execution.row_count} row{'s' if execution.row_count > 1 else ''}"
        lines.append(
            f"({total}, first {len(shown)} shown)" if execution.row_count > len(shown) else f"({total})"
        )
    return "\n".join(lines)


def outcome_of(execution: Execution | None) -> str:
    """Return "ok", "empty", "error", "timeout", "too_large", or "no_answer" when there was no SQL."""
    if execution is None:
        return "no_answer"
    return "empty" if execution.empty else execution.status


def _row(values: Iterable[object]) -> str:
    return " | ".join(_cell(value) for value in values)


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return _line(str(value), LONGEST_VALUE)


def _line(text: str, longest: int) -> str:
    text = BREAKS.sub(" ", text)
    return text if len(text) <= longest else f"{text[:longest]}..."
