"""A database that a stage can run SQL on, and functions in the sandbox for code that is not asynchronous.

Reading a file evaluates what it contains (generated columns, views, macros), which can hang or fill a process.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from tasks.core.errors import DataError
from tasks.core.records import Execution
from tasks.database.database import Database
from tasks.database.limits import Limits
from tasks.database.location import Content, Location
from tasks.database.sandbox.frames import Job
from tasks.database.sandbox.session import same_rows
from tasks.database.sandbox.workers import SqlWorkers, WorkerLost, name_of

T = TypeVar("T")

VERSION = 2
"""Version of execution, to be raised where a SQL can have another outcome; 1 took unreadable files for failing SQL."""


@dataclass(frozen=True, slots=True)
class DatabaseRunner:
    """Runs SQL on one database in the sandbox."""

    database: Database
    workers: SqlWorkers  # the pool of sandboxed processes
    timeout_s: float  # seconds after which a query is stopped

    @property
    def identity(self) -> Mapping[str, Any]:
        """What a result depends on beside the SQL: the database's content, the limit, and how it is executed."""
        return {"database": self.database.digest, "timeout_s": self.timeout_s, "version": VERSION}

    async def run(self, sql: str, rows: int = 5) -> Execution:
        """Run one statement and return how it went, with the first `rows` rows."""
        return await self.workers.execute(self.database, sql, rows=rows, timeout_s=self.timeout_s)

    async def agree(self, sql: str, other: str) -> bool:
        """Return whether two statements both run and return the same set of rows."""
        try:
            return await self.workers.call(same_rows, self.database, sql, other, timeout_s=2 * self.timeout_s)
        except WorkerLost:
            return False


READING_S = 120.0
"""Seconds of reading the structure of one database."""
READING = Limits()


def in_sandbox(
    function: Callable[..., T],
    location: Location,
    *args: Any,
    timeout_s: float = READING_S,
    limits: Limits = READING,
) -> T:
    """Run `function(session, *args)` in a process with these limits and return its value, or raise what it raises."""
    workers, loop = _pool(limits, os.getpid())
    job = Job(name_of(function), location, Content(""), args, timeout_s)  # without a digest: of any content
    try:
        value: T = asyncio.run_coroutine_threadsafe(workers.run(job), loop).result()
    except WorkerLost as error:  # the function took too much time or memory
        limit = f"{timeout_s:g} s" if error.status == "timeout" else f"{limits.memory_mb} MiB of memory"
        raise DataError(
            f"{location} cannot be read within {limit}: a column or view of it computes too much. "
            "Check where the file comes from, or leave the database out."
        ) from error
    return value


@cache
def _pool(limits: Limits, process: int) -> tuple[SqlWorkers, asyncio.AbstractEventLoop]:
    """Return the pool of the process with that id, not of the one that it was forked from; it ends with the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="sandbox", daemon=True).start()
    workers = SqlWorkers(limits=limits)
    return asyncio.run_coroutine_threadsafe(workers.__aenter__(), loop).result(), loop
