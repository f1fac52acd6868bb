"""Opening real SQLite files: what is read, what is refused, and that nothing on disk changes."""

import hashlib
import os
import re
import resource
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tasks.core.errors import DataError
from tasks.core.records import ColumnName
from tasks.database.database import open_database
from tasks.database.engines import sqlite
from tasks.database.engines.duckdb import open_restrained
from tasks.database.limits import Limits
from tasks.database.location import Location
from tasks.database.sandbox import process
from tasks.database.sandbox.runner import in_sandbox
from tasks.database.sandbox.session import SqlSession
from tasks.database.schema import ColumnDescription, ForeignKey
from tasks.sql.elements import elements

Build = Callable[..., Path]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def built(sql: str, name: str = "shop.sqlite") -> Path:
        path = tmp_path / name
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(sql)
        return path

    return built


def test_a_missing_file_is_named_and_never_created(tmp_path: Path) -> None:
    path = tmp_path / "absent.sqlite"
    with pytest.raises(DataError, match=r'"shop".*absent\.sqlite does not exist.*CROSSCHECK_DATA'):
        open_database(path, "shop")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match="is a folder"):
        open_database(tmp_path, "shop")


@pytest.mark.parametrize("name", ["shop.sqlite", "shop.duckdb", "shop"])
def test_a_pipe_is_refused_and_no_writer_of_it_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(path := tmp_path / name)
    with pytest.raises(DataError, match="is a device or a pipe, not a file"):
        open_database(path, "shop")


@pytest.mark.parametrize(
    "content", [b"version https://git-lfs.github.com/spec/v1\n", b"x", b"SQLite format 3"]
)
def test_another_kind_of_file_is_refused_with_what_it_begins_with(build: Build, content: bytes) -> None:
    path = build("CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(50000))")
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match="SQLite cannot read"):
        open_database(path, "shop")
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"is not a SQLite database.*fetch the file again"):
        open_database(path, "shop")


@pytest.mark.parametrize(
    "sql", ["", "CREATE TABLE t (a); DROP TABLE t", "CREATE VIEW v AS SELECT a FROM gone"]
)
def test_a_database_without_tables_is_refused(build: Build, sql: str) -> None:
    path = build(sql)
    path.touch()
    with pytest.raises(DataError, match="has no tables"):
        open_database(path, "shop")


def test_opening_changes_no_byte_and_leaves_no_file_beside(build: Build) -> None:
    path = build("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
    before, times = path.read_bytes(), path.stat().st_mtime_ns
    path.parent.chmod(0o555)
    try:
        database = open_database(path, "shop")
    finally:
        path.parent.chmod(0o755)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, times)
    assert [file.name for file in path.parent.iterdir()] == ["shop.sqlite"]
    assert database.digest == hashlib.sha256(before).hexdigest()
    assert database.dialect == "sqlite"


@pytest.mark.parametrize(
    "name", ["a b.sqlite", "50%.sqlite", "what?.sqlite", "a#b.sqlite", "ü&=.sqlite", "%20.sqlite"]
)
def test_any_file_name_opens(build: Build, name: str) -> None:
    assert open_database(build("CREATE TABLE t (a)", name), "shop").schema.tables[0].name == "t"


def test_tables_columns_and_types_are_spelled_as_the_database_spells_them(build: Build) -> None:
    path = build(
        """
        CREATE TABLE "Order" ("a.b" VARCHAR(10), "it's" decimal(5,2), "x`y" INTEGER, [say "hi"],
                              "select" TEXT);
        CREATE VIEW v AS SELECT 1;
        CREATE TABLE sequenced (id INTEGER PRIMARY KEY AUTOINCREMENT, twice INTEGER AS (id * 2));
        CREATE TABLE composite (a, b, c, PRIMARY KEY (c, a));
        """
    )
    order, sequenced, composite, view = open_database(path, "shop").schema.tables
    names = [each.name for each in (order, sequenced, composite, view)]
    assert names == ["Order", "sequenced", "composite", "v"]
    types = {"a.b": "VARCHAR(10)", "it's": "decimal(5,2)", "x`y": "INTEGER", 'say "hi"': "", "select": "TEXT"}
    assert [(column.name, column.type) for column in order.columns] == [*types.items()]
    assert [column.name for column in sequenced.columns] == ["id", "twice"]
    assert composite.primary_key == ("c", "a")


def test_views_come_after_the_tables_with_types_and_no_samples(build: Build) -> None:
    path = build(
        "CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (1, 'x'); CREATE VIEW broken AS SELECT a FROM gone;"
        "CREATE VIEW v AS SELECT b, a + 1 AS next FROM t"
    )
    schema = open_database(path, "shop").schema
    assert [(table.name, table.view) for table in schema.tables] == [("t", False), ("v", True)]
    view = schema.tables[1]
    columns = [(column.name, column.type, column.samples) for column in view.columns]
    assert columns == [("b", "TEXT", ()), ("next", "", ())]
    assert elements("SELECT b FROM v", schema).columns == (ColumnName("v", "b"),)
    (alone,) = open_database(build("CREATE VIEW v AS SELECT 1 AS one", "views.sqlite"), "views").schema.tables
    assert (alone.view, [column.name for column in alone.columns]) == (True, ["one"])


