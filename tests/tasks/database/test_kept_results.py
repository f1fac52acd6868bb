"""Results that a worker keeps: which SQL is executed again, by the alarm that a session sets before each query."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tasks.core.errors import DatabaseUnavailableError
from tasks.database.database import Database, locate, open_database
from tasks.database.limits import Limits
from tasks.database.sandbox.session import (
    MAX_KEPT_BYTES,
    MAX_RESULT_BYTES,
    KeptResults,
    Result,
    SqlSession,
    is_volatile,
)
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tests.support.engines import SERVERS
from tests.tasks.database.conftest import Build

TABLE = "CREATE TABLE town (name VARCHAR(50))"
NAMES = "SELECT name FROM town ORDER BY name"
RANDOM = "SELECT random()"


class Counted:
    """A session in this process, and the number of queries that it has executed.

    Attributes:
        path: the database's file.
    """

    def __init__(self, database: Database) -> None:
        self._started = 0
        self.path = Path(database.location.path)
        self.session = SqlSession(database.location, Limits(), self._alarm)

    def _alarm(self, seconds: float) -> None:
        self._started += seconds > 0

    def executed(self, *sqls: str, keep: bool = True, timeout_s: float = 60.0) -> int:
        """Run statements and return how many were executed."""
        before = self._started
        for sql in sqls:
            assert self.session.run_known(sql, timeout_s=timeout_s, keep=keep).status
        return self._started - before


@pytest.fixture
def town(build_database: Build, tmp_path: Path) -> Iterator[Counted]:
    rows = "INSERT INTO town VALUES ('Rome'), ('Oslo')"
    counted = Counted(build_database(tmp_path / "town.sqlite", f"{TABLE}; {rows}"))
    yield counted
    counted.session.close()


def test_a_kept_result_is_returned_whole_without_another_execution(town: Counted) -> None:
    first = town.session.run_known(NAMES, timeout_s=60, keep=True)
    assert first.rows == [("Oslo",), ("Rome",)]
    assert town.executed(NAMES, NAMES, keep=False) == 0
    assert town.session.run_known(NAMES, timeout_s=60) == first


@pytest.mark.parametrize(("sql", "keep"), [
    pytest.param(NAMES, False, id="not to be kept"),
    pytest.param(RANDOM, True, id="random numbers"),
    pytest.param("SELECT nothing FROM town", True, id="failing"),
    pytest.param(f"SELECT printf('%.*c', {MAX_RESULT_BYTES}, 'x') FROM town", True, id="large"),
])  # fmt: skip
def test_a_query_is_executed_each_time(town: Counted, sql: str, keep: bool) -> None:
    assert town.executed(sql, sql, keep=keep) == 2


def test_a_run_that_took_longer_than_the_limit_is_no_answer_to_a_shorter_one(town: Counted) -> None:
    taken = town.session.run_known(NAMES, timeout_s=60, keep=True).seconds
    assert town.executed(NAMES, timeout_s=taken / 2) == 1


def test_a_file_that_changed_or_is_gone_gives_no_kept_result(town: Counted) -> None:
    assert town.executed(NAMES, NAMES) == 1
    with closing(sqlite3.connect(town.path)) as connection, connection:
        connection.execute("INSERT INTO town VALUES ('Bern')")
    os.utime(town.path, ns=(1, 1))
    changed = town.session.run_known(NAMES, timeout_s=60, keep=True)
    assert changed.rows == [("Bern",), ("Oslo",), ("Rome",)]
    town.path.unlink()
    with pytest.raises(DatabaseUnavailableError):
        town.session.run_known(NAMES, timeout_s=60)


def test_the_least_recently_used_results_make_room() -> None:
    kept = KeptResults()
    sqls = [f"SELECT {n}" for n in range(3 * MAX_KEPT_BYTES // MAX_RESULT_BYTES)]
    for sql in sqls:
        kept.put(sql, Result("ok", size=MAX_RESULT_BYTES * 3 // 4))
        assert kept.get(sqls[0], 60) is not None
    known = [sql for sql in sqls if kept.get(sql, 60)]
    assert known == [sqls[0], *sqls[-len(known) + 1 :]]
    assert MAX_KEPT_BYTES // MAX_RESULT_BYTES <= len(known) < len(sqls) // 2


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_executes_each_time_because_others_write_to_it(server: str) -> None:
    with SERVERS[server](TABLE, "INSERT INTO town VALUES ('Rome')") as url:
        counted = Counted(open_database(locate(url), "town"))
        try:
            assert counted.executed(NAMES, NAMES) == 2
        finally:
            counted.session.close()


async def test_a_prediction_that_is_the_gold_word_for_word_is_right_unless_its_result_is_chance(
    build_database: Build, tmp_path: Path
) -> None:
    rows = "INSERT INTO town VALUES ('Rome'), ('Rome')"
    database = build_database(tmp_path / "towns.sqlite", f"{TABLE}; {rows}")
    distinct = "SELECT DISTINCT name FROM town"
    async with SqlWorkers(1) as workers:
        judge = Judge(workers, ("bird", "spider", "strict"), 30.0)
        for _ in range(2):
            same = await judge.verdicts(database, distinct, {"it": distinct, "all": "SELECT name FROM town"})
            assert same["it"].correct == {"bird": True, "spider": True, "strict": True}
            assert same["it"].row_count == 1
            assert same["all"].correct == {"bird": True, "spider": True, "strict": False}
            chance = await judge.verdicts(database, RANDOM, {"it": RANDOM})
            assert chance["it"].correct == {"bird": False, "spider": False, "strict": False}


@pytest.mark.parametrize(("sql", "volatile"), [
    ("SELECT CURRENT_DATE", True),
    ("SELECT name FROM item ORDER BY RANDOM() LIMIT 1", True),
    ("SELECT date('now')", True),
    ("SELECT datetime ( )", True),
    ("SELECT strftime('%Y')", True),
    ("SELECT strftime('%s')", True),
    ("SELECT strftime('%Y', 'now') - year FROM item", True),
    ("SELECT age(born) FROM town", True),
    ("SELECT age(CAST(born AS TIMESTAMP)) FROM town", True),
    ("SELECT born < DATE 'today' FROM town", True),
    ("SELECT 'Yesterday'::date", True),
    ("SELECT random_normal()", True),
    ("SELECT array_shuffle(ARRAY[1, 2])", True),
    ("SELECT date(day) FROM item", False),
    ("SELECT random_seed, nowhere FROM item", False),
])  # fmt: skip
def test_the_time_and_chance_are_volatile_and_names_like_these_are_not(sql: str, volatile: bool) -> None:
    assert is_volatile(sql) is volatile
