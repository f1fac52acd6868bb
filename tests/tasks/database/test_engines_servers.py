"""What users of a server meet: wrong addresses, roles that may write, lost connections, and what is never shown."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from tasks.core.errors import ConfigurationError, CrosscheckError, DatabaseUnavailableError, DataError
from tasks.core.records import ColumnName
from tasks.database.database import database_name, locate, open_database
from tasks.database.loading import copy_database
from tasks.database.location import Location
from tasks.database.sandbox.workers import SqlWorkers
from tasks.retrieval.value_index import ValueIndex
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import DEFAULT_RULES, strict
from tasks.scoring.metrics.causes import classify_sql
from tasks.sql.transpiling import transpile
from tests.support import mariadb, postgres
from tests.support.engines import SERVERS, database_on, owned, reader_of, verify_unchanged

pytestmark = pytest.mark.slow

TABLES = (
    "CREATE TABLE town (id INTEGER PRIMARY KEY, name VARCHAR(50))",
    "CREATE TABLE shop (id INTEGER PRIMARY KEY, town INTEGER REFERENCES town (id), size DECIMAL(9, 1))",
    "INSERT INTO town VALUES (1, 'Oslo'), (2, 'Rome')",
    "INSERT INTO shop VALUES (1, 2, 2.5), (2, 2, 3.0)",
)
COMMENT = "COMMENT ON COLUMN town.name IS 'the name of the town'"


VIEW = "CREATE VIEW large AS SELECT town, size FROM shop WHERE size > 2.5"
ENGINES = ("duckdb", "postgresql", "mysql")


@contextmanager
def shop_on(engine: str, folder: Path, *more: str) -> Iterator[Location]:
    tables = (*TABLES, COMMENT)
    if engine == "mysql":
        named = TABLES[0].replace("name VARCHAR(50)", "name VARCHAR(50) COMMENT 'the name of the town'")
        tables = (named, *TABLES[1:])
    with database_on(engine, folder, *tables, *more) as url:
        yield locate(url)


@pytest.fixture(params=ENGINES)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    """The same small database on each engine."""
    with shop_on(request.param, tmp_path) as where:
        yield where


def test_a_schema_is_read_with_types_keys_comments_and_samples(shop: Location) -> None:
    schema = open_database(shop, "shop").schema
    # MySQL knows the second of a table's creation only, so its tables are in the order of their names
    ordered = ["shop", "town"] if shop.engine == "mysql" else ["town", "shop"]
    assert [table.name for table in schema.tables] == ordered
    town, store = schema.table("town"), schema.table("shop")
    assert town is not None and store is not None
    assert [column.name for column in store.columns] == ["id", "town", "size"]
    assert town.columns[1].description == "the name of the town"
    assert town.columns[1].samples == ("Oslo", "Rome")
    assert store.columns[2].samples == (2.5, 3)
    assert "decimal" in store.columns[2].type.lower() or "numeric" in store.columns[2].type
    assert town.primary_key == ("id",)
    (key,) = schema.foreign_keys
    assert (key.table, key.columns, key.parent, key.parent_columns) == ("shop", ("town",), "town", ("id",))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_view_has_columns_with_types_and_neither_samples_nor_values(engine: str, tmp_path: Path) -> None:
    with shop_on(engine, tmp_path, VIEW) as where:
        database = open_database(where, "shop")
        assert verify_unchanged([database]) == ()
        found = ValueIndex.open(database, tmp_path / "values").retrieve("Which shops have a size of 3?", k=1)
    large = database.schema.tables[-1]
    assert (large.name, large.view, large.columns[1].samples) == ("large", True, ())
    assert [column.name for column in large.columns] == ["town", "size"]
    assert "decimal" in large.columns[1].type.lower() or "numeric" in large.columns[1].type
    assert all(table.columns[0].samples for table in database.schema.tables[:-1])
    assert found[ColumnName("shop", "size")] == (3,) and ColumnName("large", "size") not in found


def test_every_table_and_column_of_mariadb_is_shown(tmp_path: Path) -> None:
    tables = (
        "CREATE TABLE price (item INT, secret INT INVISIBLE, amount INT) WITH SYSTEM VERSIONING",
        "INSERT INTO price (item, secret, amount) VALUES (1, 2, 3)",
        "CREATE TABLE Pair (a INT, b INT, PRIMARY KEY (a, b))",
        "CREATE TABLE pair (c INT, d INT, PRIMARY KEY (c, d))",
        "CREATE TABLE more (c INT, d INT, FOREIGN KEY (c, d) REFERENCES pair (c, d))",
    )
    with database_on("mysql", tmp_path, *tables) as url:
        schema = open_database(locate(url), "shop").schema
    found = {table.name: table for table in schema.tables}
    assert [(c.name, c.samples) for c in found["price"].columns] == [
        ("item", (1,)),
        ("secret", (2,)),
        ("amount", (3,)),
    ]
    assert (found["Pair"].primary_key, found["pair"].primary_key) == (("a", "b"), ("c", "d"))
    assert [(key.parent, key.parent_columns) for key in schema.foreign_keys] == [("pair", ("c", "d"))]


def test_what_a_role_of_postgresql_can_read_is_shown(tmp_path: Path) -> None:
    tables = (
        "CREATE TABLE person (id INT, wage INT, name TEXT)",
        "INSERT INTO person VALUES (1, 2, 'Ann')",
        "CREATE MATERIALIZED VIEW later AS SELECT id FROM person WITH NO DATA",
    )
    with database_on("postgresql", tmp_path, *tables) as url:
        reader = reader_of(url)
        postgres.execute(owned(url), f"REVOKE SELECT ON person FROM {reader}")
        postgres.execute(owned(url), f"GRANT SELECT (id, name) ON person TO {reader}")
        (person,) = open_database(locate(url), "staff").schema.tables
    assert [(column.name, column.samples) for column in person.columns] == [("id", (1,)), ("name", ("Ann",))]


ITEMS = (
    "CREATE TABLE item (id INTEGER, name VARCHAR(50), price DOUBLE PRECISION)",
    "INSERT INTO item VALUES (1, 'cup', 2.5), (2, 'Cap', 12), (-7, 'pot', 3.75)",
)
TRANSLATED = (
    "SELECT SUM(id) / 3, count(*) / 2, -7 / 2, 7 / (SELECT count(*) FROM item) FROM item",
    "SELECT name FROM item WHERE name LIKE 'C%'",
    "SELECT name FROM item WHERE name NOT LIKE 'CUP'",
    "SELECT -7 % 3, id % 3, CAST(price AS INTEGER), CAST(price * 0.99 AS INT) FROM item",
    "SELECT price % 2, 7 % id FROM item WHERE price > 3",
    "SELECT CAST(SUM(CASE WHEN id > 1 THEN 1 ELSE 0 END) AS REAL) * 100 / count(*) FROM item",
    "SELECT SUM(CASE WHEN id > 1 THEN 1 ELSE 0 END) * 100 / 3, 1 / 0 FROM item",
    "SELECT SUBSTR(name, -2), SUBSTR(name, -3, 2), SUBSTR(name, 2) FROM item",
    "SELECT i.id / 2.0, AVG(id) / 2, i.id / 2, (i.id - 1) / 3 / 2 FROM item AS i GROUP BY id",
    "WITH X AS (SELECT ITEM.id FROM Item) SELECT T1.*, x.id FROM iTEM AS t1 JOIN x ON T1.id = X.ID",
)


@pytest.mark.parametrize("engine", ENGINES)
async def test_golds_translated_from_sqlite_keep_their_results(engine: str, tmp_path: Path) -> None:
    with database_on("sqlite", tmp_path, *ITEMS) as first, database_on(engine, tmp_path, *ITEMS) as second:
        original, copy = (open_database(locate(url), "item") for url in (first, second))
        async with SqlWorkers(1) as workers:
            for sql in TRANSLATED:
                translated = transpile(sql, "sqlite", copy.dialect, original.schema)
                one, other = await workers.execute(original, sql), await workers.execute(copy, translated.sql)
                assert one.ok and other.ok, (translated.sql, other.error)
                assert strict(one.rows, other.rows, ordered=False), (translated.sql, one.rows, other.rows)
                assert not translated.unknown_division


async def test_a_result_without_rows_is_a_result_with_its_columns(shop: Location) -> None:
    database = open_database(shop, "shop")
    empty = "SELECT name AS town, count(*) AS n FROM town WHERE id > 2 GROUP BY name"
    async with SqlWorkers(1) as workers:
        found = await workers.execute(database, empty)
        assert (found.status, found.error, found.rows, found.row_count) == ("ok", "", (), 0)
        assert found.columns == ("town", "n")
        candidates = {"empty": f"{empty} LIMIT 1", "rows": "SELECT name, 1 FROM town", "none": "-- SELECT 1"}
        verdicts = await Judge(workers, DEFAULT_RULES, 5).verdicts(database, empty, candidates)
        assert [set(each.correct.values()) for each in verdicts.values()] == [{True}, {False}, {False}]
        assert [each.status for each in verdicts.values()] == ["ok", "ok", "error"]


async def test_what_is_missing_is_a_cause_of_its_own_on_every_engine(shop: Location) -> None:
    database = open_database(shop, "shop")
    gold = "SELECT name FROM town"
    wrong = {"missing_table": "SELECT name FROM nope", "missing_column": "SELECT t.nope FROM town AS t"}
    async with SqlWorkers(1) as workers:
        verdicts = await Judge(workers, ("bird",), 5).verdicts(database, gold, wrong)
    for cause, sql in wrong.items():
        found = {*classify_sql(sql, gold, verdicts[cause], database.schema)}
        assert found & {*wrong} == {cause}, verdicts[cause].error


def test_values_that_a_question_means_are_found(shop: Location, tmp_path: Path) -> None:
    database = open_database(shop, "shop")
    found = ValueIndex.open(database, tmp_path / "values").retrieve(
        "Which shops in rome have a size of 3?", k=1
    )
    assert found[ColumnName("town", "name")] == ("Rome",)
    assert found[ColumnName("shop", "size")] == (3,)
    assert verify_unchanged([database]) == ()


def test_a_server_is_known_by_its_rows_or_by_the_version_that_the_user_names() -> None:
    with postgres.new_reader(*TABLES) as url:
        plain, named = open_database(locate(url), "shop"), open_database(locate(url, version="1"), "shop")
        assert open_database(locate(url, version="2"), "shop").digest != named.digest != plain.digest
        postgres.execute(owned(url), "INSERT INTO town VALUES (3, 'Bern')")
        assert verify_unchanged([plain, named]) == ("shop",)


@pytest.mark.parametrize(("url", "error", "said"), [
    ("postgresql://ann:secret@127.0.0.1:1/shop", DatabaseUnavailableError, "does not answer"),
    ("mysql://ann:secret@127.0.0.1:1/shop", DatabaseUnavailableError, "does not answer"),
    ("mysql://ann:secret@127.0.0.1", ConfigurationError, "names no database"),
    ("mysql://ann:secret@127.0.0.1/shop?colour=red", ConfigurationError, "colour is not known"),
])  # fmt: skip
def test_a_server_that_cannot_be_used_is_one_message_without_the_password(
    url: str, error: type[CrosscheckError], said: str
) -> None:
    location = locate(url)
    assert location.password == "secret"
    with pytest.raises(error, match=said) as caught:
        open_database(location, "shop")
    assert "secret" not in f"{caught.value} {location} {location!r}"


@pytest.mark.parametrize("server", SERVERS)
def test_a_role_that_may_write_is_refused_unless_that_is_allowed(server: str) -> None:
    refused = r"must not run under it.*GRANT SELECT.*allow_writable_role"
    with SERVERS[server](*TABLES) as url:
        with pytest.raises(ConfigurationError, match=refused):
            open_database(locate(owned(url)), "shop")
        assert open_database(locate(owned(url), writable=True), "shop").schema.tables


async def test_a_closed_connection_is_opened_again_and_a_lost_server_is_no_wrong_sql() -> None:
    with postgres.new_reader(*TABLES) as url:
        database = open_database(locate(url), "shop")
        async with SqlWorkers(1) as workers:
            assert (await workers.execute(database, "SELECT count(*) FROM town")).rows == ((2,),)
            postgres.disconnect_everybody(owned(url))
            assert (await workers.execute(database, "SELECT count(*) FROM town")).rows == ((2,),)
            server, name = f"{postgres.SERVER}/postgres", database_name(database.location)
            postgres.execute(server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            sessions = f"FROM pg_stat_activity WHERE datname = '{name}'"
            while postgres.execute(server, f"SELECT pg_terminate_backend(pid) {sessions}"):
                await asyncio.sleep(0.1)
            with pytest.raises(DatabaseUnavailableError):
                await workers.execute(database, "SELECT count(*) FROM town")
            postgres.execute(server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            assert (await workers.execute(database, "SELECT count(*) FROM town")).rows == ((2,),)


async def test_a_query_beyond_the_limit_of_temporary_files_is_too_large_and_the_server_is_not_lost() -> None:
    with postgres.new_reader(*TABLES) as url:
        limit = f"ALTER ROLE {reader_of(url)} SET temp_file_limit = '1MB'"
        postgres.execute(f"{postgres.SERVER}/postgres", limit)
        database = open_database(locate(url), "shop")
        sorting = "SELECT i, repeat('x', 100) FROM generate_series(1, 100000) AS g(i) ORDER BY 2, 1"
        async with SqlWorkers(1) as workers:
            found = await workers.execute(database, sorting)
            assert (found.status, found.row_count) == ("too_large", None)
            assert "temp_file_limit" in found.error
            assert (await workers.execute(database, "SELECT count(*) FROM town")).rows == ((2,),)


def test_a_duckdb_file_that_another_process_writes_says_so(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    program = (
        "import duckdb, sys; c = duckdb.connect(sys.argv[1]); c.execute('CREATE TABLE t (a INT)'); "
        "print('open', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None and other.stdout.readline()
        with pytest.raises(DataError, match="locked by another process"):
            open_database(path, "shop")
        with database_on("sqlite", tmp_path, "CREATE TABLE t (a INTEGER)") as copied:
            source = open_database(locate(copied), "shop")
        with pytest.raises(DataError, match="lock"):
            copy_database(source, locate(f"duckdb:///{path}"))
    finally:
        other.communicate(b"")
    assert open_database(path, "shop").schema.tables[0].name == "t"


def test_a_folder_of_files_is_a_database(tmp_path: Path) -> None:
    folder = tmp_path / "exports"
    folder.mkdir()
    (folder / "town.csv").write_text("id,name\n1,Oslo\n2,Rome\n", encoding="utf-8")
    duckdb.execute(f"COPY (SELECT 1 AS id, 2 AS town) TO '{folder}/shop.parquet'")
    database = open_database(folder, "exports")
    assert [table.name for table in database.schema.tables] == ["shop", "town"]
    assert database.schema.tables[1].columns[1].samples == ("Oslo", "Rome")
    (folder / "shop.csv").write_text("id\n1\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"shop\.csv and shop\.parquet would be the same table"):
        open_database(folder, "exports")


async def test_no_state_of_a_session_reaches_the_next_query() -> None:
    with mariadb.new_database(*TABLES) as url:
        database = open_database(locate(url), "shop")
        async with SqlWorkers(1) as workers:
            first = await workers.execute(database, "SELECT @seen := 7, CONNECTION_ID()")
            second = await workers.execute(database, "SELECT @seen, CONNECTION_ID()")
    assert first.rows[0][0] == 7
    assert second.rows == ((None, first.rows[0][1]),), "the same connection, reset"