def test_a_full_text_table_shows_without_its_shadow_tables(build: Build) -> None:
    path = build("CREATE VIRTUAL TABLE notes USING fts5(body); INSERT INTO notes VALUES ('hello')")
    (table,) = open_database(path, "shop").schema.tables
    assert (table.name, [column.name for column in table.columns]) == ("notes", ["body"])
    assert table.columns[0].samples == ("hello",)


def test_foreign_keys_come_in_declared_order_with_composite_ones_in_one_piece(build: Build) -> None:
    path = build(
        """
        CREATE TABLE Parent (X, Y, PRIMARY KEY (X, Y));
        CREATE TABLE other (id INTEGER PRIMARY KEY, up INTEGER REFERENCES other);
        CREATE TABLE child (a, b, c REFERENCES OTHER (ID), d REFERENCES nowhere (id),
                            e REFERENCES other (gone), f REFERENCES parent,
                            FOREIGN KEY (a, b) REFERENCES parent (x, y),
                            FOREIGN KEY (b, a) REFERENCES parent);
        """
    )
    assert open_database(path, "shop").schema.foreign_keys == (
        ForeignKey("other", ("up",), "other", ("id",)),
        ForeignKey("child", ("c",), "other", ("id",)),
        ForeignKey("child", ("a", "b"), "Parent", ("X", "Y")),
        ForeignKey("child", ("b", "a"), "Parent", ("X", "Y")),
    )


def test_keys_of_the_benchmark_are_added_once_in_the_databases_spelling(build: Build) -> None:
    path = build(
        """
        CREATE TABLE Parent (X, Y, PRIMARY KEY (X, Y));
        CREATE TABLE child (A, B, C, FOREIGN KEY (A, B) REFERENCES Parent (X, Y));
        """
    )
    extra = [
        ForeignKey("CHILD", ("a",), "PARENT", ("x",)),
        ForeignKey("child", ("c",), "parent", ("y",)),
        ForeignKey("Child", ("C",), "Parent", ("Y",)),
        ForeignKey("child", ("c",), "absent", ("y",)),
        ForeignKey("child", ("absent",), "parent", ("y",)),
    ]
    assert open_database(path, "shop", foreign_keys=extra).schema.foreign_keys == (
        ForeignKey("child", ("A", "B"), "Parent", ("X", "Y")),
        ForeignKey("child", ("C",), "Parent", ("Y",)),
    )


def test_descriptions_find_their_column_whatever_its_case(build: Build) -> None:
    path = build("CREATE TABLE Team (Name TEXT, id)")
    said = {("team", "name"): ColumnDescription("what it is called", "short form")}
    name, number = open_database(path, "shop", descriptions=said).schema.tables[0].columns
    assert (name.description, name.value_description) == ("what it is called", "short form")
    assert (number.description, number.value_description) == ("", "")


def test_samples_are_the_first_rows_of_the_table_even_where_an_index_covers_it(build: Build) -> None:
    path = build(
        """
        CREATE TABLE t (a TEXT UNIQUE); INSERT INTO t VALUES ('z'), ('y'), (NULL), ('a');
        CREATE TABLE u (b, c); INSERT INTO u VALUES (1, x'ff');
        CREATE TABLE not_utf8 (a TEXT);
        INSERT INTO not_utf8 VALUES (CAST(x'43e9' AS TEXT)), (CAST(x'43e8' AS TEXT));
        """
    )
    t, u, not_utf8 = open_database(path, "shop").schema.tables
    assert t.columns[0].samples == ("z", "y", None)
    assert [column.samples for column in u.columns] == [(1,), (b"\xff",)]
    assert not_utf8.columns[0].samples == ("C\\xe9", "C\\xe8"), "readable, and still different"
    assert open_database(path, "shop", sample_rows=0).schema.tables[0].columns[0].samples == ()


