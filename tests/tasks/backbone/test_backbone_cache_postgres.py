"""The reply cache in PostgreSQL: what cannot be opened, connections that break, and an event loop that never waits."""

import asyncio
import logging
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tasks.backbone.cache import store as reply_postgres
from tasks.backbone.cache.store import ReplyCache, open_reply_cache
from tasks.backbone.opening import RunResources, open_backbone
from tasks.backbone.protocol import Message, Request
from tasks.core.errors import ConfigurationError, StoreError
from tests.support.batch_process import settings_of
from tests.support.fake_batches import FakeOpenAIBatches
from tests.support.gateway import Gateway, gateway_to
from tests.support.postgres import disconnect_everybody, execute, postgres_database
from tests.tasks.backbone.test_backbone_cache import IDENTITY, asking, bought, put

__all__ = ["postgres_database"]

SECRET = "s3cret-w0rd"


@pytest.fixture
def cache(postgres_database: str) -> Iterator[ReplyCache]:
    with open_reply_cache(postgres_database) as opened:
        yield opened


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with gateway_to(5432) as opened:
        yield opened


@pytest.fixture
def through(gateway: Gateway, postgres_database: str) -> Iterator[ReplyCache]:
    """A cache at the other end of a network that can break."""
    with open_reply_cache(postgres_database.replace(":5432/", f":{gateway.port}/")) as opened:
        yield opened


async def test_two_machines_share_the_batches(postgres_database: str) -> None:
    with FakeOpenAIBatches() as server:
        server.seconds = 1.0

        async def ask() -> list[str]:
            with open_reply_cache(postgres_database) as replies:
                async with open_backbone(
                    settings_of("openai", server.base_url), RunResources(replies)
                ) as backbone:
                    requests = [Request((Message("user", f"question {n}"),)) for n in range(10)]
                    found = await asyncio.gather(*map(backbone.complete, requests))
                    return [reply.text for reply in found]

        first, second = await asyncio.gather(ask(), ask())
        assert first == second == [f"reply to: question {n}" for n in range(10)]
        assert set(server.ledger.values()) == {1} and len(server.ledger) == 10


@contextmanager
def table_locked(url: str) -> Iterator[psycopg.Connection]:
    """Keep everybody else from reading and writing the replies until the transaction ends."""
    with psycopg.connect(url) as holder:
        holder.execute("LOCK TABLE reply IN ACCESS EXCLUSIVE MODE")
        yield holder


def saved(url: str) -> list[str]:
    return [str(text) for (text,) in execute(url, "SELECT convert_from(text, 'UTF8') FROM reply ORDER BY 1")]


def refused(url: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        open_reply_cache(url)
    assert "CROSSCHECK_REPLIES" in str(caught.value)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_where_no_server_answers_the_message_says_where_and_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    said = refused(f"postgresql://me:{SECRET}@127.0.0.1:{port}/replies?password={SECRET}")
    assert f"127.0.0.1:{port}/replies" in said
    assert "refused" in said and "Check that PostgreSQL runs there" in said


def test_a_database_that_is_missing_is_said_with_the_command_that_makes_it(postgres_database: str) -> None:
    said = refused(f"{postgres_database}_absent")
    assert "does not exist" in said and "createdb" in said


def test_a_wrong_password_is_said_without_showing_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_refuse_password, args=(server,), daemon=True).start()
        said = refused(f"postgresql://me:{SECRET}@127.0.0.1:{server.getsockname()[1]}/d?sslmode=disable")
    assert "password authentication failed" in said and "PGPASSWORD" in said


def _refuse_password(server: socket.socket) -> None:
    """Answer as PostgreSQL answers somebody with a wrong password; the real one here trusts everybody."""
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        client.recv(4096)
        said = b'SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for user "me"\0\0'
        client.sendall(b"E" + struct.pack("!I", len(said) + 4) + said)
        client.close()


@pytest.mark.parametrize("url", [
    f"postgresql://me:{SECRET}@x@host/database",
    f"postgresql://me:{SECRET}@host",
    f"postgresql://me@host:{SECRET}/database",
], ids=["an @ in the password", "no database", "no port"])  # fmt: skip
def test_an_address_that_cannot_be_read_is_not_repeated(url: str) -> None:
    assert "postgresql://user@host:5432/database" in refused(url)


def test_a_missing_driver_is_said_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'crosscheck-sql[team]'" in refused("postgresql://me@host/database")


def test_a_table_of_somebody_else_is_left_alone(postgres_database: str) -> None:
    execute(postgres_database, "CREATE TABLE reply (id integer)")
    assert "not Crosscheck's" in refused(postgres_database)


