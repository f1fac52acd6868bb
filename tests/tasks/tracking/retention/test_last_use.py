"""What is used again counts as young."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from flows.orchestration.stage_database import StageDatabase
from tasks.scoring.execution.accuracy import VerdictKey
from tasks.scoring.execution.verdict_cache import VerdictCache
from tasks.scoring.report import Verdict

KEY = VerdictKey("database", "SELECT 1", "SELECT 2", ("bird",), 30.0)
VERDICT = Verdict({"bird": True}, "ok")


def last_use(file: Path, query: str) -> float:
    with closing(sqlite3.connect(file)) as connection:
        return float(connection.execute(query).fetchone()[0])


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
        connection.commit()


def test_a_stage_result_that_is_read_on_a_later_day_was_used_then(tmp_path: Path) -> None:
    file = tmp_path / "stages.sqlite"
    store = StageDatabase(file)
    asyncio.run(store.write("forward_link/1", {"value": 1}))
    change(file, "UPDATE result SET made_at = 1000.0")
    assert asyncio.run(store.read("forward_link/1")) == {"value": 1}
    store.close()
    assert last_use(file, "SELECT made_at FROM result") > time.time() - 86_400


def test_a_verdict_that_is_read_on_a_later_day_was_used_then(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.sqlite"
    with VerdictCache(file) as cache:
        cache[KEY] = VERDICT
    change(file, "UPDATE verdict SET used = 1000")
    with VerdictCache(file) as cache:
        assert cache.get(KEY) == VERDICT
    assert last_use(file, "SELECT used FROM verdict") > time.time() - 2 * 86_400


def test_verdicts_of_an_earlier_release_count_as_used_today(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.sqlite"
    with VerdictCache(file) as cache:
        cache[KEY] = VERDICT
    change(file, "ALTER TABLE verdict DROP COLUMN used")
    with VerdictCache(file) as cache:
        assert cache.get(KEY) == VERDICT
    assert last_use(file, "SELECT used FROM verdict") > time.time() - 2 * 86_400
