"""Restrictions on a SQLite connection that executes untrusted SQL: reading only, bounded size and time."""

import sqlite3
import time
from collections.abc import Callable

from tasks.database.limits import MIB, Limits

TICK = 1000
"""Steps of SQLite's virtual machine between two reads of the clock: some 20 µs unless a step is heavy."""


def restrict(connection: sqlite3.Connection, limits: Limits, authorize: Callable[..., int]) -> None:
    """Restrict a connection to reading, and bound what reading can cost.

    Sorting and materialising stay in memory, so that a query cannot fill the disk either.
    """
    for pragma in (
        "trusted_schema = OFF",
        "query_only = ON",
        "temp_store = MEMORY",
        f"hard_heap_limit = {limits.memory_mb * MIB // 2}",
    ):
        connection.execute(f"PRAGMA {pragma}").close()
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.max_value_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, limits.max_sql_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, limits.max_expression_depth)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, limits.max_like_pattern_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
    connection.set_authorizer(authorize)


class Clock:
    """Progress handler that counts SQLite's steps and stops the query at its deadline.

    Attributes:
        every: steps between two calls of the handler.
    """

    def __init__(self, deadline: float, every: int) -> None:
        self.every = every
        self._deadline = deadline
        self._ticks = 0

    @property
    def steps(self) -> int:
        """Steps so far, to a full `every`."""
        return self._ticks * self.every

    def tick(self) -> int:
        """Count a call of the progress handler; a non-zero result makes SQLite stop the query."""
        self._ticks += 1
        return time.monotonic() > self._deadline


def tolerant_text(raw: bytes) -> str:
    r"""Read text that may not be UTF-8; a bad byte becomes `\xNN`, so different values stay different."""
    return raw.decode("utf-8", "backslashreplace")
