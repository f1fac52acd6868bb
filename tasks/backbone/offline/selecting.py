"""Choosing between queries by what they returned."""

import re

from tasks.backbone.offline.correcting import correct, same_sql
from tasks.backbone.offline.query import Query, render
from tasks.backbone.offline.reading import Attempt, Prompt
from tasks.backbone.offline.writing import read_query

_FAILED = re.compile(r"^(?:error|time-?out|there is no query|timed out)", re.IGNORECASE)
_EMPTY = re.compile(r"^(?:no rows|empty|\(0 rows\)|0 rows|)$", re.IGNORECASE)


def failed(attempt: Attempt) -> bool:
    """Whether a query did not run to its end."""
    return not attempt.sql.strip() or bool(_FAILED.match(attempt.result.strip()))


def empty(attempt: Attempt) -> bool:
    """Whether a query returned no row."""
    return bool(_EMPTY.match(attempt.result.strip().rstrip(".")))


def select(prompt: Prompt) -> str:
    """Return the query whose result surprises least, the last of those that tie; a new one when none runs."""
    if all(failed(attempt) for attempt in prompt.attempts):
        return correct(prompt)
    own = read_query(prompt)
    best = min(reversed(prompt.attempts), key=lambda attempt: _surprise(attempt, own, prompt))
    return best.sql.strip()


def _surprise(attempt: Attempt, own: Query | None, prompt: Prompt) -> float:
    """Weigh what is odd about a result: a failure, no row, only NULL or 0, other columns than asked for."""
    if failed(attempt):
        return 100.0
    if empty(attempt):
        return 50.0
    header, *rows = attempt.result.strip().splitlines()
    cells = [cell.strip() for row in rows for cell in row.split(" | ")]
    total = 0.0
    if cells and all(cell in ("NULL", "None", "") for cell in cells):
        total += 20.0
    elif cells == ["0"]:
        total += 10.0
    if own is not None:
        total += 2.0 * abs(len(header.split(" | ")) - len(own.select))
        total -= 0.5 if same_sql(attempt.sql, render(own, prompt.schema)) else 0.0
    repeated = len(rows) - len(set(rows))
    return total + (1.0 if len(rows) > 1 and repeated == len(rows) - 1 else 0.0)
