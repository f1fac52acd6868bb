"""SQL on one database inside a worker process of the sandbox.

Model-written SQL is untrusted. What protects the machine from it, outermost last: the engine's connection, which only
reads; caps on rows and bytes; a deadline that the engine keeps, and an alarm that ends the process where it does not;
the worker's memory limit, and its parent, which kills it.

Golds are compared with many predictions, and many predictions are the gold word for word: a worker keeps small results,
so that the same SQL needs no second execution.
"""

import os
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import chain
from typing import Any, NamedTuple, get_args

from tasks.core.errors import DatabaseUnavailableError, DataError, ExtensionError
from tasks.core.records import Execution, Status
from tasks.core.registry import is_shipped, of_type
from tasks.core.wording import rounded
from tasks.database.database import require_content
from tasks.database.engine import Connection, Cursor, QueryDeadline, engine_of
from tasks.database.limits import MIB, OUT_OF_MEMORY, Limits
from tasks.database.location import Content, Location, unreadable
from tasks.database.plain import exact_row, plain_row

MAX_KEPT_BYTES = 2 * MIB
"""Bytes of what is kept for one database."""
MAX_RESULT_BYTES = MAX_KEPT_BYTES // 16
"""Bytes of one result; a larger one is not kept."""
OVERHEAD = 512
"""Bytes of a result without rows."""

