"""Copies of SQLite databases in other engines: exact values, keys, repetition, and what is never dropped."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from tasks.core.errors import ConfigurationError, DatabaseUnavailableError, DataError
from tasks.database import loading
from tasks.database.database import Database, locate, open_database
from tasks.database.limits import Limits
from tasks.database.loading import copy_database
from tasks.database.location import Location
from tasks.database.sandbox import process
from tasks.database.sandbox.runner import in_sandbox
from tasks.database.sandbox.workers import SqlWorkers
from tests.support import mariadb, postgres
from tests.support.engines import owned
from tests.tasks.database.conftest import Build

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
CREATE VIEW big_town AS SELECT * FROM town WHERE "Area (km2)" > 1000;
"""
COPIED = """SELECT t.id, Name, "Area (km2)", founded, opened, open, size, logo, partner
FROM town t JOIN shop s ON s.town = t.id ORDER BY t.id"""
ROWS = (
    (1, "Oslo", 454.0, "1048-01-01", "2026-11-01 09:30:00", 1, 5, b"\x01\xff", None),
    (2, "Rome", 1285.5, None, "2026-11-02T10:00:00.5", 0, None, None, "a"),
)


@pytest.fixture
def shop(build_database: Build, tmp_path: Path) -> Database:
    """A small SQLite database with a column of everything."""
    return build_database(tmp_path / "shop.sqlite", SHOP)


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
            yield locate(owned(url), writable=True)


async def test_a_copy_has_the_values_as_sqlite_reads_them(shop: Database, target: Location) -> None:
    done = copy_database(shop, target)
    assert (done.copied, done.tables, done.rows) == (True, 3, 7)
    assert "Not copied, because they are views: big_town." in done.notes
    copy = open_database(target, "shop")
    async with SqlWorkers(1) as workers:
        found = await workers.execute(copy, COPIED.replace('"', "`" if target.engine == "mysql" else '"'))
        odd = await workers.execute(copy, "SELECT a, b, c, d, e, f FROM odd ORDER BY f")
    assert found.ok, found.error
    assert tuple(found.rows) == ROWS
    assert set(odd.rows) == {
        ("1", "2026-02-30", "1", 1, 2, 2.5),
        ("n/a", "2026-02-01", "x", 9, 0, 3),
        ("", "2026", "00FF", None, 1, None),
    }
    assert [note for note in done.notes if "odd.a (INTEGER) is text" in note]


KEYS = """SELECT column_name, constraint_name FROM information_schema.key_column_usage
WHERE table_schema = database() AND referenced_table_name IS NOT NULL"""


@pytest.mark.parametrize("target", ["mysql"], indirect=True)
def test_a_copy_that_was_killed_before_its_foreign_keys_gets_them(shop: Database, target: Location) -> None:
    """MySQL keeps what each statement has changed, so that a killed call leaves tables without their last keys."""
    database = target.address.rpartition("/")[2]

    def keys() -> set[tuple[str, str]]:
        return {(column, name) for column, name in mariadb.execute(KEYS, database=database)}

    assert copy_database(shop, target).copied
    complete = {column for column, _ in keys()}
    for column, name in keys():
        if column == "partner":
            mariadb.execute(f"ALTER TABLE shop DROP FOREIGN KEY {name}", database=database)
    assert complete == {"town", "partner"} and {column for column, _ in keys()} == {"town"}
    for _ in range(2):
        assert not copy_database(shop, target).copied
        assert sorted(column for column, _ in keys()) == ["partner", "town"]


NUMBERS = """
CREATE TABLE number (id INTEGER PRIMARY KEY, whole INTEGER, mixed REAL, large, small DECIMAL(5, 2));
INSERT INTO number VALUES (1, 9223372036854775807, 9007199254740992, NULL, 1e-300),
    (2, -9223372036854775808, 0.1, NULL, 0.30000000000000004),
    (3, 9007199254740993, NULL, NULL, 1.7976931348623157e308);
UPDATE number SET large = 9007199254740993 WHERE id = 1;
UPDATE number SET large = 0.30000000000000004 WHERE id = 2;
UPDATE number SET large = -9223372036854775808 WHERE id = 3;
"""


async def test_large_integers_beside_reals_and_all_digits_of_doubles_arrive(
    target: Location, build_database: Build, tmp_path: Path
) -> None:
    source = build_database(tmp_path / "numbers.sqlite", NUMBERS)
    copy_database(source, target)
    copy = open_database(target, "numbers")
    async with SqlWorkers(1) as workers:
        sql = "SELECT whole, mixed, small FROM number ORDER BY id"
        before, copied = await workers.execute(source, sql), await workers.execute(copy, sql)
        large = await workers.execute(copy, "SELECT large FROM number ORDER BY id")
    assert copied.rows == before.rows
    assert large.rows == (("9007199254740993",), ("0.30000000000000004",), ("-9223372036854775808",))


