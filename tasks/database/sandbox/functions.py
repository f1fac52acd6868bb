"""Functions that run inside a worker process, with a session on one database."""

from typing import Any

from tasks.core.records import Execution
from tasks.database.limits import MIB
from tasks.database.plain import plain_row
from tasks.database.sandbox.results import size_of
from tasks.database.sandbox.session import Session

SHOWN_BYTES = 16 * MIB
"""Bytes of the first rows that leave the worker."""


def first_rows(session: Session, sql: str, rows: int, timeout_s: float | None) -> Execution:
    """Run a query to its end and return its first rows and their number; fewer rows where they are large."""
    result = session.run(sql, timeout_s=timeout_s, keep_rows=rows)
    kept: list[tuple[Any, ...]] = []
    size = 0
    for row in map(plain_row, result.rows):
        size += size_of([row])
        if size > SHOWN_BYTES:
            break
        kept.append(row)
    return Execution(
        result.status, result.columns, tuple(kept), result.row_count, result.error, result.seconds
    )


def same_rows(session: Session, sql: str, other: str) -> bool:
    """Return whether two statements both run and return the same set of rows."""
    first, second = session.run(sql), session.run(other)
    return first.ok and second.ok and set(first.rows) == set(second.rows)
