"""The database that an agent of the user's own is given: it can only be read, in the sandbox."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from functools import cached_property
from typing import Any

from tasks.core.records import Execution
from tasks.core.wording import counted
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.database.schema_text import render

MAX_QUERIES = 1_000
"""Queries that an agent may execute about one question."""
SAMPLES = 3
"""Sample values of each column that the schema shows."""
ROWS = 20
"""Rows of a result that an agent gets where it asks for no other number."""
MAX_RESULT = 10_000
"""Characters of a result that are kept in the trajectory."""


class AgentStoppedError(RuntimeError):
    """The agent's time for the question is over, or the user stopped the call: it gets no further result."""


class AgentDatabase:
    """A database that an agent reads about one question.

    SQL runs in Crosscheck's sandbox: in a worker process, with a deadline and limits of rows and memory, and what is
    no query is refused. Every SQL becomes a turn of the trajectory, unless the agent returns its own.

    Attributes:
        id: the benchmark's name of it.
        dialect: its SQL dialect, as sqlglot names it: "sqlite", "duckdb", "postgres", "mysql".
    """

    def __init__(
        self, database: Database, workers: SqlWorkers, loop: asyncio.AbstractEventLoop, timeout_s: float
    ) -> None:
        self.id = database.id
        self.dialect = database.dialect
        self._database = database
        self._workers = workers
        self._loop = loop
        self._timeout_s = timeout_s
        self._executed: list[tuple[str, Execution | None]] = []
        self._closed = ""

    @cached_property
    def schema(self) -> str:
        """Its tables as CREATE TABLE statements, with keys, descriptions of the columns and sample values."""
        known = self._database.schema
        return render(known, "create_table", sample_rows=SAMPLES, foreign_keys=True, descriptions=True).schema

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the columns by table."""
        return {
            table.name: tuple(column.name for column in table.columns)
            for table in self._database.schema.tables
        }

    def execute(self, sql: str, rows: int = ROWS) -> Execution:
        """Execute a query and return its first rows, from any thread; SQL that fails is no exception, but its status.

        Raises:
            AgentStoppedError: the time for the question is over.
        """
        return self._start(sql, rows).result()

    async def execute_async(self, sql: str, rows: int = ROWS) -> Execution:
        """Execute a query without blocking the agent's event loop; otherwise as `execute`."""
        return await asyncio.wrap_future(self._start(sql, rows))

    def close(self, why: str) -> None:
        """Let no further query begin."""
        self._closed = why

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The executed queries, as turns of Crosscheck's format for trajectories."""
        return [{"tool_calls": [_call(sql, execution)]} for sql, execution in list(self._executed)]

    @property
    def failed(self) -> Mapping[str, bool]:
        """Whether each executed SQL failed."""
        return {sql.strip(): not execution.ok for sql, execution in list(self._executed) if execution}

    def _start(self, sql: str, rows: int) -> "Future[Execution]":
        if self._closed:
            raise AgentStoppedError(self._closed)
        if not isinstance(sql, str):
            raise TypeError(f"the SQL must be a text, not {type(sql).__name__}")
        if len(self._executed) >= MAX_QUERIES:
            refused: Future[Execution] = Future()
            refused.set_result(
                Execution("error", error=f"more than {MAX_QUERIES:,} queries about one question")
            )
            return refused
        return asyncio.run_coroutine_threadsafe(self._run(sql, rows), self._loop)

    async def _run(self, sql: str, rows: int) -> Execution:
        place = len(self._executed)
        self._executed.append((sql, None))
        execution = await self._workers.execute(
            self._database, sql, rows=max(0, rows), timeout_s=self._timeout_s
        )
        self._executed[place] = (sql, execution)
        return execution


def _call(sql: str, execution: Execution | None) -> dict[str, Any]:
    call: dict[str, Any] = {"name": "execute", "arguments": {"sql": sql}, "sql": sql}
    if execution is None:  # still running when the time was over
        return call
    if not execution.ok:
        return call | {"error": True, "result": execution.error or execution.status}
    rows = [" | ".join(map(str, row)) for row in (execution.columns, *execution.rows)]
    count = f"({counted(execution.row_count or 0, 'row')})"
    return call | {"error": False, "result": "\n".join((*rows, count))[:MAX_RESULT]}
