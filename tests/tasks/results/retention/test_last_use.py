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


def test_what_any_of_thousands_of_kept_runs_used_stays(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.sqlite"
    keys = [KEY._replace(sql=f"SELECT {number}") for number in range(3)]
    with VerdictCache(file) as cache:
        for each in keys:
            cache[each] = VERDICT
    for number, day in enumerate((10, 11, 5_000)):
        key = f"SELECT key FROM entry ORDER BY key LIMIT 1 OFFSET {number}"
        change(file, f"UPDATE entry SET used = {86_400 * day} WHERE key = ({key})")
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    days = [start + datetime.timedelta(days=day) for day in range(0, 8_000, 2)]
    spans = tuple((day, day + datetime.timedelta(hours=1)) for day in days)
    kept = Retention(start + datetime.timedelta(days=9_000), frozenset(), frozenset(), spans)
    store = UsedRows("verdicts", file, "verdicts")
    assert store.holding(kept).removable == {"verdicts": 1}
    store.remove(kept)
    assert last_use(file, "SELECT min(used) FROM entry") == 86_400 * 10
    assert last_use(file, "SELECT count(*) FROM entry") == 2


def test_what_a_kept_run_used_later_on_the_day_that_is_known_stays(tmp_path: Path) -> None:
    verdicts, stages = tmp_path / "verdicts.sqlite", tmp_path / "stages.sqlite"
    with VerdictCache(verdicts) as cache:
        cache[KEY] = VERDICT
    results = StageDatabase(stages)
    asyncio.run(results.write("forward_link/1", {"value": 1}))
    results.close()
    day = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
    change(verdicts, f"UPDATE entry SET used = {int(day.timestamp())}")
    change(stages, f"UPDATE entry SET used = {day.timestamp()}")
    noon = day + datetime.timedelta(hours=12)
    stores = (
        UsedRows("verdicts", verdicts, "verdicts"),
        UsedRows("stage results", stages, "results"),
    )
    for store in stores:
        for cutoff, spans, count in (
            (noon, (), 0),
            (day + datetime.timedelta(days=1), (), 1),
            (day + datetime.timedelta(days=9), ((noon, noon + datetime.timedelta(hours=1)),), 0),
            (day + datetime.timedelta(days=9), ((day - datetime.timedelta(hours=2),) * 2,), 1),
        ):
            kept = Retention(cutoff, frozenset(), frozenset(), spans)
            assert sum(store.holding(kept).removable.values()) == count
            if not count:
                store.remove(kept)
    assert last_use(verdicts, "SELECT count(*) FROM entry") == 1
    assert last_use(stages, "SELECT count(*) FROM entry") == 1
