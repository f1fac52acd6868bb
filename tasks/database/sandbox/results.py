"""Results of queries inside a worker, and those that it keeps because the same SQL needs no second execution.

Golds are compared with many predictions, and many predictions are the gold word for word.
"""

import re
import sys
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any

from tasks.core.records import Status
from tasks.database.limits import MIB

MOST_BYTES = 2 * MIB
"""Bytes of what is kept for one database."""
LARGEST_BYTES = MOST_BYTES // 16
"""Bytes of one result; a larger one is not kept."""
OVERHEAD = 512
"""Bytes of a result without rows."""

_WORDS = r"random|randomblob|current_\w+|localtime|localtimestamp|utc_\w+|tablesample|using\s+sample"
_CALLS = (
    r"now|rand|random_\w+|sysdate|curdate|curtime|today|uuid\w*|gen_random_\w+|timeofday|get_current_\w+|txid_\w+"
    r"|pg_current_\w+|connection_id|last_insert_id"
)
# one group after \b: most places of a SQL fail there at once
_VOLATILE = re.compile(
    rf"\b(?:(?:{_WORDS})\b|(?:{_CALLS})\s*\("
    r"|(?:date|time|datetime|julianday|unixepoch)\s*\(\s*\)|(?:strftime|age)\s*\([^,()]*[()])"
    r"|_timestamp\s*\(|['\"](?:now|localtime|today|tomorrow|yesterday)['\"]"
)


@dataclass(frozen=True, slots=True)
class Result:
    """The whole result of one query."""

    status: Status  # "ok", "error", "timeout" or "too_large", as in `tasks.core.records.Execution`
    columns: tuple[str, ...] = ()  # names of the result's columns
    # all rows, or as many as were to be kept; [] unless ok
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    row_count: int | None = None  # rows of the whole result; None unless ok
    error: str = ""  # the engine's own message, or one sentence of the sandbox; "" when ok
    seconds: float = 0.0  # time spent executing and fetching, without the sandbox's own book-keeping
    # seconds of these until the engine had begun to give rows, without fetching them; 0.0 unless ok
    executing: float = 0.0
    steps: int | None = None  # steps of the engine; None unless requested, ok, and counted by it
    size: int = 0  # bytes that all rows take in Python

    @property
    def ok(self) -> bool:
        """Whether the query ran to its end."""
        return self.status == "ok"


def size_of(rows: list[tuple[Any, ...]]) -> int:
    """Return the bytes that rows take in Python, at least one row."""
    return sum(map(sys.getsizeof, chain.from_iterable(rows))) + len(rows) * sys.getsizeof(rows[0])


@lru_cache(maxsize=4096)
def is_volatile(sql: str) -> bool:
    """Return whether the next execution of a SQL may give another result: it asks for the time or random numbers.

    >>> is_volatile("SELECT date('now')"), is_volatile("SELECT date(birthday) FROM singer")
    (True, False)
    """
    return _VOLATILE.search(sql.lower()) is not None


class KeptResults:
    """Whole results by their SQL; the least recently used are dropped for the next."""

    def __init__(self) -> None:
        self._results: OrderedDict[str, Result] = OrderedDict()
        self._bytes = 0

    def get(self, sql: str, timeout_s: float) -> Result | None:
        """Return the result of a SQL; None where it is not kept, or took longer than this limit."""
        known = self._results.get(sql)
        if known is None or known.seconds > timeout_s:
            return None
        self._results.move_to_end(sql)
        return known

    def put(self, sql: str, result: Result) -> None:
        """Keep a whole result, unless it is large or the next execution may give another."""
        size = _bytes_of(sql, result)
        if not result.ok or size > LARGEST_BYTES or sql in self._results or is_volatile(sql):
            return
        self._results[sql] = result
        self._bytes += size
        while self._bytes > MOST_BYTES:
            self._bytes -= _bytes_of(*self._results.popitem(last=False))

    def clear(self) -> None:
        """Forget every result."""
        self._results.clear()
        self._bytes = 0


def _bytes_of(sql: str, result: Result) -> int:
    return len(sql) + result.size + OVERHEAD
