"""Each store damaged in turn: set aside and made anew where its content can be, named in one message where not."""

import asyncio
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pytest

from flows.prefect.stage_results import StageDatabase
from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.protocol import Message, Reply, Request, request_key
from tasks.core.errors import CrosscheckError
from tasks.core.outcome import Call, Usage
from tasks.database.database import Database, open_database
from tasks.database.sqlite_files import renew_if_damaged
from tasks.results.mlflow.store import check, find_store
from tasks.results.night import read as read_night
from tasks.results.night import write as write_night
from tasks.results.warehouse.runs import Warehouse
from tasks.retrieval.encoder_files import stored_vectors
from tasks.retrieval.value_index import DatabaseValues
from tasks.scoring.execution.verdict_cache import VerdictCache, VerdictKey
from tasks.scoring.scores import Verdict
from tasks.settings.home import Home
from tests.support.counting import Count
from tests.support.stored_replies import store_reply
from tests.tasks.results.comparison_samples import two_runs
from tests.tasks.results.night_samples import a_night

pytestmark = pytest.mark.slow

REPLIES = 40
IDENTITY = {"model": "m"}


def request(number: int) -> Request:
    return Request((Message("user", f"question {number} " + "x" * 500),))


def fill_replies(path: Path) -> None:
    with open_reply_cache(path) as cache:
        for number in range(REPLIES):
            asked = request(number)
            call = Call(request_key(IDENTITY, asked), "m", Usage(1, None, 1), cached=False, seconds=1.0)
            store_reply(cache, Reply(f"SELECT {number}", call), asked, IDENTITY)


def stored_replies(path: Path) -> int:
    with open_reply_cache(path) as cache:
        found = [cache.get(request_key(IDENTITY, request(number))) for number in range(REPLIES)]
    return sum(reply is not None and reply.text == f"SELECT {number}" for number, reply in enumerate(found))


def fill_stages(path: Path) -> None:
    with closing(StageDatabase(path)) as stages:
        for number in range(60):
            asyncio.run(stages.write(f"s/{number}", {"value": "x" * 400}))


def use_stages(path: Path) -> None:
    with closing(StageDatabase(path)) as stages:
        for number in range(60):
            asyncio.run(stages.read(f"s/{number}"))
        asyncio.run(stages.write("s/new", {"value": 1}))
        assert asyncio.run(stages.read("s/new")) == {"value": 1}


KEY = VerdictKey("0a" * 32, "SELECT 1", "SELECT 1", ("bird",), 30.0)
VERDICT = Verdict({"bird": True}, "ok", "", 3, "ok", 0.25)


def fill_verdicts(path: Path) -> None:
    with VerdictCache(path) as cache:
        for number in range(200):
            cache[KEY._replace(sql=f"SELECT {number}")] = VERDICT


def use_verdicts(path: Path) -> None:
    with VerdictCache(path) as cache:
        cache[KEY] = VERDICT
        assert cache.get(KEY) in (VERDICT, None)  # None: another program's file, which is left alone


def shop(path: Path) -> Database:
    file = path.with_name("shop.db")
    if not file.exists():
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("CREATE TABLE item (name TEXT)")
            connection.executemany("INSERT INTO item VALUES (?)", [(f"anchor {n}",) for n in range(300)])
    return open_database(file, "shop")


def use_values(path: Path) -> None:
    database = shop(path)
    folder = path.with_name("values")
    index = folder / f"{database.digest}.sqlite"
    if path.exists():
        folder.mkdir()
        shutil.copy(path, index)
    found = asyncio.run(DatabaseValues(database, folder).retrieve("How many anchor 7?", 2, 10))
    assert "anchor 7" in found[0].values
    if not path.exists():
        shutil.copy(index, path)


def use_vectors(path: Path) -> None:
    found = stored_vectors(path, 2)
    assert found is None or found.shape == (2, 300)
    with path.open("wb") as file:
        np.save(file, np.ones((2, 300), np.float32))
    assert stored_vectors(path, 2) is not None


def fill_warehouse(path: Path) -> None:
    two_runs(3, 4, 40)  # the samples are made once
    a_night(Warehouse(path), two_runs(3, 4, 40))


def use_warehouse(path: Path) -> None:
    warehouse = Warehouse(path)
    for header in warehouse.runs():
        warehouse.read_run(header.run_id)


def fill_night(path: Path) -> None:
    home = Home(path.parent)
    shutil.move(write_night(a_night(Warehouse(path.with_name("w.duckdb")), two_runs(3, 4, 20)), home), path)


