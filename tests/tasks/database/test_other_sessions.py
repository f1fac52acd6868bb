"""What a prediction learns of a gold that runs beside it, and does to it: nothing, whatever role both have."""

import asyncio
import time
import timeit
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
import pymysql
import pytest

from tasks.database.database import Database, locate, open_database
from tasks.database.engines.postgresql import gate_of
from tasks.database.limits import RefusedError
from tasks.database.sandbox.workers import SqlWorkers
from tasks.database.server_gate import MysqlGate, PostgresqlGate
from tests.support import mariadb, postgres
from tests.support.engines import SERVERS, owned, reader_of
from tests.support.hostile import statements

TABLES = ("CREATE TABLE singer (id INTEGER, name VARCHAR(50))", "INSERT INTO singer VALUES (1, 'Ann')")
SECRET = "the_gold_that_nobody_may_see"
GOLDS = {
    "postgresql": f"SELECT 1 AS {SECRET} FROM generate_series(1, 300000000) g(i) WHERE i < 0",
    "mysql": f"SELECT 1 AS {SECRET} FROM seq_1_to_1000000 a, seq_1_to_1000000 b WHERE a.seq < 0",
}
READING = {
    "postgresql": ("SELECT query FROM pg_stat_activity", "SELECT query FROM pg_stat_get_activity(NULL)"),
    "mysql": ("SELECT info FROM information_schema.processlist",),
}
ROLES = [("postgresql", False), ("postgresql", True), ("mysql", False), ("mysql", True)]


@contextmanager
def served(kind: str, *, superuser: bool) -> Iterator[tuple[str, Database]]:
    with SERVERS[kind](*TABLES) as url:
        role = owned(url) if superuser else url
        yield role, open_database(locate(role, writable=superuser), "concert")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "superuser"), ROLES, ids=str)
async def test_no_statement_of_the_corpus_sees_or_ends_a_gold_beside_it(kind: str, superuser: bool) -> None:
    with served(kind, superuser=superuser) as (_, database):
        async with SqlWorkers(2) as workers:
            gold = asyncio.create_task(workers.execute(database, GOLDS[kind], timeout_s=45.0))
            await asyncio.sleep(0.5)
            for _, sql in statements(kind):
                if gold.done():
                    break
                found = await workers.execute(database, sql, rows=1000, timeout_s=0.3)
                assert SECRET not in repr(found), sql
            for sql in READING[kind]:
                assert SECRET not in repr(await workers.execute(database, sql, rows=1000, timeout_s=5))
            assert gold.cancel() or gold.result().status in ("ok", "timeout"), "nothing has ended it"
            await asyncio.wait([gold])


@pytest.mark.slow
@pytest.mark.parametrize("superuser", [False, True], ids=["reader", "superuser"])
async def test_postgresql_itself_shows_no_gold_to_other_sessions_of_its_role(superuser: bool) -> None:
    with served("postgresql", superuser=superuser) as (url, database):
        async with SqlWorkers(1) as workers:
            gold = asyncio.create_task(workers.execute(database, GOLDS["postgresql"], timeout_s=5.0))
            shown: list[tuple[object, ...]] = []
            while not gold.done() and not any("....." in str(query) for (query,) in shown):
                await asyncio.sleep(0.2)
                query = "SELECT query FROM pg_stat_activity WHERE application_name = 'crosscheck'"
                shown += postgres.execute(url, query)
            gold.cancel()
            await asyncio.wait([gold])
        assert any("....." in str(query) for (query,) in shown)
        assert SECRET not in repr(shown)


async def test_messages_of_postgresql_keep_their_line_numbers() -> None:
    with served("postgresql", superuser=False) as (url, database):
        async with SqlWorkers(1) as workers:
            sql = "SELECT name,\n  nothing\nFROM singer"
            found = await workers.execute(database, sql)
        with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.UndefinedColumn) as raised:
            connection.execute(sql)
        assert found.error == str(raised.value).strip()


