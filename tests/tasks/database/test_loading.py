"""Copies of SQLite databases in other engines: types, keys, repetition, and what is never dropped."""

import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from tasks.core.errors import ConfigurationError, DataError
from tasks.database.database import Database, locate, open_database
from tasks.database.loading.load import LoadChoice, Loaded, load_database
from tasks.database.loading.plan import Source
from tasks.database.loading.target import TARGETS
from tasks.database.location import Location
from tasks.database.sandbox.workers import SqlWorkers
from tasks.database.schema import ColumnDescription
from tests.support import mariadb, postgres

pytestmark = pytest.mark.slow

SHOP = """
CREATE TABLE town (id INTEGER PRIMARY KEY, Name TEXT, "Area (km2)" REAL, founded DATE);
CREATE TABLE shop (
    id TEXT PRIMARY KEY, town INTEGER REFERENCES town (id), opened DATETIME, open BOOLEAN, size INTEGER, logo BLOB,
    partner TEXT REFERENCES shop (id)
);
CREATE TABLE odd (a INTEGER, b DATE, c, d REFERENCES town (id), e BOOLEAN, f DECIMAL(9, 2));
INSERT INTO town VALUES (1, 'Oslo', 454, '1048-01-01'), (2, 'Rome', 1285.5, NULL);
INSERT INTO shop VALUES ('a', 1, '2026-11-01 09:30:00', 1, 5, x'01ff', NULL),
    ('b', 2, '2026-11-02T10:00:00.5', 0, NULL, NULL, 'a');
INSERT INTO odd VALUES (1, '2026-02-30', 1, 1, 2, 2.5),
    ('n/a', '2026-02-01', 'x', 9, 0, 3), ('', 2026, x'00ff', NULL, 1, NULL);
"""
COPIED = """SELECT t.id, Name, "Area (km2)", founded, opened, open, size, logo, partner
FROM town t JOIN shop s ON s.town = t.id ORDER BY t.id"""
ROWS = (
    (1, "Oslo", 454.0, "1048-01-01", "2026-11-01 09:30:00", True, 5, b"\x01\xff", None),
    (2, "Rome", 1285.5, None, "2026-11-02 10:00:00.5", False, None, None, "a"),
)


@pytest.fixture
def shop(tmp_path: Path) -> Database:
    """A small SQLite database with a column of everything."""
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SHOP)
    about = {("town", "name"): ColumnDescription("the name of the town; it's short", "in English")}
    return open_database(path, "shop", descriptions=about)


