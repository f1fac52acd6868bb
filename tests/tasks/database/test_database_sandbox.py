"""Hostile and honest SQL against a real database, through the real worker processes."""

import asyncio
import re
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.core.errors import DatabaseUnavailableError
from tasks.database.database import Database, locate, open_database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.database.sqlite_files import tolerant_text
from tests.support.engines import verify_unchanged
from tests.support.processes import cpu_of_children

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "

REFUSED = {
    "DROP TABLE singer": "changing the schema",
    "CREATE TABLE t (a)": "changing the schema",
    "CREATE TEMP TABLE t (a)": "changing the schema",
    "CREATE TEMP TABLE t AS SELECT * FROM singer": "changing the schema",
    "CREATE VIEW v AS SELECT 1": "changing the schema",
    "CREATE VIRTUAL TABLE t USING fts5 (a)": "changing the schema",
    "ALTER TABLE singer RENAME TO gone": "changing the schema",
    "DROP VIEW elders": "changing the schema",
    "ANALYZE": "not allowed",
    "REINDEX": "not allowed",
    "INSERT INTO singer VALUES (9, 'x', 1)": "INSERT into singer",
    "REPLACE INTO singer VALUES (1, 'x', 1)": "INSERT into singer",
    "UPDATE singer SET name = 'x'": "UPDATE of singer",
    "DELETE FROM singer": "DELETE from singer",
    "WITH d AS (SELECT 1) DELETE FROM singer RETURNING *": "DELETE from singer",
    "INSERT INTO notes (notes) VALUES ('rebuild')": "INSERT into notes",
    "UPDATE sqlite_master SET sql = 'x'": "sqlite_master may not be modified",
    "ATTACH 'other.sqlite' AS other": "opening another file",
    "ATTACH ':memory:' AS other": "opening another file",
    "ATTACH 'file:other.sqlite?mode=rwc' AS other": "opening another file",
    "DETACH main": "DETACH",
    "VACUUM": "opening another file",
    "VACUUM INTO 'other.sqlite'": "opening another file",
    "PRAGMA query_only = OFF": "PRAGMA query_only",
    "PRAGMA writable_schema = ON": "PRAGMA writable_schema",
    "PRAGMA user_version = 7": "PRAGMA user_version",
    "PRAGMA page_size = 512": "PRAGMA page_size",
    "PRAGMA journal_mode = WAL": "PRAGMA journal_mode",
    "PRAGMA hard_heap_limit = 0": "PRAGMA hard_heap_limit",
    "PRAGMA temp_store_directory = '.'": "PRAGMA temp_store_directory",
    "SELECT * FROM pragma_table_info('singer')": "PRAGMA table_info",
    "BEGIN": "a transaction",
    "COMMIT": "a transaction",
    "SAVEPOINT s": "a savepoint",
    "SELECT load_extension('evil.so')": "function load_extension",
    "SELECT LOAD_EXTENSION('evil.so', 'main')": "function load_extension",
    "SELECT fts3_tokenizer('simple')": "function fts3_tokenizer",
    "SELECT sql FROM sqlite_stmt": "reading sqlite_stmt",
    "SELECT count(*) FROM SQLite_Stmt": "reading SQLite_Stmt",
    "SELECT readfile('/etc/passwd')": "no such function: readfile",
    "SELECT writefile('x', 'y')": "no such function: writefile",
    "EXPLAIN DROP TABLE singer": "changing the schema",
}

MALFORMED = {
    "": "no statement to run",
    "   \n": "no statement to run",
    ";": "no statement to run",
    "-- only a comment": "no statement to run",
    "/* only a comment": "no statement to run",
    "SELECT 1; SELECT 2": "more than one statement",
    "SELECT 1; DROP TABLE singer": "more than one statement",
    "SELECT 'a\x00b'": "NUL character",
    "SELECT 1\x00; DROP TABLE singer": "NUL character",
    "SELECT '\ud800'": "not valid Unicode",
    "SELECT ?": "Incorrect number of bindings",
    "SELECT foo FROM singer": "^no such column: foo$",
    "SELECT * FROM absent": "^no such table: absent$",
    "SELEC 1": "syntax error",
    "SELECT " + "1+" * 5000 + "1": "Expression tree is too large",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000: "parser stack overflow|too large",
    "SELECT '" + "x" * 200_000 + "'": "200,009 bytes long; the sandbox takes 200,000",
}

