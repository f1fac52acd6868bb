"""Databases that vanish, are damaged or change while a run uses them: never an outcome of a SQL, on any engine."""

import asyncio
import os
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from pathlib import Path

import duckdb
import psycopg
import pymysql
import pytest

from tasks.core.errors import DatabaseUnavailableError
from tasks.database.database import Database, locate, open_database
from tasks.database.limits import Limits
from tasks.database.sandbox.workers import SqlWorkers
from tasks.retrieval.value_index import ValueIndex
from tasks.scoring.execution.accuracy import Judge
from tests.support import mariadb, postgres
from tests.support.engines import SERVERS, owned, reader_of
from tests.support.gateway import gateway_to

pytestmark = pytest.mark.slow

ROWS = 50_000
ALL = "SELECT sum(length(name)), count(*) FROM town"
EXPECTED = ((100 * ROWS, ROWS),)


@pytest.fixture
async def workers() -> AsyncIterator[SqlWorkers]:
    async with SqlWorkers(1) as pool:
        yield pool


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database of each kind, so large that queries read pages that opening it does not."""
    folder = tmp_path_factory.mktemp("towns")
    with closing(sqlite3.connect(folder / "town.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE town (id INTEGER PRIMARY KEY, name TEXT)")
        names = ((f"{n:0100}",) for n in range(ROWS))
        connection.executemany("INSERT INTO town (name) VALUES (?)", names)
    with duckdb.connect(str(folder / "town.duckdb")) as other:
        columns = "i AS id, format('{:0100d}', hash(i)) AS name"
        other.execute(f"CREATE TABLE town AS SELECT {columns} FROM range({ROWS}) AS r(i)")
    (folder / "folder").mkdir()
    rows = "".join(f"{n},{n:0100}x\n" for n in range(ROWS))
    (folder / "folder" / "town.csv").write_text(f"id,name\n{rows}")
    return folder


@pytest.fixture(params=["town.sqlite", "town.duckdb", "folder"])
def files(request: pytest.FixtureRequest, built: Path, tmp_path: Path) -> Database:
    path = copy(built / request.param, tmp_path / request.param)
    return open_database(locate(str(path)), "town")


def copy(source: Path, target: Path) -> Path:
    (shutil.copytree if source.is_dir() else shutil.copy2)(source, target)  # type: ignore[operator]
    return target


def inner(database: Database) -> Path:
    path = database.path
    return path / "town.csv" if path.is_dir() else path


def truncate(database: Database) -> None:
    os.truncate(inner(database), inner(database).stat().st_size // 2)


def fill_with_garbage(database: Database) -> None:
    """Overwrite the middle of the file."""
    path = inner(database)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 4)
        file.write(os.urandom(path.stat().st_size // 2))


def put_a_folder_in_its_place(database: Database) -> None:
    path = inner(database)
    path.rename(path.with_name("aside"))
    path.mkdir()


def move_away(database: Database) -> None:
    database.path.rename(database.path.with_name("aside"))


def replace_by_another(database: Database) -> None:
    """Put a database with the same tables and other rows in its place, with the same time of change."""
    path = inner(database)
    stat = path.stat()
    path.unlink()
    if path.suffix == ".sqlite":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE town (id INTEGER PRIMARY KEY, name TEXT)")
    elif path.suffix == ".duckdb":
        with duckdb.connect(str(path)) as other:
            other.execute("CREATE TABLE town (id INTEGER, name VARCHAR)")
    else:
        path.write_text("id,name\n1,x\n")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


FAULTS = (truncate, fill_with_garbage, put_a_folder_in_its_place, move_away, replace_by_another)


@pytest.mark.parametrize(
    ("harm", "opened"),
    [*((harm, True) for harm in FAULTS), (truncate, False)],
    ids=[*(harm.__name__ for harm in FAULTS), "truncate before it is opened"],
)
async def test_a_file_that_vanishes_or_changes_gives_no_verdict_until_it_is_back(
    files: Database, workers: SqlWorkers, harm: Callable[[Database], None], opened: bool, tmp_path: Path
) -> None:
    whole = copy(files.path, tmp_path / "whole")
    if opened:
        assert (await workers.execute(files, "SELECT 1")).ok
    harm(files)
    kept: dict[object, object] = {}
    judge = Judge(workers, ("bird",), 30.0, kept)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(DatabaseUnavailableError, match=r"[Rr]un the same command again"):
            await workers.execute(files, ALL)
        with pytest.raises(DatabaseUnavailableError):
            await judge.verdicts(files, ALL, {"one": ALL, "wrong": "SELECT nothing FROM town"})
    assert kept == {}
    with pytest.raises(DatabaseUnavailableError):
        ValueIndex.open(files, tmp_path / "values")
    assert not [*(tmp_path / "values").glob("*.sqlite")]
    if files.path.is_dir():
        shutil.rmtree(files.path)
    else:
        files.path.unlink(missing_ok=True)
    whole.rename(files.path)
    result = await workers.execute(files, "SELECT count(*) FROM town")
    assert result.rows == ((ROWS,),), "a copy with the same content is the same database"
    assert (await judge.verdicts(files, ALL, {"one": ALL}))["one"].correct == {"bird": True}


@pytest.mark.parametrize("name", ["town.sqlite", "town.duckdb"])
async def test_a_file_that_was_damaged_from_the_beginning_gives_no_verdict(
    name: str, workers: SqlWorkers, built: Path, tmp_path: Path
) -> None:
    whole = open_database(locate(str(copy(built / name, tmp_path / name))), "town")
    fill_with_garbage(whole)
    try:
        damaged = open_database(locate(str(tmp_path / name)), "town")
    except Exception as error:
        assert "town" in str(error)
        return
    with pytest.raises(DatabaseUnavailableError, match="cannot be read now"):
        await workers.execute(damaged, ALL)


async def test_a_query_that_crashes_duckdb_spoils_no_other(workers: SqlWorkers, built: Path) -> None:
    database = open_database(locate(str(built / "town.duckdb")), "town")
    for sql in ("SELECT 1/0", "SELECT count(*) FROM nowhere", "SELECT * FROM read_csv('/nope')"):
        assert (await workers.execute(database, sql)).status in ("ok", "error")
    assert (await workers.execute(database, "SELECT count(*) FROM town")).rows == ((ROWS,),)


@pytest.mark.parametrize("sql", [
    "SELECT mode(i), histogram(i) FROM range(20000000) r(i)",
    "SELECT count(*) FROM (SELECT i, count(*) FROM range(10000000) r(i) GROUP BY i)",
    "SELECT * FROM range(20000000) r(i) ORDER BY hash(i) LIMIT 5 OFFSET 10000000",
])  # fmt: skip
async def test_a_query_that_needs_more_than_duckdbs_memory_gets_a_verdict_and_writes_nothing(
    sql: str, built: Path, tmp_path: Path
) -> None:
    copy(built / "town.duckdb", tmp_path / "town.duckdb")
    database = open_database(locate(str(tmp_path / "town.duckdb")), "town")
    async with SqlWorkers(1, limits=Limits(memory_mb=256)) as small:
        assert (await small.execute(database, sql, timeout_s=30)).status == "too_large"
    assert [file.name for file in tmp_path.iterdir()] == ["town.duckdb"]


TABLES = (
    "CREATE TABLE town (id INTEGER, name VARCHAR(50))",
    "INSERT INTO town VALUES (1, 'Oslo'), (2, 'Rome')",
)


@pytest.mark.parametrize(("kind", "port"), [("postgresql", 5432), ("mysql", 3306)])
async def test_a_server_that_refuses_or_cuts_connections_gives_no_verdict_until_it_is_back(
    kind: str, port: int, workers: SqlWorkers, tmp_path: Path
) -> None:
    with SERVERS[kind](*TABLES) as url, gateway_to(port) as gateway:
        near = url.replace("127.0.0.1:5432", "127.0.0.1").replace("127.0.0.1", f"127.0.0.1:{gateway.port}")
        database = open_database(locate(near), "town")
        assert (await workers.execute(database, "SELECT count(*) FROM town")).rows == ((2,),)
        gateway.close()
        for _ in range(2):
            with pytest.raises(DatabaseUnavailableError):
                await workers.execute(database, "SELECT count(*) FROM town")
            with pytest.raises(DatabaseUnavailableError):
                await Judge(workers, ("bird",), 5.0).verdicts(database, "SELECT 1", {"one": "SELECT 2"})
        with pytest.raises(DatabaseUnavailableError):
            ValueIndex.open(database, tmp_path)
        gateway.open()
        assert (await workers.execute(database, "SELECT count(*) FROM town")).rows == ((2,),)


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("cancel", [True, False], ids=["query", "session"])
async def test_a_query_that_others_end_is_no_timeout(kind: str, workers: SqlWorkers, cancel: bool) -> None:
    slow = {
        "postgresql": "SELECT count(*) FROM generate_series(1, 300000000)",
        "mysql": "SELECT count(*) FROM seq_1_to_1000000 a, seq_1_to_1000000 b",
    }[kind]
    with SERVERS[kind](*TABLES) as url:
        database = open_database(locate(url), "town")
        assert (await workers.execute(database, "SELECT 1")).ok
        ending = threading.Event()

        def end_again_and_again() -> None:
            while not ending.wait(0.2):
                end_sessions(kind, url, cancel=cancel)

        thread = threading.Thread(target=end_again_and_again)
        thread.start()
        try:
            with pytest.raises(DatabaseUnavailableError):
                await workers.execute(database, slow, timeout_s=20.0)
        finally:
            ending.set()
            thread.join()
        assert (await workers.execute(database, "SELECT count(*) FROM town")).rows == ((2,),)


def end_sessions(kind: str, url: str, *, cancel: bool) -> None:
    """Cancel the queries of a database's reader, or end its sessions, as an administrator does."""
    reader = reader_of(url)
    if kind == "postgresql":
        end = "pg_cancel_backend" if cancel else "pg_terminate_backend"
        sessions = f"FROM pg_stat_activity WHERE usename = '{reader}' AND query LIKE '-- limit %'"
        postgres.execute(owned(url), f"SELECT {end}(pid) {sessions}")
        return
    listed = f"SELECT id FROM information_schema.processlist WHERE user = '{reader}' AND info RLIKE 'seq_1_to_|SLEEP'"
    for (session,) in mariadb.execute(listed):
        try:
            mariadb.execute(f"KILL {'QUERY' if cancel else ''} {session}")
        except Exception:  # it has ended
            return