def test_opening_reads_sample_rows_of_a_table_alone(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build(
        """
        CREATE TABLE t (a, b TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000)
        INSERT INTO t SELECT i, NULL FROM n;
        CREATE TABLE e (a);
        """
    )
    executed: list[str] = []
    connect = sqlite3.connect

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.set_trace_callback(executed.append)
        return connection

    monkeypatch.setattr(sqlite.sqlite3, "connect", traced)
    session = SqlSession(Location("sqlite", str(path)), Limits(), lambda seconds: None)
    (a, b), _ = (table.columns for table in sqlite.read_structure(session, "long", 2).tables)
    assert (a.samples, b.samples) == ((1, 2), (None, None))
    of_rows = [sql for sql in executed if "FROM `" in sql]
    assert of_rows == [f"SELECT * FROM `{name}` NOT INDEXED LIMIT 2" for name in "te"]
    assert not [sql for sql in executed if re.search(r"\b(COUNT|SUM)\b|IS NULL", sql, re.IGNORECASE)]


def test_a_schema_of_3000_columns_opens(build: Build) -> None:
    tables = [f"CREATE TABLE t{i} ({', '.join(f'c{j} INTEGER' for j in range(1500))})" for i in range(2)]
    rows = [f"INSERT INTO t{i} (c0, c1499) VALUES (7, 8)" for i in range(2)]
    schema = open_database(build("; ".join(tables + rows)), "wide").schema
    assert len(schema.column_names) == 3000
    assert schema.tables[1].columns[1499].samples == (8,)


def test_a_write_ahead_log_with_changes_is_refused_and_an_empty_one_is_not(build: Build) -> None:
    path = build("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    writer = sqlite3.connect(path)
    writer.execute("INSERT INTO t VALUES (2)")
    writer.commit()
    with pytest.raises(DataError, match=r"shop\.sqlite-wal holds changes.*\.backup"):
        open_database(path, "shop")
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert path.with_name("shop.sqlite-wal").stat().st_size == 0
    assert open_database(path, "shop").schema.tables[0].columns[0].samples == (1, 2)
    writer.close()


def test_a_hot_journal_is_refused_and_a_finished_one_is_not(build: Build) -> None:
    path = build("CREATE TABLE t (a)")
    journal = path.with_name("shop.sqlite-journal")
    journal.write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(504))
    with pytest.raises(DataError, match="-journal holds changes"):
        open_database(path, "shop")
    journal.write_bytes(bytes(512))
    assert open_database(path, "shop").schema.tables


def test_every_spider_database_opens_in_seconds(shared_data: Path) -> None:
    files = sorted((shared_data / "spider" / "database").glob("*/*.sqlite"))
    started = time.process_time()
    databases = [open_database(file, file.stem) for file in files]
    assert len(databases) >= 160
    assert all(database.schema.tables for database in databases)
    assert time.process_time() - started < 20


MANY = "id,x\n" + "".join(f"{number},{number}\n" for number in range(60_000))


@pytest.mark.parametrize(("name", "text", "kind", "last"), [
    ("a text at the end", f"{MANY}60000,none\n", "VARCHAR", "none"),
    ("a quote at the end", f'{MANY}60000,"a, b"\n', "VARCHAR", "a, b"),
    ("a fraction at the end", f"{MANY}60000,0.5\n", "DOUBLE", 0.5),
    ("it's a name", "id\tx\n60000\t7\n", "BIGINT", 7),
])  # fmt: skip
def test_types_and_quotes_of_a_csv_file_fit_all_of_its_rows(
    tmp_path: Path, name: str, text: str, kind: str, last: Any
) -> None:
    (tmp_path / f"{name}.csv").write_text(text)
    (table,) = open_database(tmp_path, "shop").schema.tables
    assert (table.name, table.view, table.columns[1].type) == (name, False, kind)
    with closing(open_restrained(tmp_path)) as connection:
        found = connection.execute(f'SELECT x FROM "{name}" WHERE id = 60000').fetchall()
    assert found == [(last,)]


@pytest.mark.parametrize(("name", "content"), [
    ("b.csv", b"a,b\n1,2\n3\n4,5,6\n"),
    ("b.csv", b"a,b\n1,2\n3\n"),
    ("b.csv", f"{MANY}1,2,3\n".encode()),
    ("b.csv", MANY.encode() + b"1,\xff\n"),
    ("b.parquet", b"nothing"),
])  # fmt: skip
def test_the_file_of_a_folder_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"/{name} cannot be read by DuckDB"):
        open_database(tmp_path, "shop")


def test_a_column_that_computes_a_huge_value_fills_no_process(build: Build) -> None:
    path = build(
        "CREATE TABLE t (a INTEGER, b GENERATED ALWAYS AS (zeroblob(900000000)) VIRTUAL);"
        "CREATE TABLE u (a INTEGER); INSERT INTO t (a) VALUES (1), (2), (3); INSERT INTO u VALUES (7)"
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    t, u = open_database(path, "shop").schema.tables
    assert [column.name for column in t.columns] == ["a", "b"]
    assert u.columns[0].samples == (7,)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


SLOW = "instr(zeroblob(30000000), zeroblob(15000000) || x'01')"


def test_a_column_that_computes_for_hours_is_given_up(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "START_S", 3.0)
    monkeypatch.setattr(sqlite, "in_sandbox", partial(in_sandbox, timeout_s=0.5))
    path = build(f"CREATE TABLE t (a); INSERT INTO t VALUES (1); ALTER TABLE t ADD COLUMN b AS ({SLOW})")
    with pytest.raises(DataError, match=r"shop\.sqlite cannot be read within 0\.5 s.*leave the database out"):
        open_database(path, "shop")


def test_a_file_of_duckdb_with_macros_that_are_named_like_functions_is_read_as_any(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY); INSERT INTO t VALUES (7)")
        for name in ("current_database()", "current_schema()", "typeof(x)", "length(x)"):
            connection.execute(f"CREATE MACRO {name} AS (SELECT sum(i) FROM range(100000000000) r(i))")
        connection.execute("CREATE MACRO duckdb_tables() AS TABLE SELECT 1")
    (table,) = open_database(path, "shop").schema.tables
    assert (table.name, table.primary_key, table.columns[0].samples) == ("t", ("a",), (7,))
