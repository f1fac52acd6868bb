"""Which runs are kept, which keep their scores alone, what counts as used lately, and sizes of what others write to."""

import asyncio
import datetime
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from flows.prefect.stage_results import StageDatabase
from tasks.results.night import Night, NightEntry
from tasks.results.night_baseline import Pin
from tasks.results.retention import Retention, UsedRows, retention, size_of
from tasks.results.run_record import RunHeader
from tasks.scoring.execution.verdict_cache import VerdictCache, VerdictKey
from tasks.scoring.scores import Verdict
from tasks.settings.choices import Gate, Keep, age

NOW = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)
KEEP = Keep(age="30d", runs=1)


def run(name: str, days: int, pipeline: str = "rsl-sql", status: str = "complete", **tags: str) -> RunHeader:
    started = (NOW - datetime.timedelta(days=days)).replace(tzinfo=None)
    return RunHeader(
        run_id=name,
        benchmark="demo",
        revision="1",
        backbone="weak-1",
        pipeline=pipeline,
        rule="bird",
        status=status,
        started=started,
        seconds=60.0,
        tags=tags,
    )


def night(days: int, baseline: str | None = None) -> Night:
    started = NOW - datetime.timedelta(days=days)
    judged = NightEntry("demo", "weak-1", "rsl-sql", None, baseline=baseline, verdict="no worse")
    return Night(f"night {days}", Gate(), (judged,), started, started, {})


def kept(
    *runs: RunHeader, nights: tuple[Night, ...] = (), keep: Keep = KEEP, pins: tuple[Pin, ...] = ()
) -> Retention:
    return retention(keep, runs, nights, pins, NOW)


def test_young_runs_running_ones_and_the_latest_of_each_combination_are_kept() -> None:
    found = kept(
        run("young", 3),
        run("running", 90, status="running"),
        run("old", 40),
        run("latest-of-dac", 50, "dac"),
        run("killed", 55, "dac", "killed"),
        run("older-dac", 60, "dac"),
    )
    assert found.kept == {"young", "running", "latest-of-dac"}
    assert found.removable == {"old", "killed", "older-dac"}


def test_pinned_runs_baselines_and_what_a_kept_run_was_merged_from_are_kept() -> None:
    found = kept(
        run("rerun", 3, parent_run_id="once"),
        run("once", 40, parent_run_id="first"),
        run("first", 41),
        run("baseline", 100),
        run("pinned", 200, pinned="before the new prompt"),
        run("baseline-of-an-old-night", 300),
        nights=(
            night(2, "baseline"),
            night(100, "baseline-of-an-old-night"),
        ),
    )
    assert found.removable == {"baseline-of-an-old-night"}


def test_pinned_and_the_latest_baselines_of_each_combination_are_kept_whatever_their_age() -> None:
    runs = (
        run("latest", 50).model_copy(update={"question_set": "a part"}),
        run("worse", 60),
        run("baseline", 80),
        run("baseline-of-part", 90).model_copy(update={"question_set": "a part"}),
        run("older", 100),
    )
    nights = (night(1), night(50, "baseline-of-part"), night(60, "baseline"), night(91, "older"))
    assert kept(*runs, nights=nights).kept == {"latest", "baseline", "baseline-of-part"}
    pin = Pin("demo | weak-1 | rsl-sql", "old", "Release 4", NOW)
    found = kept(*(run(name, 40 + days) for days, name in enumerate(("a", "b", "old", "older"))), pins=(pin,))
    assert found.kept == {"a", "old"}


@pytest.mark.parametrize("text", ["30", "d", "-3d", "3w", ""])
def test_an_age_is_a_number_and_a_unit(text: str) -> None:
    with pytest.raises(Exception, match="for example 90d"):
        age(text)
    with pytest.raises(ValueError, match="for example 90d"):
        Keep(age=text)


@pytest.mark.parametrize("text", ["999999d", "999999999d", "999999999m"])
def test_an_age_before_the_first_date_keeps_all_runs(text: str) -> None:
    found = kept(run("old", 9000), run("older", 9001), keep=Keep(age=text, runs=1))
    assert not found.removable


KEY = VerdictKey("database", "SELECT 1", "SELECT 2", ("bird",), 30.0)
VERDICT = Verdict({"bird": True}, "ok")


def last_use(file: Path, query: str) -> float:
    with closing(sqlite3.connect(file)) as connection:
        return float(connection.execute(query).fetchone()[0])


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
        connection.commit()


def test_what_is_read_on_a_later_day_was_used_then(tmp_path: Path) -> None:
    file = tmp_path / "stages.sqlite"
    store = StageDatabase(file)
    asyncio.run(store.write("forward_link/1", {"value": 1}))
    change(file, "UPDATE entry SET used = 1000.0")
    assert asyncio.run(store.read("forward_link/1")) == {"value": 1}
    store.close()
    assert last_use(file, "SELECT used FROM entry") > time.time() - 86_400
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


LOOKS = 3_000


def test_files_that_come_and_go_meanwhile_do_not_count_and_do_no_harm(tmp_path: Path) -> None:
    database, ended = tmp_path / "mlflow.db", threading.Event()
    database.write_bytes(b"12345")
    journals = [tmp_path / f"mlflow.db{ending}" for ending in ("-journal", "-wal")]

    def come_and_go() -> None:
        while not ended.is_set():
            for journal in journals:
                journal.touch()
            for journal in journals:
                journal.unlink()

    writer = threading.Thread(target=come_and_go)
    writer.start()
    try:
        assert {size_of(path) for _ in range(LOOKS) for path in (tmp_path, database)} == {5}
    finally:
        ended.set()
        writer.join()