async def test_blanks_at_the_end_stay(target: Location, build_database: Build, tmp_path: Path) -> None:
    script = (
        "CREATE TABLE code (id TEXT PRIMARY KEY, name TEXT); INSERT INTO code VALUES ('a', 'x'), ('a ', 'x ')"
    )
    source = build_database(tmp_path / "code.sqlite", script)
    assert copy_database(source, target).notes == ()
    async with SqlWorkers(1) as workers:
        copy = open_database(target, "code")
        found = await workers.execute(copy, "SELECT name, count(*) FROM code GROUP BY name ORDER BY name")
        assert found.rows == (("x", 1), ("x ", 1)), found.error
        assert (await workers.execute(copy, "SELECT id FROM code WHERE name = 'x'")).rows == (("a",),)


ODD_NAMES = """
CREATE TABLE "100 %s" ("id (%)" TEXT PRIMARY KEY COLLATE NOCASE, "order" TEXT);
INSERT INTO "100 %s" VALUES ('a', 1), ('b', 2);
CREATE TABLE item (code TEXT REFERENCES "100 %s" ("id (%)"), "a:b" TEXT);
INSERT INTO item VALUES ('A', ''), ('b', NULL);
CREATE TABLE wide_key (id TEXT PRIMARY KEY, other TEXT UNIQUE);
INSERT INTO wide_key VALUES (printf('%.*c', 1000, 'x'), 'y'), (NULL, NULL);
CREATE TABLE blank (id TEXT PRIMARY KEY); INSERT INTO blank VALUES ('');
"""


async def test_odd_names_are_copied_and_a_key_that_does_not_hold_is_left_out(
    target: Location, build_database: Build, tmp_path: Path
) -> None:
    source = build_database(tmp_path / "odd.sqlite", ODD_NAMES)
    done = copy_database(source, target)
    assert [note for note in done.notes if note.startswith("wide_key: without its primary key")]
    keys = [note for note in done.notes if "foreign key" in note]
    assert keys and ("DuckDB" in keys[0] or "item (code) to 100 %s" in keys[0])
    copy = open_database(target, "odd")
    assert copy.schema.foreign_keys == ()
    async with SqlWorkers(1) as workers:
        for table in ("item", "wide_key", "blank"):
            found = [await workers.execute(each, f"SELECT * FROM {table}") for each in (source, copy)]
            assert set(found[0].rows) == set(found[1].rows) and found[0].rows


def test_keys_that_hold_are_copied_and_a_whole_copy_not_made_again(shop: Database, target: Location) -> None:
    done = copy_database(shop, target)
    schema = open_database(target, "shop").schema
    primary = {table.name: table.primary_key for table in schema.tables}
    assert primary == {"odd": (), "shop": ("id",), "town": ("id",)}
    again = copy_database(shop, target)
    assert (done.copied, again.copied, again.rows) == (True, False, done.rows)
    keys = {(key.table, key.columns, key.parent) for key in schema.foreign_keys}
    if target.engine == "duckdb":
        assert keys == set() and "DuckDB's copy has no foreign keys." in done.notes
    else:
        assert keys == {("shop", ("town",), "town"), ("shop", ("partner",), "shop")}
        assert [note for note in done.notes if "foreign key odd (d) to town" in note]


@pytest.mark.parametrize("target", ["postgresql", "mysql"], indirect=True)
def test_keys_to_unique_columns_are_copied(target: Location, build_database: Build, tmp_path: Path) -> None:
    player = "id INTEGER PRIMARY KEY, code TEXT UNIQUE, team INT, place INT, UNIQUE (team, place)"
    goal = "code TEXT REFERENCES player (code), helper TEXT REFERENCES player (code), team INT, place INT"
    source = build_database(
        tmp_path / "game.sqlite",
        f"""CREATE TABLE player ({player});
        CREATE TABLE goal ({goal}, FOREIGN KEY (team, place) REFERENCES player (team, place));
        INSERT INTO player VALUES (1, 'a', 1, 1), (2, 'b', 1, 2), (3, NULL, NULL, 1);
        INSERT INTO goal VALUES ('a', 'b', 1, 2), ('a', NULL, NULL, NULL);""",
    )
    assert copy_database(source, target).notes == ()
    assert set(open_database(target, "game").schema.foreign_keys) == set(source.schema.foreign_keys)


def test_tables_of_others_and_incomplete_copies_are_never_touched(shop: Database, target: Location) -> None:
    execute: Callable[[str], object] = {
        "duckdb": lambda sql: on_duckdb(target, sql),
        "postgresql": lambda sql: postgres.execute(target.address, sql),
        "mysql": lambda sql: mariadb.execute(sql, database=target.address.rpartition("/")[2]),
    }[target.engine]
    execute("CREATE TABLE mine (a INT)")
    with pytest.raises(ConfigurationError, match=r"no copy of shop.*mine"):
        copy_database(shop, target)
    execute("DROP TABLE mine")
    assert copy_database(shop, target).copied
    execute("CREATE VIEW towns AS SELECT id FROM town")
    with pytest.raises(ConfigurationError, match=r"no copy of shop.*towns"):
        copy_database(shop, target)
    execute("DROP VIEW towns")
    execute("DELETE FROM odd")
    with pytest.raises(ConfigurationError, match=r"not a complete one: .*odd"):
        copy_database(shop, target)


