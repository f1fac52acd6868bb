"""What the model does with queries that were tried: choose one, write another, say why one fails."""

import re
from dataclasses import replace

from tasks.backbone.offline.prompt.reading import Attempt, Prompt
from tasks.backbone.offline.sql.query import Query
from tasks.backbone.offline.writing import read_query

_FAILED = re.compile(r"error|time-?out|timed out|there is no query", re.IGNORECASE)
_EMPTY = re.compile(r"(?:no rows|empty|\(?0 rows\)?|)\.?", re.IGNORECASE)
_FAILURE = re.compile(r"(?:Error|Time-out): ")


def correct(prompt: Prompt) -> str:
    """Return the first form of the model's own reading that was not tried, else the query that was given."""
    tried = [*(attempt.sql for attempt in prompt.attempts), *prompt.earlier]
    own = read_query(prompt)
    for query in (own, *own.simpler()) if own else ():
        sql = query.sql(prompt.schema)
        if not any(same_sql(sql, other) for other in tried):
            return sql
    return tried[0].strip() if tried else ""


def select(prompt: Prompt) -> str:
    """Return the query whose result surprises least, the last of those that tie; a new one when none runs."""
    if all(failed(attempt) for attempt in prompt.attempts):
        return correct(prompt)
    own = read_query(prompt)
    return min(reversed(prompt.attempts), key=lambda attempt: _surprise(attempt, own)).sql.strip()


def compare(prompt: Prompt) -> int:
    """Return the number, from 1, of the query whose result surprises least, the first of those that tie."""
    own = read_query(prompt)
    ranked = sorted(enumerate(prompt.attempts, 1), key=lambda each: _surprise(each[1], own))
    return ranked[0][0] if ranked else 1


def correct_by_feedback(prompt: Prompt) -> str:
    """Return a query that has not been tried after a failure, else the one that was given."""
    failure = _FAILURE.search(prompt.feedback)
    if prompt.current_sql and not failure:
        return prompt.current_sql
    attempts = (Attempt(prompt.current_sql, ""),) if prompt.current_sql else ()
    return correct(replace(prompt, attempts=attempts, earlier=()))


def reason(prompt: Prompt) -> str:
    """Return the database's message about the last query as the reason why it fails."""
    message = prompt.attempts[-1].result if prompt.attempts else "There is no query."
    return f"The database says: {message.removeprefix('Error:').strip().rstrip('.')}."


def failed(attempt: Attempt) -> bool:
    """Whether a query did not run to its end."""
    return not attempt.sql.strip() or bool(_FAILED.match(attempt.result.strip()))


def same_sql(left: str, right: str) -> bool:
    """Whether two texts are the same query but for blanks, case and a final semicolon."""
    one, other = (" ".join(text.split()).strip(" ;").lower() for text in (left, right))
    return one == other


def _surprise(attempt: Attempt, own: Query | None) -> float:
    """Return how odd a result is: a failure, no row, only NULL or 0, other columns than asked for."""
    if failed(attempt):
        return 100.0
    if _EMPTY.fullmatch(attempt.result.strip()):
        return 50.0
    header, *rows = attempt.result.strip().splitlines()
    cells = {cell.strip() for row in rows for cell in row.split(" | ")}
    odd = 20.0 if cells <= {"NULL", ""} else 10.0 if cells == {"0"} else 0.0
    return odd + (2.0 * abs(len(header.split(" | ")) - len(own.select)) if own else 0.0)
