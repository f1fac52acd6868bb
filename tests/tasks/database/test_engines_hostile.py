"""Hostile SQL on each engine, through the real workers, on real servers: nothing changes, nothing outside is read."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import pytest

from tasks.database.database import Database, locate, open_database
from tasks.database.limits import Limits
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import DEFAULT_RULES
from tests.support import mariadb, postgres
from tests.support.counting import Count, count
from tests.support.engines import database_on, owned, reader_of, verify_unchanged
from tests.support.hostile import Statement, executed, held, statements

pytestmark = pytest.mark.slow

__all__ = ["count"]

TABLE = "CREATE TABLE singer (id INTEGER PRIMARY KEY, name VARCHAR(100), born INTEGER)"
ROWS = "INSERT INTO singer VALUES (1, 'Ann', 1970), (2, 'Bob', NULL), (3, 'Cyd', 1990)"
NEXT = "SELECT count(*), min(name) FROM singer"
TIMEOUT_S = 0.4
WITHIN_S = 5.0
"""Seconds after the deadline within which a query has ended; a tenth of that where the machine is idle."""


@contextmanager
def on_duckdb(tmp_path: Path) -> Iterator[Database]:
    with database_on("duckdb", tmp_path, TABLE, ROWS) as path:
        yield open_database(locate(path), "concert")
        assert [str(file) for file in tmp_path.iterdir()] == [path]


EXECUTING = """
CREATE FUNCTION evil_text(sql text) RETURNS text LANGUAGE plpgsql AS
$$ DECLARE found text; BEGIN EXECUTE sql INTO found; RETURN found; END $$
"""
VARIANTS = (EXECUTING.replace("evil_text", name) for name in ('"EvilText"', "to_evil", "age"))
SETUP = (TABLE, ROWS, "CREATE SEQUENCE singer_seq", EXECUTING, *VARIANTS, *(
    f"CREATE EXTENSION {name}" for name in ("dblink", "tablefunc", "xml2")
))  # fmt: skip


@contextmanager
def on_postgresql(tmp_path: Path, *, superuser: bool = False) -> Iterator[Database]:
    with postgres.new_reader(*SETUP) as url:
        # without the readers of tests that run beside this one
        others = f"rolname LIKE 'crosscheck_reader_%' AND rolname <> '{reader_of(url)}'"
        query = f"SELECT * FROM pg_roles WHERE NOT ({others}) ORDER BY oid"
        roles = postgres.execute(f"{postgres.SERVER}/postgres", query)
        owner = owned(url)
        yield open_database(locate(owner if superuser else url, writable=superuser), "concert")
        assert postgres.execute(f"{postgres.SERVER}/postgres", query) == roles
        assert postgres.execute(owner, "SELECT last_value, is_called FROM singer_seq") == [(1, False)]
        assert postgres.execute(owner, "SELECT count(*) FROM pg_largeobject_metadata") == [(0,)]


@contextmanager
def on_mysql(tmp_path: Path, *, superuser: bool = False) -> Iterator[Database]:
    with mariadb.new_database(TABLE, ROWS) as url:
        yield open_database(locate(owned(url) if superuser else url, writable=superuser), "concert")
        assert mariadb.execute("SHOW TABLES", database=url.rpartition("/")[2]) == [("singer",)]


ENGINES = {"duckdb": on_duckdb, "postgresql": on_postgresql, "mysql": on_mysql}
POWERFUL = {
    "postgresql": partial(on_postgresql, superuser=True),
    "mysql": partial(on_mysql, superuser=True),
}


@pytest.mark.parametrize("engine", [pytest.param(name, marks=pytest.mark.promise(name)) for name in ENGINES])
async def test_nothing_that_sql_does_leaves_the_sandbox(engine: str, tmp_path: Path, count: Count) -> None:
    with ENGINES[engine](tmp_path) as database:
        async with attacked(database) as workers:
            await run_all(workers, database, engine, count.fault)
            await score_all(workers, database, engine, count.fault)


@pytest.mark.parametrize("engine", POWERFUL)
async def test_nothing_leaves_the_sandbox_of_a_role_that_may_do_everything(
    engine: str, tmp_path: Path
) -> None:
    with POWERFUL[engine](tmp_path) as database:
        async with attacked(database) as workers:
            await run_all(workers, database, engine, nullcontext)


@asynccontextmanager
async def attacked(database: Database) -> AsyncIterator[SqlWorkers]:
    """Yield workers for an attack; check that afterwards they still answer and nothing has changed."""
    async with SqlWorkers(1, limits=Limits(timeout_s=TIMEOUT_S)) as workers:
        assert (await workers.execute(database, "SELECT 1", timeout_s=5)).ok
        yield workers
        assert (await workers.execute(database, NEXT, timeout_s=60)).rows == ((3, "Ann"),)
    assert verify_unchanged([database]) == ()
    assert not list(Path("/tmp").glob("evil*"))


Fault = Callable[[str], AbstractContextManager[object]]


async def run_all(workers: SqlWorkers, database: Database, engine: str, fault: Fault) -> None:
    for statement in statements(engine):
        with fault(statement.sql):
            await executed_and_held(workers, database, statement)
    assert verify_unchanged([database]) == ()


async def score_all(workers: SqlWorkers, database: Database, engine: str, fault: Fault) -> None:
    judge = Judge(workers, DEFAULT_RULES, TIMEOUT_S)
    wanted = "SELECT 'another result'"
    for expected, sql in statements(engine):
        if expected == "stopped":
            continue
        with fault(f"scored, and as gold: {sql}"):
            verdict = (await judge.verdicts(database, wanted, {"sql": sql}))["sql"]
            assert expected != "refused" or verdict.status != "ok", verdict
            verdict = (await judge.verdicts(database, sql, {"sql": wanted}))["sql"]
            assert expected != "refused" or verdict.gold_status != "ok", verdict


async def executed_and_held(workers: SqlWorkers, database: Database, statement: Statement) -> None:
    execution = await executed(workers, database, statement, TIMEOUT_S)
    assert (await workers.execute(database, NEXT, timeout_s=60)).rows == ((3, "Ann"),), "the next query"
    assert held(statement.expected, execution, TIMEOUT_S), execution
    assert statement.expected != "stopped" or execution.seconds <= TIMEOUT_S + WITHIN_S
    assert "root:" not in repr(execution.rows)
