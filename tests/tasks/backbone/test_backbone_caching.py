"""No reply is bought twice: not after a crash, not at the same time, not after a Ctrl-C."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import pytest

from tasks.backbone.cache.room import NoRoomError
from tasks.backbone.cache.store import ReplyCache, open_reply_cache
from tasks.backbone.endpoint import limiter
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.opening import RunResources, backbone_of
from tasks.backbone.protocol import Reply, Request, request_key
from tasks.core.errors import BackboneError, StoreError
from tasks.core.outcome import Call, Usage
from tasks.settings.backbone import BackboneSettings
from tests.support.disk import mounted
from tests.support.fake_openai import FakeOpenAI, error, hang, reply
from tests.support.postgres import disconnect_everybody, execute, new_database
from tests.tasks.backbone.conftest import Endpoint, asking

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgres"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ReplyCache]:
    with ExitStack() as stack:
        file = request.param == "sqlite"
        location = tmp_path / "replies.sqlite" if file else stack.enter_context(new_database())
        yield stack.enter_context(open_reply_cache(location))


@pytest.fixture
async def backbone(settings: BackboneSettings, cache: ReplyCache) -> AsyncIterator[MeteredBackbone]:
    async with EndpointBackbone(settings) as client:
        yield backbone_of(client, settings, RunResources(cache))


async def test_a_reply_is_paid_once_and_then_free(fake_openai: FakeOpenAI, backbone: MeteredBackbone) -> None:
    paid = await backbone.complete(asking())
    free = await backbone.complete(asking())
    assert free.text == paid.text and len(fake_openai.requests) == 1
    assert not paid.call.cached and paid.call.seconds > 0
    assert free.call.cached and (free.call.seconds, free.call.retries, free.call.cost_usd) == (0.0, 0, 0.0)
    assert free.call.usage == paid.call.usage and free.call.request == paid.call.request


async def test_another_sample_temperature_or_text_is_paid(
    fake_openai: FakeOpenAI, backbone: MeteredBackbone
) -> None:
    requests = [asking(), asking(sample=1), asking(temperature=0.5), asking("other")]
    for request in (*requests, *requests):
        await backbone.complete(request)
    assert len(fake_openai.requests) == 4


async def test_a_backbone_of_ones_own_is_paid_by_epoch(settings: BackboneSettings, cache: ReplyCache) -> None:
    class Own:
        identity: ClassVar = {"kind": "own"}
        paid = 0

        async def complete(self, request: Request) -> Reply:
            self.paid += 1
            call = Call(request_key(self.identity, request), "own", Usage(), cached=False, seconds=0.1)
            return Reply(f"reply {self.paid}", call)

    own = Own()
    texts, stored = [], []
    for epoch in ("monday", "monday", "tuesday", None, "tuesday", None):
        of_epoch = settings.model_copy(update={"epoch": epoch})
        given = await backbone_of(own, of_epoch, RunResources(cache)).complete(asking())
        texts.append(given.text)
        entry = cache.entry(given.call.request)
        stored.append(entry and entry.text)
    assert texts == ["reply 1", "reply 1", "reply 2", "reply 3", "reply 2", "reply 3"]
    assert stored == texts, "the stored reply of each call is the one that it got"


async def test_a_failure_is_never_kept(fake_openai: FakeOpenAI, backbone: MeteredBackbone) -> None:
    fake_openai.script(error(400, "no"))
    with pytest.raises(BackboneError):
        await backbone.complete(asking())
    assert (await backbone.complete(asking())).text == "reply to: q"


async def test_identical_requests_buy_one_reply(fake_openai: FakeOpenAI, backbone: MeteredBackbone) -> None:
    fake_openai.latency = 0.05
    replies = await asyncio.gather(*(backbone.complete(asking(str(number % 5))) for number in range(100)))
    assert len(fake_openai.requests) == 5
    assert sum(not answer.call.cached for answer in replies) == 5
    assert all(answer.text == f"reply to: {number % 5}" for number, answer in enumerate(replies))


async def test_who_waits_for_a_call_shares_its_failure(
    fake_openai: FakeOpenAI, backbone: MeteredBackbone
) -> None:
    fake_openai.always(error(400, "no", delay="x"))
    outcomes = await asyncio.gather(*(backbone.complete(asking()) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(outcome, BackboneError) for outcome in outcomes)
    assert len(fake_openai.requests) == 1


async def test_a_cancelled_caller_does_not_lose_the_reply(
    fake_openai: FakeOpenAI, backbone: MeteredBackbone, cache: ReplyCache
) -> None:
    fake_openai.script(reply("late but paid", delay=1.0))
    call = asyncio.create_task(backbone.complete(asking()))
    await asyncio.to_thread(fake_openai.wait_for, 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert cache.stats().entries == 0
    assert await backbone.drain(60) == 0
    assert [entry.text for entry in cache.entries()] == ["late but paid"]


async def test_one_of_two_callers_is_cancelled(fake_openai: FakeOpenAI, backbone: MeteredBackbone) -> None:
    fake_openai.latency = 0.1
    first = asyncio.create_task(backbone.complete(asking()))
    second = asyncio.create_task(backbone.complete(asking()))
    await asyncio.to_thread(fake_openai.wait_for, 1)
    first.cancel()
    assert (await second).text == "reply to: q"
    assert len(fake_openai.requests) == 1


REVOKED = ("REVOKE INSERT ON reply FROM {role}", "GRANT INSERT ON reply TO {role}")
READ_ONLY = (
    "ALTER ROLE {role} SET default_transaction_read_only = on",
    "ALTER ROLE {role} RESET default_transaction_read_only",
)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests wait for no first answer."""
    monkeypatch.setattr(limiter, "ALONE_S", 0.0)


