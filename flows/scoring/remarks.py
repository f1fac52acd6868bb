"""What the scores of a file of predictions say about the file."""

import re
from collections import Counter

from tasks.scoring.report import Report, is_right

MOST, FEWEST = 0.8, 5
"""Share of answers that fail alike, and number of answers, from which on the file is suspected."""


def about_same_failure(report: Report) -> tuple[str, ...]:
    """Say with which message nearly all predictions fail, where they do: then the file is at fault, not the system."""
    answered = [row for row in report.rows if row.executable and row.outcome.sql]
    wrong = [row for row in answered if row.final.status == "error" and not is_right(row.final, report.rule)]
    failed = Counter(alike(row.final.error) for row in wrong)
    if len(answered) < FEWEST or not failed:
        return ()
    message, count = failed.most_common(1)[0]
    if count < MOST * len(answered):
        return ()
    first = next(row for row in wrong if alike(row.final.error) == message)
    return (
        f"{count:,} of {len(answered):,} predictions fail in the same way ({first.final.error}): the SQL of question "
        f"{first.question.id} begins with {(first.outcome.sql or '')[:40]!r}. If that is no SQL, --unwrap or "
        "--sql-column may help.",
    )


def alike(message: str) -> str:
    """Return a database's message without the names and texts it quotes.

    >>> alike('near "concert_singer": syntax error')
    'near "": syntax error'
    """
    return re.sub(r'"[^"]*"|`[^`]*`', '""', re.sub(r"no such (column|table): .*", r"no such \1", message))