def use_prefect(path: Path) -> None:
    renew_if_damaged(path, "it lacks earlier task runs")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def fill_prefect(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE task_run (name TEXT)")
        connection.executemany("INSERT INTO task_run VALUES (?)", [("x" * 300,)] * 100)


def fill_mlflow(path: Path) -> None:
    find_store(Home(path.parent)).client()


def use_mlflow(path: Path) -> None:
    check(find_store(Home(path.parent)))


INSIDE = ("index.sqlite", "vectors.npy", "prefect.db")
"""Files in folders of their own, where no user makes a folder of that name."""


class Store(NamedTuple):
    """A store: how it is filled and used, and whether it can be made anew."""

    file: str
    fill: Callable[[Path], object]
    use: Callable[[Path], object]
    anew: bool


STORES = (
    Store("replies.sqlite", fill_replies, stored_replies, anew=False),
    Store("stages.sqlite", fill_stages, use_stages, anew=True),
    Store("verdicts.sqlite", fill_verdicts, use_verdicts, anew=True),
    Store("index.sqlite", use_values, use_values, anew=True),
    Store("vectors.npy", use_vectors, use_vectors, anew=True),
    Store("warehouse.duckdb", fill_warehouse, use_warehouse, anew=False),
    Store("night.json", fill_night, read_night, anew=False),
    Store("prefect.db", fill_prefect, use_prefect, anew=True),
    Store("mlflow.db", fill_mlflow, use_mlflow, anew=False),
)  # fmt: skip


def garbage_inside(path: Path) -> None:
    content = bytearray(path.read_bytes())
    start = min(4096, len(content) // 2)
    content[start:] = random.Random(2).randbytes(len(content) - start)
    path.write_bytes(content)


def other_sqlite(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE reply (a)")
        connection.execute("CREATE TABLE entry (a)")


def other_duckdb(path: Path) -> None:
    path.unlink()
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE a (b INTEGER)")


def newer_layout(path: Path) -> None:
    if path.suffix == ".duckdb":
        with duckdb.connect(str(path)) as connection:
            connection.execute("UPDATE crosscheck_schema SET version = 99")
    elif path.suffix in (".sqlite", ".db"):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("PRAGMA user_version = 99")
            if path.name == "mlflow.db":
                connection.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    else:
        path.write_text(json.dumps({"version": 99}))


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "random_bytes": lambda path: path.write_bytes(random.Random(1).randbytes(path.stat().st_size)),
    "garbage_inside": garbage_inside,
    "cut_in_half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "cut_in_the_header": lambda path: os.truncate(path, 50),
    "emptied": lambda path: os.truncate(path, 0),
    "other_text": lambda path: path.write_text("the file of another program " * 400),
    "other_sqlite": other_sqlite,
    "other_duckdb": other_duckdb,
    "newer_layout": newer_layout,
    "a_folder": a_folder,
}


@contextmanager
def one_message(path: Path) -> Iterator[None]:
    """Allow a user error that names the file and what to do, in one line."""
    try:
        yield
    except CrosscheckError as error:
        said = str(error)
        assert path.name in said or path.stem in said, said
        assert len(said.splitlines()) == 1 and len(said) > 60, said


@pytest.mark.promise("stores")
def test_a_damaged_store_is_set_aside_or_named_and_paid_replies_stay(
    tmp_path: Path, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.prefect.stage_results.BUSY_TIMEOUT_S", 0.2)
    replies = tmp_path / "intact" / "replies.sqlite"
    fill_replies(replies)
    for store in STORES:
        whole = tmp_path / "whole" / store.file
        whole.parent.mkdir(exist_ok=True)
        store.fill(whole)
        for damage, spoil in DAMAGES.items():
            if damage == "a_folder" and store.file in INSIDE:
                continue
            home = tmp_path / f"{store.file}-{damage}"
            home.mkdir()
            path = home / store.file
            shutil.copy(whole, path)
            spoil(path)
            before = path.read_bytes() if path.is_file() else b""
            with count.fault(f"{store.file} {damage}"), one_message(path):
                store.use(path)
                if store.anew and (aside := list(home.glob(f"{store.file}.damaged-*"))):
                    assert aside[0].stat().st_size >= len(before)
            if not store.anew and before and path.is_file() and damage != "emptied":
                assert path.stat().st_size >= len(before), f"{store.file} {damage} was overwritten"
    count.answers(lost=REPLIES - stored_replies(replies))