def on_duckdb(target: Location, sql: str) -> None:
    target.path.parent.mkdir(exist_ok=True)
    with duckdb.connect(str(target.path)) as connection:
        connection.execute(sql)


ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) AS a FROM r"
HOURS = "instr(zeroblob(30000000), zeroblob(15000000) || x'01')"


HOSTILE = f"""
CREATE TABLE first (a); INSERT INTO first VALUES (1), (2);
CREATE TABLE then_this (a); INSERT INTO then_this VALUES (1); CREATE VIEW endless AS {ENDLESS};
ALTER TABLE then_this ADD COLUMN b AS """
"""A database whose second table computes a column of every row."""


def tables_of(target: Location) -> list[str]:
    try:
        return [table.name for table in open_database(target, "shop").schema.tables]
    except DataError:
        return []


def test_a_file_whose_values_are_huge_is_refused_and_nothing_of_it_copied(
    target: Location, build_database: Build, tmp_path: Path
) -> None:
    source = build_database(tmp_path / "shop.sqlite", f"{HOSTILE} (zeroblob(900000000))")
    said = r'"shop": SQLite cannot read .*shop\.sqlite \(string or blob too big'
    with pytest.raises(DataError, match=said):
        copy_database(source, target)
    assert tables_of(target) == []


def test_a_file_that_computes_for_hours_ends_in_one_message_and_nothing_of_it_is_copied(
    target: Location, build_database: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "START_S", 5.0)
    source = build_database(tmp_path / "shop.sqlite", f"{HOSTILE} (a)")
    with closing(sqlite3.connect(source.path)) as connection:
        connection.executescript(f"ALTER TABLE then_this ADD COLUMN c AS ({HOURS})")
    source = replace(source, schema=open_database(source.path, "shop", sample_rows=0).schema)
    monkeypatch.setattr(loading, "LIMITS", Limits(timeout_s=0.5, memory_mb=1024, writes_files=True))
    with pytest.raises(DataError, match=r"shop\.sqlite cannot be read within 0\.5 s.*leave the database out"):
        copy_database(source, target)
    assert tables_of(target) == []


def test_a_damaged_file_ends_in_one_message_and_nothing_of_it_is_copied(
    target: Location, build_database: Build, tmp_path: Path
) -> None:
    many = "INSERT INTO b SELECT value, hex(zeroblob(500)) FROM json_each(printf('[%.*c1]', 3998, '1,'))"
    tables = "CREATE TABLE a (x); CREATE TABLE b (x, y)"
    source = build_database(tmp_path / "shop.sqlite", f"{tables}; {many}")
    content = source.path.read_bytes()
    source.path.write_bytes(content[: len(content) // 2] + b"\xff" * (len(content) // 2))
    with pytest.raises((DataError, DatabaseUnavailableError), match=r"shop\.sqlite .*malformed"):
        copy_database(source, target)
    assert tables_of(target) == []


def test_what_fails_while_rows_are_sent_leaves_no_table_behind(shop: Database, target: Location) -> None:
    surveys = {
        table.name: loading.Survey(0, {column.name: ({"integer"}, 1) for column in table.columns})
        for table in shop.schema.tables
    }
    with pytest.raises((DataError, ValueError)):
        in_sandbox(
            loading.copy_tables, shop.location, shop, surveys, target, timeout_s=60, limits=loading.LIMITS
        )
    assert tables_of(target) == []


def test_a_missing_database_is_created_with_texts_in_the_order_of_their_bytes(shop: Database) -> None:
    with postgres.new_database() as url:
        new = f"{url}_new"
        try:
            assert copy_database(shop, locate(new)).copied
            names = postgres.execute(new, "SELECT 'B' < 'a', Name FROM town ORDER BY 2")
            assert names == [(True, "Oslo"), (True, "Rome")]
        finally:
            postgres.execute(url, f"DROP DATABASE IF EXISTS {new.rpartition('/')[2]} WITH (FORCE)")


def test_what_cannot_be_a_copy_is_told_in_words(shop: Database) -> None:
    with postgres.new_reader() as url:
        with pytest.raises(DataError, match=r"permission denied.*CREATEDB"):
            copy_database(shop, locate(url.rpartition("/")[0] + "/not_there_yet"))
        with pytest.raises(DataError, match=r"permission denied.*must own"):
            copy_database(shop, locate(url))
    with pytest.raises(ConfigurationError, match=r"copied into postgresql, mysql, duckdb, not into sqlite"):
        copy_database(shop, shop.location)