@asynccontextmanager
async def asking_ten(endpoint: Endpoint, cache: ReplyCache) -> AsyncIterator[list[asyncio.Task[Reply]]]:
    """Ask ten questions, two at a time, and yield once the first two are asked; wait for all at the end."""
    endpoint.server.latency = 0.5
    async with endpoint.open(concurrency=2) as client:
        backbone = backbone_of(client, endpoint.settings, RunResources(cache))
        calls = [asyncio.create_task(backbone.complete(asking(str(number)))) for number in range(10)]
        await asyncio.to_thread(endpoint.server.wait_for, 2)
        yield calls
        await asyncio.wait(calls)


async def test_nothing_is_sent_once_the_file_of_replies_is_full(endpoint: Endpoint, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", 16384) as disk, open_reply_cache(disk.folder / "r.sqlite") as cache:
        cache.check_room()
        with disk.full():
            async with asking_ten(endpoint, cache) as calls:
                pass
            assert len(endpoint.server.requests) == 2
            assert cache.stats().entries == 2  # in the reserve
        problems = [call.exception() for call in calls]
    assert sum(problem is None for problem in problems) == 2
    assert {type(problem) for problem in problems if problem} == {NoRoomError}
    assert "run the same command again to continue" in str(next(filter(None, problems)))


@pytest.mark.parametrize("how", [REVOKED, READ_ONLY], ids=["no right to write", "read-only"])
async def test_nothing_is_sent_once_the_database_takes_none(endpoint: Endpoint, how: tuple[str, str]) -> None:
    with new_database() as url:
        open_reply_cache(url).close()
        role = url.rpartition("/")[2] + "_writer"
        execute(url, f"CREATE ROLE {role} LOGIN")
        try:
            execute(url, f"GRANT SELECT, INSERT ON reply, reply_prompt TO {role}")
            forbid, allow = (text.format(role=role) for text in how)
            with open_reply_cache(url.replace("postgres@", f"{role}@")) as cache:
                async with asking_ten(endpoint, cache) as calls:
                    execute(url, forbid)
                    disconnect_everybody(url)
                sent = len(endpoint.server.requests)
                execute(url, allow)
                disconnect_everybody(url)
            stored = execute(url, "SELECT count(*) FROM reply")
        finally:
            execute(url, f"DROP OWNED BY {role}")
            execute(url, f"DROP ROLE {role}")
    # Those before the role lost the right, two in flight, and two until that was known: not all ten.
    assert sent <= 8
    assert stored == [(sent,)]
    assert {type(call.exception()) for call in calls} == {type(None), NoRoomError}


async def test_nothing_is_sent_once_the_disk_of_that_database_is_full(endpoint: Endpoint) -> None:
    endpoint.server.answer = lambda body: body["messages"][-1]["content"] + os.urandom(300_000).hex()
    with TemporaryDirectory() as folder, new_database() as url:
        Path(folder).chmod(0o755)
        with mounted(Path(folder) / "disk", 1024) as disk:
            shutil.chown(disk.folder, "postgres")
            space = url.rpartition("/")[2] + "_small"
            open_reply_cache(url).close()
            execute(url, f"CREATE TABLESPACE {space} LOCATION '{disk.folder}'")
            try:
                execute(url, f"ALTER TABLE reply SET TABLESPACE {space}")
                with open_reply_cache(url) as cache:
                    async with asking_ten(endpoint, cache) as calls:
                        pass
                    sent = len(endpoint.server.requests)
                    execute(url, "ALTER TABLE reply SET TABLESPACE pg_default")
                stored = execute(url, "SELECT count(*) FROM reply")
            finally:
                execute(url, "ALTER TABLE reply SET TABLESPACE pg_default")
                execute(url, f"DROP TABLESPACE {space}")
    assert stored == [(sent,)] and sent <= 8
    assert "No space left on device" in " ".join(str(call.exception()) for call in calls)


async def test_draining_sends_nothing_more_and_gives_up_what_takes_too_long(
    endpoint: Endpoint, cache: ReplyCache
) -> None:
    endpoint.server.script(reply("in time", delay=1.0), hang())
    async with endpoint.open(concurrency=2, timeout_s=3600.0) as client:
        backbone = backbone_of(client, endpoint.settings, RunResources(cache))
        calls = [asyncio.create_task(backbone.complete(asking(str(number)))) for number in range(20)]
        await asyncio.to_thread(endpoint.server.wait_for, 2)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        drained = asyncio.create_task(backbone.drain(3600))
        while cache.stats().entries < 1:
            await asyncio.sleep(0.01)
        assert await backbone.drain(0.1) == 1
        assert await drained == 0
    assert len(endpoint.server.requests) == 2
    assert [entry.text for entry in cache.entries()] == ["in time"]


async def test_a_cache_that_cannot_be_read_stops_the_buying(endpoint: Endpoint, tmp_path: Path) -> None:
    with open_reply_cache(tmp_path / "replies.sqlite") as cache:
        for file in tmp_path.glob("replies.sqlite*"):
            file.write_bytes(b"overwritten by somebody else" * 1000)
        async with endpoint.open() as client:
            with pytest.raises(StoreError, match="reply cache"):
                await backbone_of(client, endpoint.settings, RunResources(cache)).complete(asking())
    assert endpoint.server.requests == []
