"""The corpora of hostile SQL in `tests/tasks/database/hostile/`, a file for each engine."""

import re
from pathlib import Path
from typing import NamedTuple

from tasks.core.records import Execution
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers

CORPUS = Path(__file__).parents[1] / "tasks" / "database" / "hostile"
SIGNS = {"\\n": "\n", "\\0": "\0", "\\ud800": "\ud800", "\\udfff": "\udfff"}
_REPEATED = re.compile(r"\{([^|{}]*)\|([^|{}]*)\|(\d+)\|([^|{}]*)\}")


class Statement(NamedTuple):
    """A statement and what must happen to it: refused, stopped, or harmless."""

    expected: str
    sql: str


def held(expected: str, execution: Execution, timeout_s: float) -> bool:
    """Whether the outcome is the expected one.

    What must be stopped may be refused, or may end before its deadline on a fast machine; what is harmless may be
    refused or stopped.
    """
    stopped = execution.status in ("timeout", "too_large")
    found = "stopped" if stopped else "refused" if execution.status == "error" else "harmless"
    if expected == "stopped":
        return found != "harmless" or execution.seconds < timeout_s
    return found == expected or expected == "harmless"


async def executed(
    workers: SqlWorkers, database: Database, statement: Statement, timeout_s: float
) -> Execution:
    """Execute a statement; one that must be refused is given more time if a busy machine took what it had."""
    execution = await workers.execute(database, statement.sql, timeout_s=timeout_s)
    if statement.expected == "refused" and execution.status == "timeout":
        return await workers.execute(database, statement.sql, timeout_s=60)
    return execution


def statements(engine: str) -> list[Statement]:
    """Return the corpus of an engine."""
    lines = (CORPUS / f"{engine}.txt").read_text(encoding="utf-8").split("\n")
    return [Statement(*line.split("\t", 1)) for line in lines if line and not line.startswith("#")]


def written_out(sql: str) -> str:
    """Return a statement of SQLite's corpus with its signs and repetitions."""
    for name, sign in SIGNS.items():
        sql = sql.replace(name, sign)
    return _REPEATED.sub(lambda part: part[1] + part[2] * int(part[3]) + part[4], sql)