@pytest.mark.parametrize("kind", SERVERS)
async def test_a_server_that_still_runs_queries_after_their_time_gets_no_more(kind: str) -> None:
    def run_on(url: str) -> None:
        with suppress(psycopg.Error, pymysql.Error):  # it is cancelled
            if kind == "postgresql":
                postgres.execute(url, "-- limit 0 \nSELECT pg_sleep(60)")
                return
            with pymysql.connect(host=mariadb.HOST, user=reader_of(url)) as connection:
                connection.cursor().execute("/* limit 0 */ SELECT SLEEP(60)")

    with SERVERS[kind](*TABLES) as url:
        database = open_database(locate(url), "town")
        threads = [threading.Thread(target=run_on, args=(url,)) for _ in range(3)]
        for thread in threads[:2]:
            thread.start()
        await asyncio.sleep(2.5)
        async with SqlWorkers(1) as workers:
            assert (await workers.execute(database, "SELECT count(*) FROM town")).ok
        threads[2].start()
        await asyncio.sleep(2.5)
        async with SqlWorkers(1) as workers:
            with pytest.raises(DatabaseUnavailableError, match="still runs 3 queries whose time is over"):
                await workers.execute(database, "SELECT count(*) FROM town")
        end_sessions(kind, url, cancel=True)
        for thread in threads:
            thread.join()
        async with SqlWorkers(1) as workers:
            assert (await workers.execute(database, "SELECT count(*) FROM town")).ok
