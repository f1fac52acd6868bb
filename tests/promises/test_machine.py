"""A disk that is full or read-only, and a clock that jumps: nothing stored is lost, and what is wrong is said."""

import asyncio
import re
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from flows.prefect.stage_results import StageDatabase
from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.protocol import Message, Reply, Request, request_key
from tasks.core.errors import CrosscheckError
from tasks.core.outcome import Call, Usage
from tasks.results.build_record import record_of
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.backbone import BackboneSettings
from tests.promises.test_stores import (
    IDENTITY,
    REPLIES,
    STORES,
    fill_replies,
    shop,
    stored_replies,
    use_mlflow,
    use_stages,
)
from tests.support import in_process
from tests.support.counting import Count
from tests.support.disk import Disk, disk
from tests.support.fake_openai import FakeOpenAI, error
from tests.support.stored_replies import store_reply
from tests.tasks.results.samples import make_rows, make_run

pytestmark = pytest.mark.slow

__all__ = ["disk"]

OWN = [store for store in STORES if store.file != "prefect.db"]
COMMANDS = (
    ("evaluate", "--limit", "1"), ("score", "--predictions", "p.json"), ("runs",), ("show", "latest"), ("status",),
    ("answer", "How many?", "--database", "a.sqlite"), ("show", "latest", "--html"),
    ("query", "SELECT count(*) FROM runs"),
    ("clean", "--keep", "1d", "--yes"), ("nights", "show"),
)  # fmt: skip


@pytest.mark.promise("disk")
def test_a_full_or_read_only_disk_loses_nothing_and_is_named(
    disk: Disk, tmp_path: Path, built_demo: Path, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    for store in OWN:
        home = disk.folder / store.file
        home.mkdir()
        path = home / store.file
        if store.file == "index.sqlite":
            shop(path)
        with count.fault(f"{store.file} is made on a full disk"):
            with disk.full():
                said_or_done(use_mlflow if store.file == "mlflow.db" else store.fill, path)
            shutil.rmtree(home / "values", ignore_errors=True)  # which the helper makes
            store.fill(path)
        with count.fault(f"{store.file} is used on a full disk"):
            shutil.rmtree(home / "values", ignore_errors=True)
            with disk.full():
                said_or_done(store.use, path)
            shutil.rmtree(home / "values", ignore_errors=True)
            store.use(path)
            assert not list(home.rglob("*.damaged-*"))
    count.answers(lost=REPLIES - stored_replies(disk.folder / "replies.sqlite" / "replies.sqlite"))
    with count.fault("replies that came while the disk was full"):
        fresh = Request((Message("user", "new"),))
        reply = Reply(
            "SELECT 1", Call(request_key(IDENTITY, fresh), "m", Usage(1, None, 1), cached=False, seconds=1.0)
        )
        place = disk.folder / "more.sqlite"
        fill_replies(place)
        with open_reply_cache(place) as cache, disk.full():
            store_reply(cache, reply, fresh, IDENTITY)
            assert cache.get(reply.call.request) == reply
        with open_reply_cache(place) as cache:
            assert cache.get(reply.call.request) == reply
    home = disk.folder / "home"
    shutil.copytree(built_demo, home)
    Warehouse(home / "warehouse.duckdb").finish(record_of(make_run(), make_rows(3)))
    fill_replies(home / "replies.sqlite")
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.chdir(tmp_path)
    Path("p.json").write_text("{}", encoding="utf-8")
    sqlite3.connect("a.sqlite").execute("CREATE TABLE a (b)").connection.close()
    with disk.read_only() as second:
        monkeypatch.setenv("CROSSCHECK_HOME", str(second / "home"))
        for arguments in COMMANDS:
            with count.fault(f"read-only: {' '.join(arguments)}"):
                ran = in_process.run(*arguments)
                told = re.sub(r"\s+", " ", ran.err)
                assert ran.code in (0, 2) and "Traceback" not in told, f"exit {ran.code}: {told[-400:]}"
                named = re.search("[Rr]ead-only file system|cannot be written", told) and str(second) in told
                assert ran.code == 0 or named, told[-400:]
    count.answers(lost=REPLIES - stored_replies(home / "replies.sqlite"))


def said_or_done(work: Callable[[Path], object], path: Path) -> None:
    """Do it, or say in one message why not, as the command line does with errors of these kinds."""
    try:
        work(path)
    except CrosscheckError as error:
        assert path.name in str(error) or str(path.parent) in str(error), error
    except OSError as error:
        assert error.strerror


CLOCKS: dict[str, Callable[[float, int], float]] = {
    "ten years ahead": lambda now, _: now + 3e8,
    "1970": lambda now, calls: calls * 1.0,
    "back and forth": lambda now, calls: now + (3e8 if calls % 2 else -3e8),
}


@pytest.mark.promise("clock")
def test_a_clock_that_jumps_loses_no_answer_and_holds_no_call(
    tmp_path: Path, fake_openai: FakeOpenAI, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = BackboneSettings(
        name="fake", model="m", base_url=fake_openai.base_url, retries=2, max_wait_s=0.05
    )
    real = time.time
    path = tmp_path / "replies.sqlite"
    fill_replies(path)

    async def ask(text: str) -> Reply:
        async with EndpointBackbone(chosen) as backbone:
            return await asyncio.wait_for(backbone.complete(Request((Message("user", text),))), 300)

    for name, clock in CLOCKS.items():
        for retry_after in ("Thu, 01 Jan 2026 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT", "0"):
            with count.fault(f"{name}, Retry-After: {retry_after}"), monkeypatch.context() as patch:
                calls = iter(range(10**9))
                patch.setattr(time, "time", lambda calls=calls, clock=clock: clock(real(), next(calls)))
                fake_openai.script(error(429, "slow down", retry_after=retry_after))
                assert (await_(ask(f"{name} {retry_after}"))).text.endswith(retry_after)
        with count.fault(f"{name}, stage results"), monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda clock=clock: clock(real(), 1))
            with closing(StageDatabase(tmp_path / f"{name}.sqlite")) as stages:
                asyncio.run(stages.write("s/1", {"value": 1}))
            patch.undo()
            with closing(StageDatabase(tmp_path / f"{name}.sqlite")) as stages:
                assert asyncio.run(stages.read("s/1")) == {"value": 1}
            use_stages(tmp_path / f"{name}.sqlite")
    for created in ("0001-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"):
        with count.fault(f"replies of {created}"):
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("UPDATE reply SET created_at = ?", [created])
            assert stored_replies(path) == REPLIES
            with open_reply_cache(path) as cache:
                assert cache.stats().entries == len(list(cache.entries())) == REPLIES
    count.answers(lost=REPLIES - stored_replies(path))


def await_(work: object) -> Reply:
    return asyncio.run(work)  # type: ignore[arg-type]
