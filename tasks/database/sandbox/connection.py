"""One SQLite database inside a worker process of the sandbox.

Model-written SQL is untrusted. What protects the machine from it, outermost last: a
read-only immutable connection; an authorizer that allows only reading; length limits; a deadline in SQLite's
progress handler; caps on rows and bytes; the worker's memory limit, and its parent, which kills it.
"""

import sqlite3
import sys
import time
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from tasks.database.files import read_only_uri, require_database
from tasks.database.limits import MIB, Limits
from tasks.database.restrictions import TICK, Clock, restrict, tolerant_text
from tasks.database.sandbox.authorizer import refusal
from tasks.errors import DataError
from tasks.records import Execution, Status

COARSE = 100
"""Steps between two counts of a query that is counted."""
EXACT_BELOW = 100_000
"""Steps below which a query is counted again, one by one."""
FIRST_BATCH = 16
LARGEST_BATCH = 1024
OUT_OF_MEMORY = "The query ran out of memory."


@dataclass(frozen=True, slots=True)
class Result:
    """The whole result of one query.

    Attributes:
        status: "ok", "error", "timeout" or "too_large", as in `tasks.records.Execution`.
        columns: names of the result's columns.
        rows: all rows, or as many as were to be kept; [] unless ok.
        row_count: rows of the whole result; None unless ok.
        error: SQLite's own message, or one sentence of the sandbox; "" when ok.
        seconds: time spent executing and fetching, without the sandbox's own book-keeping.
        steps: steps of SQLite's virtual machine; None unless asked for and ok.
    """

    status: Status
    columns: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    row_count: int | None = None
    error: str = ""
    seconds: float = 0.0
    steps: int | None = None

    @property
    def ok(self) -> bool:
        """Whether the query ran to its end."""
        return self.status == "ok"


