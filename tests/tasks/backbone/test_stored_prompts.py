"""Prompts in the reply cache: each is stored once, and caches of layout 1, which had none, are upgraded."""

import sqlite3
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.backbone.cache.store import ReplyCache, open_reply_cache
from tasks.backbone.protocol import (
    Message,
    Reply,
    Request,
    Tool,
    canonical_request,
    digest_of_canonical,
    request_digest,
    request_key,
)
from tasks.core.errors import ConfigurationError
from tests.support.postgres import execute, postgres_database
from tests.support.stored_replies import store_reply
from tests.tasks.backbone.test_backbone_cache import IDENTITY, asking, bought, location, path

__all__ = ["location", "path", "postgres_database"]

COLUMNS = """key TEXT PRIMARY KEY, model TEXT NOT NULL, backbone TEXT NOT NULL, created_at TEXT NOT NULL,
input_tokens INTEGER, cached_input_tokens INTEGER, output_tokens INTEGER, reasoning_tokens INTEGER,
text {bytes} NOT NULL, finish TEXT NOT NULL, seconds DOUBLE PRECISION NOT NULL, retries INTEGER NOT NULL,
cost_usd DOUBLE PRECISION, request {bytes} NOT NULL"""
"""Columns of the table of layout 1."""
OLD = asking("old")
VALUES = "'m', 'fake', '2026-01-01T00:00:00.000+00:00', 10, NULL, 3, NULL, {text}, 'stop', 1.5, 0, 0.25"


@pytest.fixture
def cache(location: Path | str) -> Iterator[ReplyCache]:
    with open_reply_cache(location) as opened:
        yield opened


def put(cache: ReplyCache, request: Request) -> Reply:
    reply = bought("")
    reply = replace(reply, call=replace(reply.call, request=request_key(IDENTITY, request)))
    store_reply(cache, reply, request, IDENTITY, "fake")
    return reply


def prompts(cache: ReplyCache) -> int:
    with cache._engine.connect() as connection:
        count: int = connection.exec_driver_sql("SELECT count(*) FROM reply_prompt").scalar_one()
    return count


def test_a_prompt_is_stored_once_and_every_reply_has_its_whole_request(cache: ReplyCache) -> None:
    tool = Tool("tables", "Name the tables.", {"type": "object"})
    first = Request(
        (Message("system", "be brief"), Message("user", "é \ud800")), {"type": "object"}, tools=(tool,)
    )
    turn = replace(first, messages=(*first.messages, Message("user", "go on")), known=2)
    asked = [first, replace(first, sample=1), replace(first, temperature=0.7), turn]
    for request in asked:
        put(cache, request)
    assert prompts(cache) == 2
    for request in asked:
        entry = cache.entry(request_key(IDENTITY, request))
        assert entry is not None and digest_of_canonical(entry.request) == request_digest(request)
        assert entry.request["backbone"] == IDENTITY


def test_prompts_that_no_reply_has_are_removed_with_the_replies(cache: ReplyCache) -> None:
    put(cache, asking("a"))
    put(cache, replace(asking("a"), sample=1))
    kept = put(cache, asking("b"))
    with cache._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE reply SET model = 'other' WHERE key = '" + kept.call.request + "'")
    assert cache.prune(model="m-2026") == 2 and prompts(cache) == 1
    assert not next(cache.entries()).damage


def test_a_reply_whose_prompt_is_missing_is_damaged_and_is_still_served(cache: ReplyCache) -> None:
    reply = put(cache, asking("a"))
    with cache._engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM reply_prompt")
    assert cache.get(reply.call.request) == reply
    (entry,) = cache.entries()
    assert "prompt is missing" in entry.damage


def test_removing_replies_takes_no_prompt_from_one_that_is_added_meanwhile(location: Path | str) -> None:
    ended = threading.Event()

    def remove() -> None:
        with open_reply_cache(location) as other:
            while not ended.is_set():
                other.prune(model="none")

    with open_reply_cache(location) as cache:
        removing = threading.Thread(target=remove)
        removing.start()
        try:
            for number in range(300):
                put(cache, asking(str(number)))
        finally:
            ended.set()
            removing.join()
        entries = list(cache.entries())
    assert len(entries) == 300 and not any(entry.damage for entry in entries)


def _is_upgraded(cache: ReplyCache) -> None:
    """Check that a cache has the reply to OLD with its request, and takes another."""
    key = request_key(IDENTITY, OLD)
    found, entry = cache.get(key), cache.entry(key)
    assert found is not None and found.text == "SELECT 1" and entry is not None
    assert digest_of_canonical(entry.request) == request_digest(OLD)
    put(cache, replace(OLD, sample=1))
    assert [each.damage for each in cache.entries()] == ["", ""] and prompts(cache) == 1


def test_a_file_of_layout_1_keeps_its_replies(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"CREATE TABLE reply ({COLUMNS.format(bytes='BLOB')})")
        values = VALUES.format(text="'SELECT 1'")
        packed = zlib.compress(canonical_request(IDENTITY, OLD).encode(), 1)
        database.execute(f"INSERT INTO reply VALUES (?, {values}, ?)", (request_key(IDENTITY, OLD), packed))
        database.execute("PRAGMA user_version = 1")
    with open_reply_cache(path) as first, open_reply_cache(path) as second:
        _is_upgraded(first)
        assert second.stats().entries == 2
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (2,)


def test_a_database_of_layout_1_keeps_its_replies(postgres_database: str) -> None:
    execute(postgres_database, f"CREATE TABLE reply ({COLUMNS.format(bytes='BYTEA')})")
    execute(postgres_database, "COMMENT ON TABLE reply IS 'Crosscheck''s replies, layout 1'")
    values = VALUES.format(text="'SELECT 1'")
    packed = zlib.compress(canonical_request(IDENTITY, OLD).encode(), 1).hex()
    key = request_key(IDENTITY, OLD)
    execute(postgres_database, f"INSERT INTO reply VALUES ('{key}', {values}, '\\x{packed}')")
    role = postgres_database.rpartition("/")[2] + "_user"
    execute(postgres_database, f"CREATE ROLE {role} LOGIN")
    try:
        execute(postgres_database, f"GRANT SELECT, INSERT ON reply TO {role}")
        with pytest.raises(ConfigurationError, match=r"must be owner of table reply.*owns the tables"):
            open_reply_cache(postgres_database.replace("postgres@", f"{role}@"))
    finally:
        execute(postgres_database, f"DROP OWNED BY {role}")
        execute(postgres_database, f"DROP ROLE {role}")
    with open_reply_cache(postgres_database) as cache:
        _is_upgraded(cache)
    with open_reply_cache(postgres_database) as cache:
        assert cache.stats().entries == 2
