"""What is used again counts as young."""

import asyncio
import datetime
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from flows.prefect.stage_results import StageDatabase
from tasks.results.retention import Retention, UsedRows
from tasks.scoring.execution.verdict_cache import VerdictCache, VerdictKey
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
    change(file, "UPDATE entry SET used = 1000.0")
    assert asyncio.run(store.read("forward_link/1")) == {"value": 1}
    store.close()
    assert last_use(file, "SELECT used FROM entry") > time.time() - 86_400


def test_a_verdict_that_is_read_on_a_later_day_was_used_then(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.sqlite"
    with VerdictCache(file) as cache:
        cache[KEY] = VERDICT
    change(file, "UPDATE entry SET used = 1000")
    with VerdictCache(file) as cache:
        assert cache.get(KEY) == VERDICT
    assert last_use(file, "SELECT used FROM entry") > time.time() - 2 * 86_400


def test_what_was_used_on_the_day_of_the_cutoff_stays(tmp_path: Path) -> None:
    """A use is noted once a day, so a row may have been used until a day after its noted use."""
    verdicts, stages = tmp_path / "verdicts.sqlite", tmp_path / "stages.sqlite"
    with VerdictCache(verdicts) as cache:
        cache[KEY] = VERDICT
    results = StageDatabase(stages)
    asyncio.run(results.write("forward_link/1", {"value": 1}))
    results.close()
    day = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
    for file, counted in ((verdicts, "verdicts"), (stages, "results")):
        change(file, f"UPDATE entry SET used = {day.timestamp()}")
        store = UsedRows(counted, file, counted)
        for hours, count in ((12, 1), (24, 0)):
            kept = Retention(day + datetime.timedelta(hours=hours), frozenset(), frozenset())
            assert store.holding(kept).removable == {counted: 1 - count}
            store.remove(kept)
            assert last_use(file, "SELECT count(*) FROM entry") == count