class Session:
    """Runs SQL on one database. The connection opens with the first query and again when the file changes.

    Attributes:
        path: the database's file.
        limits: what a query may take.
        exhausted: whether memory ran out at some time, so that the process had better be replaced.
    """

    def __init__(self, path: str, limits: Limits) -> None:
        self.path = path
        self.limits = limits
        self.exhausted = False
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, ...] = ()
        self._refused = ""
        self._budget_ends = float("inf")

    def grant(self, seconds: float) -> None:
        """Limit the following queries to so many seconds together, beside the limit of each."""
        self._budget_ends = time.monotonic() + seconds

    def run(
        self,
        sql: str,
        *,
        timeout_s: float | None = None,
        max_rows: int | None = None,
        keep_rows: int | None = None,
        count_steps: bool = False,
    ) -> Result:
        """Run one statement to its end; never raises for anything that the SQL does.

        Args:
            sql: exactly one statement that only reads.
            timeout_s: seconds it may take; None: the limits' own.
            max_rows: rows it may return; None: the limits' own.
            keep_rows: keep only the first rows and count the rest; None: keep all.
            count_steps: count the steps of SQLite's virtual machine: exact below 100,000, to the hundred
                above. It slows the query down, so do not time what is counted. From SQLite 3.41 on, a few
                steps of preparing the statement are among them.
        """
        objection = self._objection(sql)
        if objection:
            return Result("error", error=objection)
        now = time.monotonic()
        timeout = self.limits.timeout_s if timeout_s is None else timeout_s
        timeout = max(0.0, min(timeout, self._budget_ends - now))
        deadline = now + timeout
        clock = Clock(deadline, COARSE if count_steps else TICK)
        cap = self.limits.max_rows if max_rows is None else max_rows
        result = self._guarded(sql, clock, cap, keep_rows, timeout)
        if not (result.ok and count_steps):
            return result
        steps = clock.steps
        if steps < EXACT_BELOW:
            clock = Clock(deadline, 1)
            again = self._guarded(sql, clock, cap, 0, timeout)
            if not again.ok:
                return again
            steps = clock.steps
        return Result("ok", result.columns, result.rows, result.row_count, "", result.seconds, steps)

    def close(self) -> None:
        """Close the connection; the next query opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _objection(self, sql: str) -> str:
        if "\x00" in sql:
            return "The SQL holds a NUL character."
        try:
            size = len(sql.encode())
        except UnicodeEncodeError:
            return "The SQL holds characters that are not valid Unicode."
        if size > self.limits.max_sql_bytes:
            return f"The SQL is {size:,} bytes long; the sandbox takes {self.limits.max_sql_bytes:,}."
        return ""

    def _guarded(self, sql: str, clock: Clock, cap: int, keep: int | None, timeout: float) -> Result:
        self._refused = ""
        started = time.perf_counter()
        try:
            connection = self._open()
            connection.set_progress_handler(clock.tick, clock.every)
            try:
                return self._fetch(connection, sql, clock, cap, keep)
            except sqlite3.OperationalError as error:
                if connection.text_factory is not str or "Could not decode" not in str(error):
                    raise
                connection.text_factory = tolerant_text
                clock.restart()
                return self._fetch(connection, sql, clock, cap, keep)
        except DataError as error:
            return Result("error", error=str(error))
        except MemoryError:
            self.exhausted = True
            return Result("too_large", error=OUT_OF_MEMORY, seconds=time.perf_counter() - started)
        except (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError) as error:
            status, message = self._explain(error, timeout)
            return Result(status, error=message, seconds=time.perf_counter() - started)

    def _fetch(
        self, connection: sqlite3.Connection, sql: str, clock: Clock, cap: int, keep: int | None
    ) -> Result:
        cursor = connection.cursor()
        try:
            started = time.perf_counter()
            cursor.execute(sql)
            if cursor.description is None:
                return Result("error", error="There is no statement to run: the SQL is empty or a comment.")
            batch = cursor.fetchmany(FIRST_BATCH)
            seconds = time.perf_counter() - started
            columns = tuple(entry[0] for entry in cursor.description)
            rows: list[tuple[Any, ...]] = []
            count = size = 0
            wanted = FIRST_BATCH
            while batch:
                count += len(batch)
                size += sum(map(sys.getsizeof, chain.from_iterable(batch))) + len(batch) * sys.getsizeof(
                    batch[0]
                )
                if count > cap:
                    return Result(
                        "too_large", columns, error=f"The result has more than {cap:,} rows.", seconds=seconds
                    )
                if size > self.limits.max_bytes:
                    most = self.limits.max_bytes / MIB
                    return Result(
                        "too_large",
                        columns,
                        error=f"The result takes more than {most:g} MiB.",
                        seconds=seconds,
                    )
                if keep is None:
                    rows += batch
                elif len(rows) < keep:
                    rows += batch[: keep - len(rows)]
                wanted = min(2 * wanted, LARGEST_BATCH)
                started = time.perf_counter()
                batch = cursor.fetchmany(wanted)
                seconds += time.perf_counter() - started
                clock.check()
            return Result("ok", columns, rows, count, seconds=seconds)
        finally:
            cursor.close()

    def _explain(self, error: Exception, timeout: float) -> tuple[Status, str]:
        code = getattr(error, "sqlite_errorcode", None)
        base = code & 0xFF if code is not None else None
        if base == sqlite3.SQLITE_INTERRUPT:
            return "timeout", f"The query did not finish within {timeout:.3g} s and was stopped."
        if base == sqlite3.SQLITE_TOOBIG:
            return "too_large", f"{error} (the sandbox allows {self.limits.max_value_bytes / MIB:g} MiB)"
        if base in (sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_FULL) or code == sqlite3.SQLITE_IOERR_NOMEM:
            self.exhausted = True
            return "too_large", OUT_OF_MEMORY
        if self._refused:
            return "error", self._refused
        if "one statement at a time" in str(error):
            return "error", "The SQL holds more than one statement; give exactly one."
        return "error", str(error)

    def _open(self) -> sqlite3.Connection:
        path = Path(self.path)
        file = _identity(path)
        if self._connection is not None and file == self._file:
            return self._connection
        self.close()
        require_database(path, path.stem)
        connection = sqlite3.connect(read_only_uri(path), uri=True, isolation_level=None, cached_statements=0)
        restrict(connection, self.limits, self._authorize)
        self._connection, self._file = connection, file
        return connection

    def _authorize(
        self, action: int, first: str | None, second: str | None, database: str | None, view: str | None
    ) -> int:
        refused = refusal(action, first, second)
        if refused is None:
            return sqlite3.SQLITE_OK
        self._refused = self._refused or refused
        return sqlite3.SQLITE_DENY


def _identity(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is replaced or written; () when there is none."""
    try:
        stat = path.stat()
    except OSError:
        return ()
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def first_rows(session: Session, sql: str, rows: int, timeout_s: float | None) -> Execution:
    """Run a query to its end and return its first rows and their number."""
    result = session.run(sql, timeout_s=timeout_s, keep_rows=rows)
    return Execution(
        result.status, result.columns, tuple(result.rows), result.row_count, result.error, result.seconds
    )
