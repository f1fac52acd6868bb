"""A database that a stage can run SQL on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.core.records import Execution
from tasks.database.database import Database
from tasks.database.sandbox.functions import same_rows
from tasks.database.sandbox.workers import SqlWorkers, WorkerLost

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
            return bool(
                await self.workers.call(same_rows, self.database, sql, other, timeout_s=2 * self.timeout_s)
            )
        except WorkerLost:
            return False