def test_a_cache_of_a_newer_version_is_left_alone(postgres_database: str) -> None:
    open_reply_cache(postgres_database).close()
    execute(postgres_database, "COMMENT ON TABLE reply IS 'Crosscheck''s replies, layout 99'")
    assert "newer version" in refused(postgres_database)


def test_who_may_only_read_is_told_before_anything_is_paid(postgres_database: str) -> None:
    open_reply_cache(postgres_database).close()
    role = postgres_database.rpartition("/")[2] + "_reader"
    execute(postgres_database, f"CREATE ROLE {role} LOGIN")
    try:
        execute(postgres_database, f"GRANT SELECT ON reply, reply_prompt TO {role}")
        said = refused(postgres_database.replace("postgres@", f"{role}@"))
    finally:
        execute(postgres_database, f"DROP OWNED BY {role}")
        execute(postgres_database, f"DROP ROLE {role}")
    assert "permission denied" in said and "read and write" in said


def test_connections_that_broke_while_idle_are_made_anew(
    cache: ReplyCache, postgres_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = put(cache, "q", "first")
    disconnect_everybody(postgres_database)
    put(cache, "r", "second")
    assert saved(postgres_database) == ["first", "second"]
    disconnect_everybody(postgres_database)
    assert cache.get(first.call.request) == first
    assert caplog.text == ""


def test_replies_that_come_while_the_database_is_away_are_saved_when_it_is_back(
    through: ReplyCache, gateway: Gateway, postgres_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.close()
    with caplog.at_level(logging.WARNING):
        first, second = put(through, "q", "first"), put(through, "r", "second")
    assert through.get(first.call.request) == first
    assert through.get(second.call.request) == second
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert through.location in caplog.text
    assert saved(postgres_database) == []
    gateway.open()
    put(through, "s", "third")
    assert saved(postgres_database) == ["first", "second", "third"]


def test_closing_saves_what_was_not_saved(
    through: ReplyCache, gateway: Gateway, postgres_database: str
) -> None:
    gateway.close()
    put(through, "q", "paid for")
    gateway.open()
    through.close()
    assert saved(postgres_database) == ["paid for"]


def test_replies_that_are_lost_in_the_end_are_counted(
    through: ReplyCache, gateway: Gateway, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_postgres, "RECONNECT_S", 0.0)
    gateway.close()
    put(through, "q")
    put(through, "r")
    through.close()
    assert "The replies to 2 paid requests could not be stored" in caplog.text
    gateway.open()


def test_a_short_absence_is_waited_for_when_looking_up(through: ReplyCache, gateway: Gateway) -> None:
    reply = put(through, "q")
    gateway.close()
    opening = threading.Timer(0.3, gateway.open)
    opening.start()
    assert through.get(reply.call.request) == reply
    opening.join()


def test_a_database_that_stays_away_is_an_error_and_no_missing_reply(
    through: ReplyCache, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_postgres, "RECONNECT_S", 0.0)
    reply = put(through, "q")
    gateway.close()
    with pytest.raises(StoreError, match="run the same command again to continue"):
        through.get(reply.call.request)
    with pytest.raises(StoreError, match="run the same command again to continue"):
        next(through.entries())
    gateway.open()
    assert through.get(reply.call.request) == reply


async def test_the_event_loop_waits_for_no_database(cache: ReplyCache, postgres_database: str) -> None:
    """Were the loop kept waiting, nobody would ever end the transaction that it waits for."""
    reply = put(cache, "q")
    with table_locked(postgres_database) as holder:
        reading = asyncio.create_task(cache.aget(reply.call.request))
        writing = asyncio.create_task(cache.put(bought("r"), asking("r"), IDENTITY))
        await _until_waiting(postgres_database, 2)
        assert not reading.done() and not writing.done()
        holder.commit()
        assert await reading == reply
        await writing
    assert cache.stats().entries == 2


async def test_a_cancelled_saving_loses_no_reply(cache: ReplyCache, postgres_database: str) -> None:
    with table_locked(postgres_database) as holder:
        writing = [
            asyncio.create_task(cache.put(bought(f"{number}"), asking(f"{number}"), IDENTITY))
            for number in range(50)
        ]
        await _until_waiting(postgres_database, reply_postgres.CONNECTIONS)
        for each in writing:
            each.cancel()
        await asyncio.gather(*writing, return_exceptions=True)
        holder.commit()
    await asyncio.to_thread(cache.close)
    assert len(saved(postgres_database)) == 50


async def _until_waiting(url: str, sessions: int) -> None:
    """Wait until that many sessions wait for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while (await asyncio.to_thread(execute, url, waiting))[0][0] != sessions:
        await asyncio.sleep(0.02)
