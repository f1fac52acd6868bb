"""The reply cache on SQLite files and in PostgreSQL, both real: kill -9, several processes, damage, old layouts."""

import datetime
import logging
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import LargeBinary, Text, cast, literal, select

from tasks.backbone.cache.base import reply as reply_table
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
from tasks.core.errors import ConfigurationError, CrosscheckError, StoreError
from tasks.core.outcome import Call, Usage
from tests.support.postgres import execute, new_database, postgres_database
from tests.support.stored_replies import store_reply

ROOT = Path(__file__).parents[3]
IDENTITY = {"model": "m", "base_url": "http://x/v1"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "replies.sqlite"


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, path: Path) -> Iterator[Path | str]:
    """Where a cache of each kind is kept."""
    if request.param == "sqlite":
        yield path
        return
    with new_database() as url:
        yield url


@pytest.fixture
def cache(location: Path | str) -> Iterator[ReplyCache]:
    with open_reply_cache(location) as opened:
        yield opened


@pytest.fixture
def file(path: Path) -> Iterator[ReplyCache]:
    """A cache in a SQLite file."""
    with open_reply_cache(path) as opened:
        yield opened


def pragma(cache: ReplyCache, what: str) -> object:
    """Set or ask something of the connection that a cache in a file uses."""
    with cache._at_once.connect() as connection:
        rows = connection.exec_driver_sql(f"PRAGMA {what}")
        return rows.scalar() if rows.returns_rows else None


def location_of(argument: str) -> Path | str:
    """Return the location that a subprocess was given."""
    return argument if "://" in argument else Path(argument)


def asking(text: str) -> Request:
    return Request((Message("system", "be brief"), Message("user", text)))


def bought(text: str, answer: str = "SELECT 1", **changes: object) -> Reply:
    call: dict[str, object] = {
        "request": request_key(IDENTITY, asking(text)),
        "model": "m-2026",
        "usage": Usage(input=10, output=3),
        "cached": False,
        "seconds": 1.5,
        "retries": 1,
        "cost_usd": 0.25,
    }
    return Reply(answer, Call(**(call | changes)), truncated=False)  # type: ignore[arg-type]


def put(cache: ReplyCache, text: str, answer: str = "SELECT 1", **changes: object) -> Reply:
    reply = bought(text, answer, **changes)
    store_reply(cache, reply, asking(text), IDENTITY, "fake")
    return reply