_WORDS = r"random|randomblob|current_\w+|localtime|localtimestamp|utc_\w+|tablesample|using\s+sample"
_CALLS = (
    r"now|rand|random_\w+|sysdate|curdate|curtime|today|uuid\w*|gen_random_\w+|timeofday|get_current_\w+|txid_\w+"
    r"|pg_current_\w+|connection_id|last_insert_id|array_shuffle|array_sample"
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
        result = self._results.get(sql)
        if result is None or result.seconds > timeout_s:
            return None
        self._results.move_to_end(sql)
        return result

    def put(self, sql: str, result: Result) -> None:
        """Keep a whole result, unless it is large or the next execution may give another."""
        size = _bytes_of(sql, result)
        if not result.ok or size > MAX_RESULT_BYTES or sql in self._results or is_volatile(sql):
            return
        self._results[sql] = result
        self._bytes += size
        while self._bytes > MAX_KEPT_BYTES:
            self._bytes -= _bytes_of(*self._results.popitem(last=False))

    def clear(self) -> None:
        """Forget every result."""
        self._results.clear()
        self._bytes = 0


def _bytes_of(sql: str, result: Result) -> int:
    return len(sql) + result.size + OVERHEAD


ATTEMPTS = 2
"""Executions of a query that meets a change of the database's files."""
COARSE = 100
"""Steps between two counts of a query that is counted."""
EXACT_BELOW = 100_000
"""Steps below which a query is counted again, one by one."""
FIRST_BATCH = 16
MAX_BATCH = 1024
BATCH_BYTES = 4 * MIB
"""Bytes that the next batch of rows may take, going by those before."""


class _Query(NamedTuple):
    """One run of one statement."""

    sql: str
    timeout: float  # seconds, for messages
    deadline: QueryDeadline
    keep_rows: int | None


class SqlSession:
    """Runs SQL on one database. The connection opens with the first query and again when the database changes."""

    def __init__(self, location: Location, limits: Limits, alarm: Callable[[float], object]) -> None:
        """Before each query, `alarm` is called with the seconds after which the process must end; after it, with 0."""
        self.location = location
        self.limits = limits
        self.exhausted = False  # whether memory ran out at some time
        self._alarm = alarm
        self._engine = engine_of(location)
        self._connection: Connection | None = None
        self._state: tuple[Any, ...] = ()  # of the database's files when the connection was opened
        self._expected = Content("")  # the content that queries are for
        self._opened = self._expected  # the content that the open connection was checked for
        self._kept: KeptResults | None = None if self._engine.server else KeptResults()
        self._budget_ends = float("inf")  # when the time of several queries together is over

    @property
    def spent(self) -> bool:
        """Whether the process had better be replaced: memory ran out at some time, or half of its limit is mapped."""
        return self.exhausted or address_space() > self.limits.memory_mb * MIB // 2

    def grant(self, seconds: float) -> None:
        """Limit the following queries to so many seconds together, beside the limit of each."""
        self._budget_ends = time.monotonic() + seconds

    def expect(self, content: Content) -> None:
        """Refuse to run queries once the database holds anything else."""
        self._expected = content

    def run(
        self,
        sql: str,
        *,
        timeout_s: float | None = None,
        keep_rows: int | None = None,
        count_steps: bool = False,
    ) -> Result:
        """Run one statement to its end, within the limits' own time unless another is given; never raises for the SQL.

        With `keep_rows`, only so many first rows are kept and the rest is counted. `count_steps` counts the steps of
        SQLite's virtual machine, which slows the query down; other engines have none. The number is exact below
        100,000, to the hundred above, and from SQLite 3.41 on includes a few steps of preparing the statement.
        """
        if objection := self._objection(sql):
            return Result("error", error=objection)
        for _ in range(ATTEMPTS):
            connection = self._open()
            now = time.monotonic()
            timeout = self.limits.timeout_s if timeout_s is None else timeout_s
            timeout = max(0.0, min(timeout, self._budget_ends - now))
            deadline = QueryDeadline(now + timeout, COARSE if count_steps else None)
            result = self._run_alarmed(connection, _Query(sql, timeout, deadline, keep_rows))
            # A short query is executed again to count every single step.
            if result.ok and result.steps is not None and result.steps < EXACT_BELOW:
                exact = self._run_alarmed(
                    connection, _Query(sql, timeout, QueryDeadline(now + timeout, 1), 0)
                )
                result = replace(result, steps=exact.steps) if exact.ok else exact
            if self._engine.state(self.location) == self._state:
                return result
        raise unreadable(self.location, "it changes while queries read it")

    def run_known(self, sql: str, *, timeout_s: float, keep: bool = False) -> Result:
        """Run one statement, or return the kept result of the same SQL, if the database has not changed since.

        A kept result of a statement that took longer than `timeout_s` is not used. With `keep`, the result is kept for
        later calls, if it is small and every execution gives the same one.
        """
        if self._kept is None:  # a server: its connection does not tell whether the database has changed
            return self.run(sql, timeout_s=timeout_s)
        kept = self._kept.get(sql, timeout_s)
        if kept is not None and self._is_open:
            return kept
        result = self.run(sql, timeout_s=timeout_s)
        if keep:
            self._kept.put(sql, result)
        return result

    def close(self) -> None:
        """Close the connection and forget what was kept; the next query opens it again."""
        if self._kept is not None:
            self._kept.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _objection(self, sql: str) -> str:
        """Return why a SQL is not sent to the database; "" where it is."""
        if "\x00" in sql:
            return "The SQL holds a NUL character."
        try:
            size = len(sql.encode())
        except UnicodeEncodeError:
            return "The SQL holds characters that are not valid Unicode."
        if size > self.limits.max_sql_bytes:
            return f"The SQL is {size:,} bytes long; the sandbox takes {self.limits.max_sql_bytes:,}."
        return ""

    def _run_alarmed(self, connection: Connection, query: _Query) -> Result:
        self._alarm(query.deadline.left + self.limits.overrun_s)
        try:
            return self._run_guarded(connection, query)
        finally:
            self._alarm(0)

    def _run_guarded(self, connection: Connection, query: _Query) -> Result:
        """Run a query, once more if its connection had failed; an error of the query itself becomes its result."""
        started = time.perf_counter()
        try:
            try:
                return self._fetch(connection, query)
            except connection.errors as error:
                if not connection.recover(error):  # not the connection's error
                    raise
                return self._fetch(connection, query)
        except MemoryError:
            self.exhausted = True
            return Result("too_large", error=OUT_OF_MEMORY, seconds=time.perf_counter() - started)
        except DatabaseUnavailableError:
            self.close()
            raise
        except connection.errors as error:
            explained = connection.explain(error)
            if not _is_explanation(explained):
                raise ExtensionError(
                    f"{type(connection).__name__}.explain returned {explained!r}, not a status and a sentence"
                ) from error
            status, message = explained
            self.exhausted = self.exhausted or connection.exhausted
            if status == "timeout":
                message = message or _stopped(query)
            return Result(status, error=message, seconds=time.perf_counter() - started)

    def _fetch(self, connection: Connection, query: _Query) -> Result:
        started = time.perf_counter()
        cursor = connection.execute(query.sql, query.deadline)
        of_type(Cursor, cursor, f"{type(connection).__name__}.execute returned")
        of_type(tuple | None, cursor.columns, f"{type(cursor).__name__}.columns is")
        try:
            return self._read(cursor, query, started, execution_s=time.perf_counter() - started)
        finally:
            cursor.close()

    def _read(self, cursor: Cursor, query: _Query, started: float, execution_s: float) -> Result:
        """Read the rows of a result in batches that grow, until it is complete or exceeds a limit."""
        if cursor.columns is None:
            return Result("error", error="There is no statement to run: the SQL is empty or a comment.")
        batch = _fetched(cursor, FIRST_BATCH)
        seconds = time.perf_counter() - started
        keep = query.keep_rows
        rows: list[tuple[Any, ...]] = []
        count = size = 0
        next_batch = FIRST_BATCH
        while batch:
            count += len(batch)
            size += size_of(batch)
            if error := self._excess(count, size):
                return Result("too_large", cursor.columns, error=error, seconds=seconds)
            if keep is None:
                rows += batch
            elif len(rows) < keep:
                rows += batch[: keep - len(rows)]
            fits_in_bytes = BATCH_BYTES * count // max(1, size)  # rows of the mean size so far
            next_batch = max(1, min(2 * next_batch, MAX_BATCH, fits_in_bytes))
            started = time.perf_counter()
            batch = _fetched(cursor, next_batch)
            seconds += time.perf_counter() - started
            if query.deadline.past:
                return Result("timeout", error=_stopped(query), seconds=seconds)
        steps = cursor.steps if query.deadline.count_every else None
        return Result(
            status="ok",
            columns=cursor.columns,
            rows=rows,
            row_count=count,
            seconds=seconds,
            executing=execution_s,
            steps=steps,
            size=size,
        )

    def _excess(self, rows: int, size: int) -> str:
        if rows > self.limits.max_rows:
            return f"The result has more than {self.limits.max_rows:,} rows."
        if size > self.limits.max_bytes:
            return f"The result takes more than {self.limits.max_bytes / MIB:g} MiB."
        return ""

    @property
    def _is_open(self) -> bool:
        """Whether the connection is open, and to the content that is expected."""
        return (
            self._connection is not None
            and self._connection.current()
            and self._opened == self._expected
            and self._engine.state(self.location) == self._state
        )

    def _open(self) -> Connection:
        """Return the connection, opened again if the content has changed; the queries' budget grows by that time."""
        if self._connection is not None and self._is_open:
            return self._connection
        self.close()
        started = time.monotonic()
        self._state = self._engine.state(self.location)
        require_content(self.location, self._expected)
        try:
            connection = self._engine.connect(self.location, self.limits)
        except (DataError, OSError) as error:
            raise unreadable(self.location, error) from error
        self._connection = of_type(Connection, connection, f"{type(self._engine).__name__}.connect returned")
        self._opened = self._expected
        self._budget_ends += time.monotonic() - started
        return self._connection


def _fetched(cursor: Cursor, count: int) -> list[tuple[Any, ...]]:
    """Return the next rows; those of an engine of a package are checked, and their values made plain."""
    rows = cursor.fetch(count)
    if is_shipped(type(cursor)):
        return rows
    origin = f"{type(cursor).__name__}.fetch returned"
    return [exact_row(of_type(tuple, row, f"{origin}, as a row,")) for row in of_type(list, rows, origin)]


def _is_explanation(explained: Any) -> bool:
    return (
        isinstance(explained, tuple)
        and [type(part) for part in explained] == [str, str]
        and explained[0] in get_args(Status)
    )


def _stopped(query: _Query) -> str:
    return f"The query did not finish within {rounded(query.timeout, 3)} s and was stopped."


def address_space() -> int:
    """Return the bytes of memory mapped now; 0 where the system does not report it."""
    try:
        return int(os.pread(_statm(), 64, 0).split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


@cache
def _statm() -> int:
    return os.open("/proc/self/statm", os.O_RDONLY)


SHOWN_BYTES = 16 * MIB
"""Bytes of the first rows that leave the worker."""


def first_rows(session: SqlSession, sql: str, rows: int, timeout_s: float | None) -> Execution:
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


def same_rows(session: SqlSession, sql: str, other: str) -> bool:
    """Return whether two statements both run and return the same set of rows."""
    first, second = session.run(sql), session.run(other)
    return first.ok and second.ok and set(first.rows) == set(second.rows)