@pytest.fixture(params=["duckdb", "postgresql", "mysql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    """An empty database of each engine, as a role that may write."""
    if request.param == "duckdb":
        yield locate(f"duckdb:///{tmp_path}/copies/shop.duckdb")
    elif request.param == "postgresql":
        with postgres.new_database() as url:
            yield locate(url, writable=True)
    else:
        with mariadb.new_database() as url:
            yield locate(f"mysql://root@{mariadb.HOST}/{url.rpartition('/')[2]}", writable=True)


def load(shop: Database, to: Location, **choice: Any) -> Loaded:
    return load_database(shop, to, LoadChoice(**choice), lambda rows, total: None)


async def test_a_copy_has_the_same_values_as_types_of_the_engine(shop: Database, target: Location) -> None:
    done = load(shop, target)
    assert (done.outcome, done.tables, done.rows) == ("loaded", 3, 7)
    copy = open_database(target, "shop")
    async with SqlWorkers(1) as workers:
        found = await workers.execute(copy, COPIED.replace('"', "`" if target.engine == "mysql" else '"'))
        odd = await workers.execute(copy, "SELECT a, b, c, d, e, f FROM odd ORDER BY f")
    assert found.ok, found.error
    shown = [
        tuple(v.rstrip("0") if isinstance(v, str) and "." in v else v for v in row) for row in found.rows
    ]
    assert tuple(shown) == ROWS
    assert set(odd.rows) == {
        ("1", "2026-02-30", "1", 1, 2, 2.5),
        ("n/a", "2026-02-01", "x", 9, 0, 3),
        ("", "2026", "00FF", None, 1, None),
    }


async def test_texts_that_end_in_blanks_stay_different(target: Location, tmp_path: Path) -> None:
    path = tmp_path / "code.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE code (id TEXT PRIMARY KEY, name TEXT); INSERT INTO code VALUES ('a', 'x'), ('a ', 'x ')"
        )
    assert load(open_database(path, "code"), target).notes == ()
    async with SqlWorkers(1) as workers:
        copy = open_database(target, "code")
        found = await workers.execute(copy, "SELECT name, count(*) FROM code GROUP BY name ORDER BY name")
        assert found.rows == (("x", 1), ("x ", 1)), found.error
        assert (await workers.execute(copy, "SELECT id FROM code WHERE name = 'x'")).rows == (("a",),)


ODD_KEYS = """
CREATE TABLE "100 %s" (id TEXT PRIMARY KEY COLLATE NOCASE); INSERT INTO "100 %s" VALUES ('a'), ('b');
CREATE TABLE item (code TEXT REFERENCES "100 %s" (id)); INSERT INTO item VALUES ('A'), ('b');
CREATE TABLE old (day DATE, at DATETIME, exact DATETIME, place TEXT PRIMARY KEY);
INSERT INTO old VALUES ('0000-01-01', '-0044-03-15 09:30:00', '2026-11-01 09:30:00.1234567', 'Rome');
"""


async def test_keys_and_moments_that_an_engine_takes_otherwise_are_copied_as_they_are(
    target: Location, tmp_path: Path
) -> None:
    path = tmp_path / "odd.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(ODD_KEYS)
    source = open_database(path, "odd")
    done = load(source, target)
    assert [note for note in done.notes if "which 1 of 2 rows break" in note]
    copy = open_database(target, "odd")
    assert copy.schema.foreign_keys == ()
    async with SqlWorkers(1) as workers:
        for table in ("item", "old"):
            found = [await workers.execute(each, f"SELECT * FROM {table}") for each in (source, copy)]
            assert found[0].rows == found[1].rows


def test_keys_that_hold_and_comments_are_copied_and_the_mark_is_not_shown(
    shop: Database, target: Location
) -> None:
    done = load(shop, target)
    schema = open_database(target, "shop").schema
    assert sorted(table.name for table in schema.tables) == ["odd", "shop", "town"]
    assert {table.name: table.primary_key for table in schema.tables} == {
        "odd": (),
        "shop": ("id",),
        "town": ("id",),
    }
    keys = {(key.table, key.columns, key.parent) for key in schema.foreign_keys}
    assert ("shop", ("town",), "town") in keys
    assert (("shop", ("partner",), "shop") in keys) == (target.engine != "duckdb")
    town = schema.table("town")
    assert town is not None and town.columns[1].description == "the name of the town; it's short; in English"
    assert [note for note in done.notes if "odd (d) to town (id), which 1 of 3 rows break" in note]


def test_a_complete_copy_is_not_made_again_and_one_of_other_content_is_replaced(
    shop: Database, target: Location
) -> None:
    assert load(shop, target, dry_run=True).outcome == "would be loaded"
    assert load(shop, target).outcome == "loaded"
    assert load(shop, target).outcome == "unchanged"
    assert load(replace(shop, digest="other"), target, dry_run=True).outcome == "would be replaced"
    assert load(replace(shop, digest="other"), target).outcome == "replaced"
    assert load(shop, target, invalid="null").outcome == "replaced"


def test_what_was_interrupted_is_replaced(
    shop: Database, target: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Source.rows

    def broken(self: Source, table: Any) -> Iterator[Any]:
        yield from rows(self, table)
        if table.name == "shop":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Source, "rows", broken)
        with pytest.raises(KeyboardInterrupt):
            load(shop, target)
    assert load(shop, target).outcome in ("loaded", "replaced")
    assert load(shop, target).outcome == "unchanged"


def test_tables_of_others_are_never_dropped_unless_that_is_asked_for(
    shop: Database, target: Location
) -> None:
    execute: Callable[[str], object] = {
        "duckdb": lambda sql: on_duckdb(target, sql),
        "postgresql": lambda sql: postgres.execute(target.address, sql),
        "mysql": lambda sql: mariadb.execute(sql, database=target.address.rpartition("/")[2]),
    }[target.engine]
    execute("CREATE TABLE mine (a INT)")
    with pytest.raises(
        ConfigurationError, match=r"holds tables that `crosscheck load` has not created: mine.*--replace"
    ):
        load(shop, target)
    assert load(shop, target, replace=True).outcome == "replaced"
    execute("CREATE TABLE mine (a INT)")
    with pytest.raises(ConfigurationError, match="mine"):
        load(replace(shop, digest="other"), target)
    execute("CREATE VIEW towns AS SELECT id FROM town")
    if target.engine == "postgresql":
        execute("CREATE MATERIALIZED VIEW kept AS SELECT id FROM towns")
    assert load(replace(shop, digest="other"), target, replace=True).outcome == "replaced"
    assert load(replace(shop, digest="other"), target).outcome == "unchanged"


def test_the_log_of_a_duckdb_file_that_is_replaced_goes_with_it(shop: Database, tmp_path: Path) -> None:
    target = locate(f"duckdb:///{tmp_path}/copies/shop.duckdb")
    on_duckdb(target, "CREATE TABLE mine (a INT)")
    killed = (
        "import duckdb, os, sys; connection = duckdb.connect(sys.argv[1]); "
        "connection.execute('INSERT INTO mine VALUES (1)'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", killed, str(target.path)], check=True)
    assert target.path.with_name("shop.duckdb.wal").exists()
    assert load(shop, target, replace=True).outcome == "replaced"
    assert {table.name for table in open_database(target, "shop").schema.tables} == {"town", "shop", "odd"}


def on_duckdb(target: Location, sql: str) -> None:
    target.path.parent.mkdir(exist_ok=True)
    with duckdb.connect(str(target.path)) as connection:
        connection.execute(sql)


def test_values_that_do_not_fit_can_become_null(shop: Database) -> None:
    with Source(shop, "postgres", "null") as source:
        plan = source.plan()
        odd = next(table for table in plan.tables if table.name == "odd")
        assert {column.name: column.kind for column in odd.columns} == {
            "a": "integer",
            "b": "date",
            "c": "text",
            "d": "integer",
            "e": "integer",
            "f": "real",
        }
        assert list(source.rows(odd))[1:] == [
            (None, "2026-02-01", "x", 9, 0, 3.0),
            (None, None, "00FF", None, 1, None),
        ]
    assert "odd.a (INTEGER): 2 of 3 values are no integer; they are NULL." in plan.notes


REACHING = (
    "SELECT ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery')",
    "SELECT query_to_xml('SELECT 1', true, true, '')",
    "SELECT * FROM ts_stat('SELECT ''a''::tsvector')",
    "SELECT query FROM pg_stat_activity",
    "SELECT pg_terminate_backend(pg_backend_pid())",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_sleep(0)",
    "SELECT lo_create(0)",
    "CREATE TABLE evil (a int)",
    "CREATE TEMP TABLE evil (a int)",
    "DELETE FROM town",
)


def test_a_reader_that_is_made_reads_copies_on_postgresql_and_can_do_nothing_else(
    shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_READER_PASSWORD", "it's secret")
    role, name = f"crosscheck_reader_{uuid.uuid4().hex[:16]}", f"crosscheck_test_{uuid.uuid4().hex}"
    server = f"{postgres.SERVER}/postgres"
    try:
        load(shop, locate(f"{postgres.SERVER}/{name}"), reader=role)
        load(shop, locate(f"{postgres.SERVER}/{name}"), reader=role)
        url = f"{postgres.SERVER}/{name}".replace("postgres@", f"{role}@")
        assert open_database(locate(url), "shop").schema.table("town")
        assert postgres.execute(url, "SHOW temp_file_limit") == [("1GB",)]
        for sql in REACHING:
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)):
                postgres.execute(url, sql)
        kept = postgres.execute(server, f"SELECT rolpassword FROM pg_authid WHERE rolname = '{role}'")
        assert str(kept[0][0]).startswith(("SCRAM", "md5"))
    finally:
        postgres.execute(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        postgres.execute(server, f"DROP ROLE IF EXISTS {role}")


def test_a_reader_that_is_made_reads_copies_on_mariadb_and_is_not_made_without_a_password(
    shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mariadb.new_database() as there:
        name, role = there.rpartition("/")[2], f"r{uuid.uuid4().hex[:16]}"
        root = locate(f"mysql://root@{mariadb.HOST}/{name}")
        monkeypatch.delenv("CROSSCHECK_READER_PASSWORD", raising=False)
        with pytest.raises(ConfigurationError, match="CROSSCHECK_READER_PASSWORD"):
            load(shop, root, reader=role)
        monkeypatch.setenv("CROSSCHECK_READER_PASSWORD", "it's secret")
        try:
            load(shop, root, reader=role)
            reader = locate(f"mysql://{role}:it%27s%20secret@{mariadb.HOST}/{name}")
            assert open_database(reader, "shop").schema.table("town")
            with pytest.raises(DataError):
                open_database(locate(f"mysql://{role}:wrong@{mariadb.HOST}/{name}"), "shop")
        finally:
            mariadb.execute(f"DROP USER IF EXISTS {role}@'%'")


def test_names_are_in_lower_case_where_sql_without_quotes_is_read_so(shop: Database) -> None:
    with Source(shop, "postgres", "text") as source:
        town = source.plan().tables[0]
    assert [column.name for column in town.columns] == ["id", "name", "Area (km2)", "founded"]


def test_a_reader_may_read_a_copy_and_the_owner_of_nothing_is_told_what_it_needs(shop: Database) -> None:
    with postgres.new_reader() as url:
        owner = url.replace(url.partition("@")[0], "postgresql://postgres")
        reader = url.partition("//")[2].partition("@")[0]
        load(shop, locate(owner), reader=reader)
        assert open_database(locate(url), "shop").schema.table("town")
        with pytest.raises(DataError, match=r"permission denied.*CREATEDB"):
            load(shop, locate(url.rpartition("/")[0] + "/not_there_yet"))
    with pytest.raises(
        ConfigurationError, match=rf"copied into {', '.join(TARGETS.names())}, not into sqlite"
    ):
        load(shop, shop.location)