TOO_LARGE = {
    "SELECT zeroblob(1e9)": "string or blob too big.*32 MiB",
    "SELECT length(zeroblob(2147483647))": "string or blob too big",
    "SELECT hex(randomblob(1000000000))": "string or blob too big",
    "SELECT hex(zeroblob(30000000))": "string or blob too big",
    "SELECT replace(hex(zeroblob(15000000)), '0', 'long')": "string or blob too big",
    ENDLESS + "SELECT i FROM n": "more than 1,000,000 rows",
    ENDLESS + "SELECT zeroblob(20000000 + i) FROM n": "more than 128 MiB",
    ENDLESS + "SELECT count(DISTINCT hex(zeroblob(50000 + i))) FROM n": "ran out of memory",
    "SELECT " + ", ".join(f"zeroblob(30000000 + {i})" for i in range(60)): "memory|too big",
}

SINGERS = ", ".join(f"singer s{i}" for i in range(24))
SUM_OF_IDS = "+".join(f"s{i}.id" for i in range(24))
TIMEOUT = {
    "never ending recursion": ENDLESS + "SELECT count(*) FROM n",
    "cross joins": "SELECT count(*) FROM " + ", ".join(f"singer s{i}, latin1 l{i}" for i in range(12)),
    "cross joins that never match": f"SELECT s0.id FROM {SINGERS} WHERE {SUM_OF_IDS} = 0",
    "a long group_concat": ENDLESS + "SELECT group_concat('') FROM n",
}


async def test_an_honest_query_gives_columns_first_rows_and_the_number_of_all(
    workers: SqlWorkers, concert: Database
) -> None:
    execution = await workers.execute(concert, "SELECT name, born FROM singer ORDER BY id", rows=2)
    assert execution.ok and not execution.empty
    assert execution.columns == ("name", "born")
    assert execution.rows == (("Ann", 1970), ("Bob", None))
    assert execution.row_count == 3
    assert execution.error == ""
    assert 0 < execution.seconds < 5
    empty = await workers.execute(concert, "SELECT name FROM singer WHERE id = 99")
    assert (empty.empty, empty.error, empty.columns) == (True, "", ("name",))


@pytest.mark.parametrize("sql", [
    "SELECT count(*) FROM singer;",
    "  SELECT count(*) FROM singer ; -- done",
    "/* how many */ SELECT count(*) FROM singer",
    "WITH s AS (SELECT * FROM singer) SELECT count(*) FROM s",
    "SELECT count(*) FROM json_each('[1, 2, 3]')",
    "SELECT 1 + count(*) + (SELECT count(*) FROM old_notes WHERE body MATCH 'hello') FROM notes('hello')",
    "SELECT max(column1) FROM (VALUES (1), (3), (2))",
    "SELECT 2 + count(*) FROM elders",
    "SELECT 3 FROM sqlite_master LIMIT 1",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3) SELECT max(i) FROM n",
    "SELECT CAST(round(sqrt(9)) AS INTEGER)",
    "SELECT row_number() OVER (ORDER BY id) FROM singer ORDER BY 1 DESC LIMIT 1",
])  # fmt: skip
async def test_reading_of_any_form_is_allowed(workers: SqlWorkers, concert: Database, sql: str) -> None:
    assert (await workers.execute(concert, sql)).rows == ((3,),)


@pytest.mark.parametrize(("sql", "status", "said"), [
    *((sql, "error", re.escape(said)) for sql, said in REFUSED.items()),
    *((sql, "error", said) for sql, said in MALFORMED.items()),
    *((sql, "too_large", said) for sql, said in TOO_LARGE.items()),
], ids=lambda value: repr(value[:50]))  # fmt: skip
async def test_what_does_not_read_cannot_run_or_is_too_large_has_no_result_and_says_why(
    workers: SqlWorkers, concert: Database, sql: str, status: str, said: str
) -> None:
    execution = await workers.execute(concert, sql)
    assert (execution.status, execution.rows, execution.row_count) == (status, (), None)
    assert re.search(said, execution.error), execution.error
    assert await still_whole(workers, concert)


