"""A working folder with an old run and a young one, each written by the code that evaluations use."""

import asyncio
import datetime
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from flows.prefect.stage_results import StageDatabase
from tasks.backbone.cache.store import SqliteReplyCache
from tasks.backbone.protocol import Message, Reply, Request, request_key
from tasks.core.outcome import Call, Usage
from tasks.results.build_record import record_of
from tasks.results.mlflow.package import Completion
from tasks.results.mlflow.traces import choose
from tasks.results.mlflow.tracker import Tracker
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.execution.verdict_cache import VerdictCache, VerdictKey
from tasks.scoring.scores import Verdict
from tasks.settings.home import Home
from tests.support.stored_replies import store_reply
from tests.tasks.results.samples import make_rows, make_run

DAY_S = 86_400
OLD, YOUNG = 100, 1
"""Ages of the two runs in days."""
ROWS = make_rows(12)
IDENTITY = {"kind": "fake"}


def make_folder(home: Home) -> None:
    """Write an old and a young run of each store but Prefect's."""
    home.path.mkdir(parents=True, exist_ok=True)
    for days in (OLD, YOUNG):
        _record_run(home, days)
        _keep_results(home, days)
        for folder, ending in ((home.values, "sqlite"), (home.embeddings, "npy")):
            folder.mkdir(exist_ok=True)
            file = folder / f"{days}.{ending}"
            file.write_bytes(bytes(1000))
            _age(file, days)
    _keep_replies(home)


def run_id(days: int) -> str:
    """Return the id of the run of an age."""
    return f"run-{days:03}-days-old"


def _record_run(home: Home, days: int) -> None:
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)
    run = make_run(run_id=run_id(days), started=started, tags={})
    tracker = Tracker(home)
    tracker.start(run)
    record = record_of(run, ROWS)
    assert tracker.trace(choose(record, failed=3, sample=3), lambda question, key: None) == ""
    Warehouse(home.warehouse).finish(tracker.finish(record, Completion(seconds=60.0)))


def _keep_results(home: Home, days: int) -> None:
    key = f"forward_link/{days}"
    stages = StageDatabase(home.stage_results)
    asyncio.run(stages.write(key, {"value": "x" * 1000}))
    stages.close()
    verdict = VerdictKey("database", "SELECT 1", f"SELECT {days}", ("bird",), 30.0)
    with VerdictCache(home.verdicts) as verdicts:
        verdicts[verdict] = Verdict({"bird": True}, "ok")
    moment = time.time() - days * DAY_S
    _change(home.stage_results, "UPDATE entry SET used = ? WHERE key = ?", moment, key)
    if days == OLD:
        _change(home.verdicts, "UPDATE entry SET used = ?", moment)


def _keep_replies(home: Home) -> None:
    request = Request((Message("user", "?"),))
    key = request_key(IDENTITY, request)
    call = Call(key, "fake-1", Usage(100, None, 10), cached=False, seconds=1.0, cost_usd=0.25)
    with SqliteReplyCache(home.replies) as cache:
        store_reply(cache, Reply("{}", call), request, IDENTITY)
    _change(home.replies, "UPDATE reply SET created_at = ?", "2020-01-01T00:00:00.000000Z")


def _change(file: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement, values)
        connection.commit()


def _age(file: Path, days: int) -> None:
    moment = time.time() - days * DAY_S
    os.utime(file, (moment, moment))
