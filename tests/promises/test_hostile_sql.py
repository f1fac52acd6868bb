"""Hostile SQL through every path on which Crosscheck executes, scores, parses or shows SQL."""

import hashlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tasks.database.database import Database, open_database
from tasks.database.limits import Limits
from tasks.database.sandbox.workers import SqlWorkers
from tasks.documents.text import mark_sql
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import DEFAULT_RULES
from tasks.sql.parsing import parse
from tests.support.counting import Count
from tests.support.engines import verify_unchanged
from tests.support.hostile import Statement, executed, held, statements, written_out
from tests.support.processes import cpu_of_children
from tests.tasks.database.conftest import CONTENT, build_database
from tests.tasks.sql.test_sql_limits import FUNCTIONS

pytestmark = pytest.mark.slow

__all__ = ["build_database"]

TIMEOUT_S = 0.15
WITHIN_S = 0.5
PARSED_S = 5.0
MEMORY = 512 * 1024 * 1024
NEXT = "SELECT count(*), min(name) FROM singer"


def peak_of_workers() -> int:
    """Peak of the resident memory of any worker that runs now."""
    peaks = [0]
    for child in psutil.Process().children():
        try:
            text = Path(f"/proc/{child.pid}/status").read_text()
        except OSError:
            continue
        peaks += [int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM")]
    return max(peaks)


async def execute(workers: SqlWorkers, database: Database, statement: Statement) -> float:
    """Execute a statement and return how long it took.

    What it may take is limited in processor seconds of the worker: on an idle machine, those of the clock.
    """
    started, worked = time.perf_counter(), cpu_of_children()
    execution = await executed(workers, database, statement, TIMEOUT_S)
    seconds = time.perf_counter() - started
    assert cpu_of_children() - worked <= TIMEOUT_S + WITHIN_S
    assert statement.expected != "stopped" or seconds <= TIMEOUT_S + 10 * WITHIN_S
    assert held(statement.expected, execution, TIMEOUT_S), execution
    assert "root:" not in repr(execution.rows)
    assert (await workers.execute(database, NEXT, timeout_s=60)).rows == ((3, "Ann"),)
    return seconds


def show_and_parse(sql: str) -> None:
    parse.cache_clear()
    for name, function in FUNCTIONS.items():
        started = time.process_time()
        function(sql)
        assert time.process_time() - started < PARSED_S, name
    page = str(mark_sql(sql, "SELECT 1"))
    assert "<script" not in page and "<img" not in page


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A database in a folder that is the working folder too; nothing in it may change."""
    path = tmp_path / "concert.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(CONTENT)
    connection.close()
    monkeypatch.chdir(tmp_path)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    database = open_database(path, "concert")
    yield database
    assert verify_unchanged([database]) == ()
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [file.name for file in tmp_path.iterdir()] == ["concert.sqlite"]
    assert not list(Path("/tmp").glob("evil*"))


@pytest.mark.promise("sql")
async def test_nothing_that_sql_does_leaves_the_sandbox_or_holds_the_process(
    target: Database, count: Count
) -> None:
    corpus = [Statement(expected, written_out(sql)) for expected, sql in statements("sqlite")]
    limits = Limits(timeout_s=TIMEOUT_S)
    async with SqlWorkers(1, limits=limits) as workers:
        await workers.execute(target, NEXT, timeout_s=5)
        judge = Judge(workers, DEFAULT_RULES, TIMEOUT_S)
        for statement in corpus:
            expected, sql = statement
            with count.fault(sql):
                seconds = await execute(workers, target, statement)
                count.took(seconds - TIMEOUT_S if expected == "stopped" else 0.0)
                show_and_parse(sql)
                assert peak_of_workers() <= MEMORY
                if expected == "refused":
                    as_gold = await judge.verdicts(target, sql, {"sql": "SELECT 'another result'"})
                    assert as_gold["sql"].gold_status != "ok"
        scored = [sql for expected, sql in corpus if expected != "stopped"]
        for chunk in (scored[start : start + 25] for start in range(0, len(scored), 25)):
            verdicts = await judge.verdicts(target, "SELECT 1 WHERE 0", dict(zip(chunk, chunk, strict=True)))
            assert len(verdicts) == len(set(chunk))