@pytest.mark.parametrize("name", TIMEOUT)
async def test_an_endless_query_is_stopped_in_time(workers: SqlWorkers, concert: Database, name: str) -> None:
    started = time.perf_counter()
    execution = await workers.execute(concert, TIMEOUT[name], timeout_s=0.2)
    assert execution.status == "timeout"
    assert execution.error == "The query did not finish within 0.2 s and was stopped."
    assert 0.2 <= time.perf_counter() - started < 30
    assert await still_whole(workers, concert)


async def test_a_deaf_call_is_ended_with_its_process(workers: SqlWorkers, concert: Database) -> None:
    await workers.execute(concert, "SELECT 1")
    started = cpu_of_children()
    sql = "SELECT length(printf('%.*c', 1000000000, 'x'))"
    execution = await workers.execute(concert, sql, timeout_s=0.2)
    assert execution.status == "timeout"
    assert "its process was stopped" in execution.error
    assert cpu_of_children() - started < 1.0, "it worked on long after its deadline"
    assert await still_whole(workers, concert)


async def test_text_that_is_not_utf8_comes_back_readable(workers: SqlWorkers, concert: Database) -> None:
    execution = await workers.execute(concert, "SELECT word FROM latin1")
    assert execution.rows == (("plain",), ("caf\\xe9",), ("caf\\xe8",))


async def test_a_missing_file_is_no_result_and_is_not_created(workers: SqlWorkers, tmp_path: Path) -> None:
    absent = Database("absent", locate(str(tmp_path / "absent.sqlite")), schema=None, digest="")  # type: ignore[arg-type]
    with pytest.raises(DatabaseUnavailableError, match=r"absent\.sqlite does not exist"):
        await workers.execute(absent, "SELECT 1")
    assert list(tmp_path.iterdir()) == []


async def test_a_write_ahead_log_that_appears_later_is_noticed_when_the_file_changes(
    workers: SqlWorkers, build_database: Callable[[Path, str], Database], tmp_path: Path
) -> None:
    path = build_database(tmp_path / "live.sqlite", "CREATE TABLE t (a); INSERT INTO t VALUES (1)").path
    writer = sqlite3.connect(path)
    writer.execute("UPDATE t SET a = 2")
    writer.commit()
    database = open_database(path, "live")
    assert (await workers.execute(database, "SELECT a FROM t")).rows == ((2,),)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("UPDATE t SET a = 3")
    writer.commit()
    with pytest.raises(DatabaseUnavailableError, match=r"live\.sqlite-wal holds changes"):
        await workers.execute(database, "SELECT a FROM t")
    writer.close()
    with pytest.raises(DatabaseUnavailableError, match="has changed since"):
        await workers.execute(database, "SELECT a FROM t")
    assert (await workers.execute(open_database(path, "live"), "SELECT a FROM t")).rows == ((3,),)


async def still_whole(workers: SqlWorkers, database: Database) -> bool:
    """Whether the same workers still answer, the file is the same, and no file was put beside it."""
    assert (await workers.execute(database, "SELECT count(*) FROM singer")).rows == ((3,),)
    assert [file.name for file in database.path.parent.iterdir()] == [database.path.name]
    assert not list(Path.cwd().glob("other.sqlite*"))
    return verify_unchanged([database]) == ()


@pytest.mark.slow
async def test_no_gold_query_of_spider_dev_is_refused_or_answered_otherwise(shared_data: Path) -> None:
    gold = [
        line.rsplit("\t", 1) for line in (shared_data / "spider" / "dev_gold.sql").read_text().splitlines()
    ]
    files = {file.stem: file for file in (shared_data / "spider" / "database").glob("*/*.sqlite")}
    databases = {name: open_database(files[name], name) for _, name in gold if name in files}
    async with SqlWorkers(2) as pool:
        asked = [(sql, databases[name]) for sql, name in gold if name in databases]
        answers = await asyncio.gather(*(pool.execute(database, sql) for sql, database in asked))
    assert len(answers) == 972
    for (sql, database), answer in zip(asked, answers, strict=True):
        connection = sqlite3.connect(f"{database.path.as_uri()}?mode=ro", uri=True)
        connection.text_factory = tolerant_text
        rows = connection.execute(sql).fetchall()
        connection.close()
        assert (answer.error, answer.row_count, answer.rows) == ("", len(rows), tuple(rows[:5])), sql
    assert verify_unchanged(databases.values()) == ()