HARMLESS = (
    "SELECT 'INTO OUTFILE', 'pg_ls_dir(1)', \"get_lock(\" FROM t -- INTO OUTFILE 'x'",
    "SELECT 1 /* pg_ls_dir( */, 2",
    "WITH d(a, b) AS (SELECT 1, 2), e (c) AS (SELECT 3) SELECT * FROM d, e",
    "SELECT * FROM (SELECT 1, 2) AS d (a, b)",
    "SELECT * FROM (SELECT 1) d (a) WHERE a IN (1) AND EXISTS (SELECT 1) OR NOT (a = 2);",
    "SELECT CAST(a AS DECIMAL(10, 2)), COUNT(DISTINCT (a)) OVER (PARTITION BY (b)) FROM t",
)


@pytest.mark.parametrize("sql", HARMLESS)
def test_words_in_texts_and_comments_and_new_names_of_tables_are_no_functions(sql: str) -> None:
    assert MysqlGate().check(sql)
    assert PostgresqlGate({"pg_ls_dir", "get_lock"}, {"pg_locks"}).check(sql)


@pytest.mark.parametrize(("gate", "sql"), [
    (MysqlGate(escapes=False), r"SELECT '\', get_lock('a', 1) -- '"),
    (MysqlGate(ansi=True), 'SELECT "get_lock"(1)'),
    (MysqlGate(ansi=True), r'SELECT 1 AS "\", get_lock(1) -- "'),
    (MysqlGate(), "SELECT 1 --\x7f '\n, get_lock('a', 1) -- '"),
    (MysqlGate(), "SELECT 1 -- a\n, get_lock('a', 1)"),
    (MysqlGate(), "SELECT 1 # a\n, get_lock('a', 1)"),
    (MysqlGate(), "SELECT 1 INTO#\nOUTFILE '/tmp/evil'"),
    (MysqlGate(), "SELECT 1 INTO-- \nDUMPFILE '/tmp/evil'"),
    (PostgresqlGate({"pg_ls_dir"}, ()), "SELECT 1 -- a\n, pg_ls_dir('/')"),
    (PostgresqlGate({"pg_ls_dir"}, ()), "SELECT 1$$ ' $$, pg_ls_dir('/'), $$ ' $$"),
    (PostgresqlGate({"pg_ls_dir"}, ()), "SELECT E'a'\n'\\', ' || pg_ls_dir('/') || '"),
    (PostgresqlGate({"pg_ls_dir"}, ()), "SELECT a$b$ FROM t, pg_ls_dir('/') WHERE x = '$b$'"),
])  # fmt: skip
def test_no_spelling_hides_a_function(gate: MysqlGate | PostgresqlGate, sql: str) -> None:
    with pytest.raises(RefusedError):
        gate.check(sql)


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", ["'", '"', "`", "/*", "(", "a(", "$a$", "-", "E'\\", "$", "a,", "x AS (", ", q(", ") AS ("]
)
def test_the_check_takes_linear_time(part: str) -> None:
    def seconds(length: int) -> float:
        sql = "SELECT 1 WHERE " + part * (length // len(part))

        def check() -> None:
            for gate in (MysqlGate(), PostgresqlGate((), ())):
                with suppress(RefusedError):
                    gate.check(sql)

        # without garbage collection
        return min(timeit.repeat(check, timer=time.thread_time, number=1, repeat=2))

    assert seconds(60_000) < 8 * seconds(15_000) + 0.1, "four times the text; the square would be 16"


def test_mariadb_reads_tokens_as_the_check_does() -> None:
    with (
        mariadb.new_database(*TABLES) as url,
        pymysql.connect(host=mariadb.HOST, user=reader_of(url)) as connection,
    ):
        for sql, expected in (
            ("SELECT 1 --\x7f '\n+ 1", 2),
            (r"SELECT 'a\'b' AS a", "a'b"),
            ("SELECT 'a''b'", "a'b"),
            ("SELECT 2--1", 3),
            ("SELECT 1 /* ' */ + 1", 2),
        ):
            with connection.cursor() as cursor:
                cursor.execute(sql)
                assert cursor.fetchone()[0] == expected, sql
            assert MysqlGate().check(sql)


def test_a_column_with_the_name_of_a_refused_function_is_read() -> None:
    table = "CREATE TABLE t (nextval integer, system text)"
    with postgres.new_reader(table) as url, psycopg.connect(url) as connection:
        gate = gate_of(connection)
        assert gate.check("SELECT t.nextval, t.system, t.time_in FROM (SELECT *, 1 AS time_in FROM t) t")
        with pytest.raises(RefusedError, match="pg_sleep"):
            gate.check("SELECT (8::float8).pg_sleep")