def in_python(code: str, *arguments: object) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(program, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_reply_comes_back_as_it_was_bought_first(cache: ReplyCache) -> None:
    reply = put(cache, "q", "größer\n'x'", usage=Usage(1, None, 0, None), cost_usd=None)
    assert cache.get(reply.call.request) == reply
    assert cache.get("another") is None
    put(cache, "q", "second")
    assert cache.get(reply.call.request) == reply


def test_a_reply_survives_kill_9_right_after_it_was_put(location: Path | str) -> None:
    killed = in_python(
        """
        import os, signal, sys
        from tests.tasks.backbone.test_backbone_cache import location_of, open_reply_cache, put
        cache = open_reply_cache(location_of(sys.argv[1]))
        put(cache, "q", "paid for")
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        location,
    )
    assert killed.wait(300) == -signal.SIGKILL
    with open_reply_cache(location) as cache:
        kept = cache.get(bought("q").call.request)
    assert kept is not None and kept.text == "paid for"


@pytest.mark.slow
def test_several_processes_fill_one_cache_from_its_creation_on(location: Path | str) -> None:
    code = """
        import sys
        from tests.tasks.backbone.test_backbone_cache import location_of, open_reply_cache, put
        with open_reply_cache(location_of(sys.argv[1])) as cache:
            for number in range(200):
                put(cache, f"{number if number % 2 else sys.argv[2]}-{number}")
            assert not cache._unsaved
        """
    writers = [in_python(code, location, name) for name in "abcd"]
    for writer in writers:
        _, errors = writer.communicate(timeout=300)
        assert writer.returncode == 0, errors
        assert errors == ""
    with open_reply_cache(location) as cache:
        assert cache.stats().entries == 4 * 100 + 100


def test_somebody_who_is_reading_keeps_no_reply_from_being_saved(
    cache: ReplyCache, location: Path | str, caplog: pytest.LogCaptureFixture
) -> None:
    if isinstance(location, Path):
        pragma(cache, "busy_timeout = 10")
    for number in range(3):
        put(cache, str(number))
    reading = cache.entries()
    next(reading)
    reply = put(cache, "meanwhile")
    assert caplog.text == ""
    assert len(list(reading)) == 2  # as it was when the reading began
    assert cache.get(reply.call.request) == reply


def test_a_file_that_cannot_be_written_loses_no_reply_and_warns_once(
    file: ReplyCache, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pragma(file, "busy_timeout = 10")
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with caplog.at_level(logging.WARNING):
            first, second = put(file, "q"), put(file, "r")
        assert file.get(first.call.request) == first
        assert file.get(second.call.request) == second
        other.execute("ROLLBACK")
    other.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(path) in caplog.text and "locked" in caplog.text
    third = put(file, "s")
    with open_reply_cache(path) as afterwards:
        assert all(afterwards.get(reply.call.request) == reply for reply in (first, second, third))


def test_what_could_not_be_saved_before_is_saved_on_closing(path: Path) -> None:
    cache = open_reply_cache(path)
    pragma(cache, "busy_timeout = 10")
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        reply = put(cache, "q")
        other.execute("ROLLBACK")
    other.close()
    cache.close()
    with open_reply_cache(path) as afterwards:
        assert afterwards.get(reply.call.request) == reply


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CrosscheckError, match="cannot be opened"):
        open_reply_cache(tmp_path / "file" / "replies.sqlite")


def test_stats_count_by_model_and_keep_unknown_costs_apart(cache: ReplyCache) -> None:
    assert (cache.stats().entries, cache.stats().models) == (0, ())
    put(cache, "a")
    put(cache, "b", cost_usd=None)
    put(cache, "c", model="local", cost_usd=None)
    stats = cache.stats()
    assert stats.entries == 3 and stats.bytes > 0
    found = [(one.model, one.entries, one.cost_usd, one.unpriced) for one in stats.models]
    assert found == [("m-2026", 2, 0.25, 1), ("local", 1, None, 1)]


def test_entries_are_listed_newest_first_with_their_request(cache: ReplyCache) -> None:
    old = put(cache, "old", model="other")
    put(cache, "new")
    damage(cache, old, created_at="2020-01-01T00:00:00.000+00:00")
    new, _old = cache.entries()
    assert (new.text, new.finish, new.damage) == ("SELECT 1", "stop", "")
    assert new.request["messages"] == [["system", "be brief"], ["user", "new"]]
    assert new.request["backbone"] == IDENTITY
    with cache._at_once.connect() as connection:
        rows = connection.execute(select(reply_table.c.backbone, reply_table.c.created_at)).all()
    assert {row.backbone for row in rows} == {"fake"}
    assert all(datetime.datetime.fromisoformat(row.created_at).tzinfo is not None for row in rows)


def test_pruning_deletes_the_replies_of_a_model_and_gives_their_space_back(
    cache: ReplyCache, file: ReplyCache
) -> None:
    for number in range(50):
        put(file, str(number), "x" * 20_000)
    before = file.stats().bytes
    file.prune("m-2026")
    assert file.stats().bytes < before / 10
    first, other = put(cache, "first"), put(cache, "other", model="other")
    assert cache.prune("none") == 0
    assert cache.prune("other") == 1
    assert cache.get(other.call.request) is None and cache.get(first.call.request) is not None
    assert cache.stats().entries == 1


def test_the_key_of_a_request_is_what_it_was() -> None:
    known = "e169357d54b6e7956869"
    assert request_key(IDENTITY, asking("größer \U0001f600")).startswith(known)


def damage(cache: ReplyCache, reply: Reply, **values: object) -> str:
    """Change columns of a stored reply, by default its request; return its key."""
    key = reply.call.request
    with cache._at_once.connect() as connection:
        columns = values or {"request": b"garbage"}
        connection.execute(reply_table.update().where(reply_table.c.key == key).values(columns))
    return key


def test_whatever_a_model_writes_and_is_asked_can_be_read_again(cache: ReplyCache) -> None:
    texts = {"a NUL \x00 in it", "half \ud83d of a pair", "größer \U0001f600"}
    for text in texts:
        put(cache, text, text)
    entries = list(cache.entries())
    assert (
        {entry.text for entry in entries} == {entry.request["messages"][1][1] for entry in entries} == texts
    )


NO_UTF8 = {"text": cast(literal(b"SELE\xffCT"), LargeBinary)}
NO_UTF8_BUT_TEXT = {"text": cast(literal(b"SELE\xffCT"), Text)}


@pytest.mark.parametrize("values", [NO_UTF8, NO_UTF8_BUT_TEXT], ids=["bytes", "text"])
def test_a_damaged_reply_is_named_and_removed_and_the_others_are_read(
    cache: ReplyCache, values: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    if values is NO_UTF8_BUT_TEXT and cache.location.startswith("postgres"):
        pytest.skip("the column holds bytes there")
    replies = [put(cache, text) for text in ("first", "second", "third")]
    key = damage(cache, replies[1], **values)
    with pytest.raises(StoreError, match=rf"damaged in 1 of its entries: {key} \(its text is no UTF-8\)"):
        cache.get(key)
    assert cache.get(replies[0].call.request) == replies[0]
    other = damage(cache, replies[2])
    assert cache.get(other) == replies[2], "its request is damaged, and what was bought is not"
    assert cache.entry(other) is None and other in caplog.text
    whole = {entry.key: not entry.damage for entry in cache.entries()}
    assert whole == {replies[0].call.request: True, key: False, other: False}
    assert cache.remove(cache.damaged()) == 2
    assert [entry.key for entry in cache.entries()] == [replies[0].call.request]
    assert (cache.damaged(), cache.remove([]), cache.get(key)) == ([], 0, None)


def test_the_replies_of_an_earlier_release_are_found(path: Path) -> None:
    """The file was written by commit 39ba542 with `put` of this module, and dumped with `sqlite3.iterdump`."""
    path.parent.mkdir()
    dump = Path(__file__).parent / "fixtures" / "replies_written_by_39ba542.sql"
    with sqlite3.connect(path) as connection:
        connection.executescript(dump.read_text(encoding="utf-8"))
    with open_reply_cache(path) as cache:
        assert cache.get(request_key(IDENTITY, asking("how many heroes?"))) == bought("how many heroes?")
        odd = cache.get(request_key(IDENTITY, asking("odd \N{SNOWMAN}")))
        assert odd and (odd.text, odd.call.cost_usd) == ("SELECT '\ud83d', '\x00'", None)
        sampled = cache.get(request_key(IDENTITY, asking("sampled")))
        assert sampled is not None and sampled.truncated
        asked = [entry.request["messages"][1][1] for entry in cache.entries()]
        assert asked == ["sampled", "odd \N{SNOWMAN}", "how many heroes?"]
        put(cache, "one more")
        assert cache.stats().entries == 4


__all__ = ["postgres_database"]

COLUMNS = """key TEXT PRIMARY KEY, model TEXT NOT NULL, backbone TEXT NOT NULL, created_at TEXT NOT NULL,
input_tokens INTEGER, cached_input_tokens INTEGER, output_tokens INTEGER, reasoning_tokens INTEGER,
text {bytes} NOT NULL, finish TEXT NOT NULL, seconds DOUBLE PRECISION NOT NULL, retries INTEGER NOT NULL,
cost_usd DOUBLE PRECISION, request {bytes} NOT NULL"""
"""Columns of the table of layout 1."""
OLD = asking("old")
VALUES = "'m', 'fake', '2026-01-01T00:00:00.000+00:00', 10, NULL, 3, NULL, {text}, 'stop', 1.5, 0, 0.25"


def put_request(cache: ReplyCache, request: Request) -> Reply:
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
        put_request(cache, request)
    assert prompts(cache) == 2
    for request in asked:
        entry = cache.entry(request_key(IDENTITY, request))
        assert entry is not None and digest_of_canonical(entry.request) == request_digest(request)
        assert entry.request["backbone"] == IDENTITY


def test_prompts_that_no_reply_has_are_removed_with_the_replies(cache: ReplyCache) -> None:
    put_request(cache, asking("a"))
    put_request(cache, replace(asking("a"), sample=1))
    kept = put_request(cache, asking("b"))
    with cache._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE reply SET model = 'other' WHERE key = '" + kept.call.request + "'")
    assert cache.prune(model="m-2026") == 2 and prompts(cache) == 1
    assert not next(cache.entries()).damage


def test_a_reply_whose_prompt_is_missing_is_damaged_and_is_still_served(cache: ReplyCache) -> None:
    reply = put_request(cache, asking("a"))
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
                put_request(cache, asking(str(number)))
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
    put_request(cache, replace(OLD, sample=1))
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
