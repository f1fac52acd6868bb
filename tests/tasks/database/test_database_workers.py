"""The pool of worker processes: functions inside them, and what happens when they die or overrun."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import sql_worker_functions as functions

from tasks.core.errors import DatabaseUnavailableError, ExtensionError
from tasks.database.database import Database, open_database, product_of
from tasks.database.limits import MIB, Limits
from tasks.database.sandbox import process
from tasks.database.sandbox import workers as pool_module
from tasks.database.sandbox.frames import framed
from tasks.database.sandbox.process import WorkerProcess
from tasks.database.sandbox.session import Result, SqlSession
from tasks.database.sandbox.worker import OPEN_DATABASES
from tasks.database.sandbox.workers import ATTEMPTS, SqlWorkers, WorkerLost
from tasks.retrieval.value_index_builder import write
from tests.support.packages import install
from tests.support.processes import cpu_of_children, until_busy, until_ended
from tests.tasks.database.conftest import Build

ROOT = Path(__file__).parents[3]
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
DEAF = "SELECT length(printf('%.*c', 1000000000, 'x'))"
NAMES = "SELECT name FROM singer ORDER BY id"

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def until_gone(pid: int) -> bool:
    """Wait until a process has ended and is not even a zombie; False after a minute."""
    for _ in range(6000):
        if not psutil.pid_exists(pid):
            return True
        await asyncio.sleep(0.01)
    return False


def children() -> set[int]:
    """Processes of ours, zombies too."""
    return {child.pid for child in psutil.Process().children()}


def open_files() -> int:
    return psutil.Process().num_fds()


async def test_a_function_runs_on_the_whole_result_in_a_worker(
    workers: SqlWorkers, concert: Database
) -> None:
    result = await workers.call(functions.whole_result, concert, NAMES, timeout_s=5)
    assert isinstance(result, Result)
    assert result.rows == [("Ann",), ("Bob",), ("Cyd",)]
    assert result.row_count == 3
    assert await workers.call(functions.noisy, concert, "noise\n", timeout_s=5) == "noise\n"
    reverse = NAMES + " DESC"
    assert await workers.call(functions.agree, concert, NAMES, reverse, timeout_s=5) is True
    assert await workers.call(functions.agree, concert, NAMES, "SELECT 1", timeout_s=5) is False


async def test_an_exception_comes_back_with_its_traceback(workers: SqlWorkers, concert: Database) -> None:
    with pytest.raises(LookupError, match="lost") as caught:
        await workers.call(functions.fail, concert, "lost", timeout_s=5)
    assert "sql_worker_functions.py" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="AwkwardError: no pickle carries this"):
        await workers.call(functions.fail_awkwardly, concert, timeout_s=5)
    with pytest.raises(TypeError, match="function cannot leave the worker"):
        await workers.call(functions.unpicklable, concert, timeout_s=5)
    assert (await workers.execute(concert, NAMES)).row_count == 3


async def test_row_caps_can_be_set_for_one_query(workers: SqlWorkers, concert: Database) -> None:
    capped = await workers.call(functions.capped, concert, NAMES, 2, timeout_s=5)
    assert (capped.status, capped.rows, capped.row_count) == ("too_large", [], None)
    assert "more than 2 rows" in capped.error
    assert (await workers.call(functions.capped, concert, NAMES, 3, timeout_s=5)).ok
    kept = await workers.call(functions.kept, concert, NAMES, 1, timeout_s=5)
    assert (kept.status, kept.rows, kept.row_count) == ("ok", [("Ann",)], 3)


@pytest.mark.parametrize("sql", [
    NAMES,
    "SELECT count(*) FROM singer a, singer b, singer c, singer d",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000) SELECT count(*) FROM n",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50000) SELECT count(*) FROM n",
])  # fmt: skip
async def test_steps_repeat_and_are_what_sqlite_counts(
    workers: SqlWorkers, concert: Database, sql: str
) -> None:
    first, second = await workers.call(functions.counted, concert, sql, timeout_s=5)
    assert first == second > 0
    own = await workers.call(functions.steps_by_sqlite_itself, concert, sql, timeout_s=5)
    if own is None:
        pytest.skip("this SQLite was compiled without sqlite_stmt, so there is nothing to compare with")
    assert first == pytest.approx(own, abs=0 if own < 100_000 else 100)


async def test_queries_of_one_call_share_its_time(workers: SqlWorkers, concert: Database) -> None:
    both = await workers.call(functions.statuses, concert, ENDLESS, ENDLESS, timeout_s=0.5)
    (first, alone), (second, rest) = both
    assert (first, second) == ("timeout", "timeout")
    assert alone >= 0.2
    assert alone + rest < 30  # alone, the second might take 60 s


async def test_a_call_that_overruns_is_lost_with_its_worker(workers: SqlWorkers, concert: Database) -> None:
    pid = await workers.call(functions.own_pid, concert, timeout_s=5)
    await workers.call(functions.slept, concert, 0.0, timeout_s=5)
    with pytest.raises(WorkerLost, match=r"within 0\.1 s") as lost:
        await workers.call(functions.slept, concert, 30.0, timeout_s=0.1)
    assert lost.value.status == "timeout"
    assert await until_gone(pid)
    assert await workers.call(functions.own_pid, concert, timeout_s=5) != pid


async def test_a_call_that_takes_too_much_memory_is_lost_alone(
    workers: SqlWorkers, concert: Database
) -> None:
    with pytest.raises(WorkerLost, match="512 MiB") as lost:
        await workers.call(functions.greedy, concert, 2000, timeout_s=5)
    assert lost.value.status == "too_large"
    assert await workers.call(functions.greedy, concert, 200, timeout_s=5) == 200 * 1024 * 1024


@pytest.mark.parametrize("how", [signal.SIGABRT, signal.SIGSEGV])
async def test_a_worker_that_dies_in_a_query_gives_too_large_and_says_how_it_ended(
    workers: SqlWorkers, concert: Database, how: signal.Signals
) -> None:
    pid = await workers.call(functions.own_pid, concert, timeout_s=5)
    query = asyncio.create_task(workers.execute(concert, ENDLESS, timeout_s=3600))
    await until_busy(pid)
    os.kill(pid, how)
    execution = await query
    assert (execution.status, f"signal {how.value}" in execution.error) == ("too_large", True)
    assert (await workers.execute(concert, NAMES)).row_count == 3
    assert await until_gone(pid)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_query_whose_process_others_end_runs_in_another(
    concert: Database, how: signal.Signals
) -> None:
    async with SqlWorkers(1, limits=Limits(grace_s=0.5)) as pool:
        pid = await pool.call(functions.own_pid, concert, timeout_s=5)
        await pool.call(functions.slept, concert, 0.0, timeout_s=5)
        query = asyncio.create_task(pool.call(functions.slept, concert, 2.0, timeout_s=3))
        await asyncio.sleep(0.5)
        os.kill(pid, how)
        assert await query == 2.0
        assert await until_gone(pid)


async def test_a_query_whose_processes_are_all_ended_from_outside_has_no_outcome(concert: Database) -> None:
    async with SqlWorkers(1) as pool:
        with pytest.raises(DatabaseUnavailableError, match=r"3 times \(signal 9\).*Free memory"):
            await pool.call(functions.die_at, concert, "die", timeout_s=5)
        assert (await pool.execute(concert, NAMES)).row_count == 3


@pytest.mark.parametrize("killed", [2, 3])
async def test_a_worker_that_is_ended_from_outside_while_it_starts_is_started_again(
    concert: Database, monkeypatch: pytest.MonkeyPatch, killed: int
) -> None:
    started = []

    class Killed(WorkerProcess):
        def __init__(self) -> None:
            super().__init__()
            started.append(self)
            if len(started) <= killed:
                os.kill(self._process.pid, signal.SIGKILL)

    monkeypatch.setattr(pool_module, "WorkerProcess", Killed)
    async with SqlWorkers(1) as pool:
        if killed == ATTEMPTS:
            with pytest.raises(DatabaseUnavailableError, match=r"3 times \(signal 9\).*Free memory"):
                await pool.execute(concert, NAMES)
        assert (await pool.execute(concert, NAMES)).row_count == 3


async def test_a_worker_that_died_while_idle_costs_no_query(workers: SqlWorkers, concert: Database) -> None:
    pid = await workers.call(functions.own_pid, concert, timeout_s=5)
    os.kill(pid, signal.SIGKILL)
    assert await until_ended(pid)
    assert (await workers.execute(concert, NAMES)).row_count == 3
    assert await until_gone(pid)


async def test_a_job_that_kills_each_worker_while_it_is_sent_is_given_up(concert: Database) -> None:
    huge = "SELECT 1 --" + "x" * (150 * MIB)
    async with SqlWorkers(1, limits=Limits(memory_mb=128)) as pool:
        async with asyncio.timeout(60):
            execution = await pool.execute(concert, huge, timeout_s=1)
        assert execution.status == "too_large"
        assert "128 MiB" in execution.error
        assert (await pool.execute(concert, NAMES)).row_count == 3


async def test_ctrl_c_reaches_the_parent_only(workers: SqlWorkers, concert: Database) -> None:
    pid = await workers.call(functions.own_pid, concert, timeout_s=5)
    assert os.getpgid(pid) != os.getpgid(0)
    os.kill(pid, signal.SIGINT)
    assert await workers.call(functions.own_pid, concert, timeout_s=5) == pid


async def test_a_cancelled_query_leaves_no_busy_worker_or_zombie(
    workers: SqlWorkers, concert: Database
) -> None:
    pid = await workers.call(functions.own_pid, concert, timeout_s=5)
    query = asyncio.create_task(workers.execute(concert, ENDLESS, timeout_s=3600))
    await until_busy(pid)
    query.cancel()
    with pytest.raises(asyncio.CancelledError):
        await query
    async with asyncio.timeout(300):
        assert (await workers.execute(concert, NAMES)).row_count == 3
    assert await until_gone(pid)


async def test_cancelling_while_a_worker_starts_or_while_waiting_loses_no_place(concert: Database) -> None:
    before = children()
    async with SqlWorkers(1) as pool:
        for pause in (0.0, 0.001, 0.01, 0.03):
            queries = [asyncio.create_task(pool.execute(concert, NAMES)) for _ in range(3)]
            await asyncio.sleep(pause)
            for query in queries:
                query.cancel()
            await asyncio.gather(*queries, return_exceptions=True)
        assert (await pool.execute(concert, NAMES)).row_count == 3
    assert children() <= before


async def test_a_worker_can_write_no_file_and_knows_no_secret(
    workers: SqlWorkers, concert: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OSError, match="too large"):
        await workers.call(functions.write_file, concert, str(tmp_path / "written"), timeout_s=5)
    assert (tmp_path / "written").stat().st_size == 0
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    async with SqlWorkers(1) as pool:
        assert "secret" not in (await pool.call(functions.environment, concert, timeout_s=5)).values()


async def test_hundreds_of_waiters_are_served_in_the_order_they_came(concert: Database) -> None:
    served: list[int] = []

    async def ask(pool: SqlWorkers, number: int) -> None:
        assert (await pool.execute(concert, f"SELECT {number}")).rows == ((number,),)
        served.append(number)

    async with SqlWorkers(1) as pool:
        await asyncio.gather(*(ask(pool, number) for number in range(400)))
    assert len(served) == 400
    assert all(abs(number - position) <= 40 for position, number in enumerate(served))


@pytest.mark.slow
async def test_queries_that_ended_while_this_process_stood_still_are_no_timeouts(concert: Database) -> None:
    limits = Limits(timeout_s=0.2, grace_s=0.2)
    async with SqlWorkers(2, limits=limits) as pool:
        assert (await pool.execute(concert, NAMES)).status == "ok"
        for _ in range(5):
            asked = [asyncio.create_task(pool.execute(concert, NAMES)) for _ in range(8)]
            await asyncio.sleep(0.001)  # the first ones are sent
            time.sleep(1)  # as after Ctrl-Z and `fg`, or behind a call that holds the loop up
            assert {execution.status for execution in await asyncio.gather(*asked)} == {"ok"}


@pytest.mark.slow
async def test_a_result_still_being_received_after_a_standstill_is_no_timeout(concert: Database) -> None:
    limits = Limits(timeout_s=1.0, grace_s=1.0)
    async with SqlWorkers(1, limits=limits) as pool:
        await pool.call(functions.large, concert, 1, timeout_s=5)
        asked = asyncio.create_task(pool.call(functions.large, concert, 8, timeout_s=1.0))
        await asyncio.sleep(0.001)
        time.sleep(3)  # the result is larger than what a pipe holds, so the worker still writes it
        assert len(await asked) == 8 * 1024 * 1024


@pytest.mark.slow
async def test_a_worker_that_starts_while_this_process_stands_still_has_started(
    concert: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "START_S", 2.0)
    async with SqlWorkers(1) as pool:
        asked = asyncio.create_task(pool.execute(concert, NAMES))
        await asyncio.sleep(0.001)
        time.sleep(3)
        assert (await asked).status == "ok"


async def test_a_close_that_is_cancelled_leaves_no_process(concert: Database) -> None:
    before, files = children(), open_files()
    pool = SqlWorkers(2)
    async with pool:
        await asyncio.gather(*(pool.call(functions.slept, concert, 0.1, timeout_s=5) for _ in range(2)))
        assert len(children() - before) == 2
        closing = asyncio.create_task(pool.close())
        await asyncio.sleep(0)  # the processes are killed, and not yet reaped
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
    assert children() <= before
    assert open_files() <= files


async def test_workers_start_only_when_they_are_needed(concert: Database) -> None:
    before = children()
    async with SqlWorkers(3) as pool:
        assert children() == before
        for _ in range(5):
            await pool.execute(concert, NAMES)
        assert len(children() - before) == 1
        queries = [asyncio.create_task(pool.execute(concert, ENDLESS, timeout_s=3600)) for _ in range(4)]
        async with asyncio.timeout(300):
            while len(children() - before) < 3:
                await asyncio.sleep(0.01)
    await asyncio.gather(*queries, return_exceptions=True)
    assert children() == before


async def test_closing_ends_busy_workers_and_whoever_waits_for_them(concert: Database) -> None:
    before = children()
    pool = SqlWorkers(1)
    with pytest.raises(RuntimeError, match="open the SqlWorkers first"):
        await pool.execute(concert, NAMES)
    async with pool:
        pid = await pool.call(functions.own_pid, concert, timeout_s=5)
        queries = [asyncio.create_task(pool.execute(concert, ENDLESS, timeout_s=3600)) for _ in range(3)]
        await until_busy(pid)
    async with asyncio.timeout(300):
        results = await asyncio.gather(*queries, return_exceptions=True)
    assert [type(result) for result in results] == [RuntimeError] * 3
    assert children() <= before
    with pytest.raises(RuntimeError, match="the SqlWorkers were closed"):
        await pool.execute(concert, NAMES)


async def test_a_worker_that_cannot_start_says_so(concert: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async with SqlWorkers(1) as pool:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", "/bin/false")
            with pytest.raises(DatabaseUnavailableError, match=r"did not start \(exit code 1\)"):
                await pool.execute(concert, NAMES)
        assert (await pool.execute(concert, NAMES)).row_count == 3


async def test_a_worker_works_within_the_least_memory_it_may_be_given(concert: Database) -> None:
    async with SqlWorkers(1, limits=Limits(memory_mb=128)) as pool:
        assert (await pool.execute(concert, NAMES)).row_count == 3
        hungry = ENDLESS.replace("count(*)", "count(DISTINCT hex(zeroblob(50000 + i)))")
        execution = await pool.execute(concert, hungry)
        assert execution.status == "too_large"


async def test_the_pool_works_in_a_loop_of_any_thread(concert: Database) -> None:
    found: list[int | None] = []

    async def ask() -> None:
        async with SqlWorkers(2) as pool:
            results = await asyncio.gather(*(pool.execute(concert, NAMES) for _ in range(10)))
            found.extend(result.row_count for result in results)

    thread = threading.Thread(target=lambda: asyncio.run(ask()))
    thread.start()
    await asyncio.to_thread(thread.join, 300)
    assert found == [3] * 10


PARENT = """
import asyncio, os, sys
from pathlib import Path
import sql_worker_functions as functions
from tasks.database.database import open_database
from tasks.database.sandbox.workers import SqlWorkers

async def main():
    async with SqlWorkers(1) as pool:
        database = open_database(Path(sys.argv[1]), "concert")
        print(await pool.call(functions.own_pid, database, timeout_s=5), flush=True)
        await pool.execute(database, sys.argv[2], timeout_s=3600)

asyncio.run(main())
"""


@pytest.mark.parametrize("sql", [ENDLESS, DEAF], ids=["endless", "deaf"])
async def test_a_busy_worker_ends_when_its_parent_is_killed(concert: Database, sql: str) -> None:
    folders = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    program = [sys.executable, "-c", PARENT, str(concert.path), sql]
    environment = os.environ | {"PYTHONPATH": folders}
    parent = subprocess.Popen(program, stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    await until_busy(worker)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    if not await until_ended(worker):
        os.kill(worker, signal.SIGKILL)
        pytest.fail("the worker outlived its parent")


async def test_a_worker_starts_with_a_tenth_of_a_processor_second_or_so(concert: Database) -> None:
    before = cpu_of_children()
    for _ in range(3):
        async with SqlWorkers(1) as pool:
            await pool.execute(concert, NAMES)
    assert (cpu_of_children() - before) / 3 < 1.0


async def test_a_worker_whose_parent_has_died_meanwhile_says_nothing() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(framed(Limits()))
        ours.close()
        command = [sys.executable, "-m", "tasks.database.sandbox.worker"]
        pipes = {"stdin": theirs, "stdout": theirs, "stderr": subprocess.PIPE}
        ran = subprocess.run(command, cwd=ROOT, timeout=300, **pipes)
    assert (ran.returncode, ran.stderr) == (0, b"")


async def test_a_worker_keeps_few_databases_open(build_database: Build, tmp_path: Path) -> None:
    """The least recently used connection is closed: a server allows few, and each takes memory."""
    before, names = children(), [f"{number}.sqlite" for number in range(OPEN_DATABASES + 14)]
    databases = [build_database(tmp_path / name, "CREATE TABLE item (id)") for name in names]
    async with SqlWorkers(1) as workers:
        for database in databases:
            assert (await workers.execute(database, "SELECT id FROM item", rows=1, timeout_s=5)).ok
        (worker,) = children() - before
        files = psutil.Process(worker).open_files()
    assert sum(file.path.startswith(str(tmp_path)) for file in files) == OPEN_DATABASES


ENGINE = """
from tasks.database.engines.sqlite import _Sqlite


class Unpicklable(Exception):
    def __init__(self, first, second):
        super().__init__("odd")


class Raising(_Sqlite):
    name = "raising"

    def connect(self, location, limits):
        raise Unpicklable(1, 2)


raising = Raising()
"""


async def test_what_the_engine_of_a_package_raises_names_its_file_and_line(
    concert: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "raising", ENGINE, "[crosscheck.engines]\nraising = raising:raising\n")
    monkeypatch.syspath_prepend(tmp_path)
    database = replace(concert, location=replace(concert.location, engine="raising"))
    async with SqlWorkers(1) as pool:
        with pytest.raises(ExtensionError) as caught:
            await pool.execute(database, NAMES, timeout_s=5)
    line = ENGINE.splitlines().index("        raise Unpicklable(1, 2)") + 1
    assert str(caught.value) == f"{tmp_path}/raising.py:{line}, in connect: Unpicklable: odd"


BROKEN = """
import os
from tasks.database.engine import Connection, Cursor
from tasks.database.engines.sqlite import _Sqlite
from tasks.database.schema import Column, Schema, Table


class Odd(Cursor):
    def __init__(self, rows, columns=("name",)):
        self.rows = rows
        self.columns = columns

    def fetch(self, rows):
        return self.rows

    def close(self):
        pass


class Broken(Connection):
    errors = (ValueError,)

    def __init__(self, mode):
        self.mode = mode

    def execute(self, sql, deadline):
        if self.mode == "dies":
            os._exit(7)
        if self.mode == "explain":
            raise ValueError
        returned = {"execute": None, "columns": Odd([], 5), "fetch": Odd(None), "row": Odd([None])}
        return returned[self.mode]

    def explain(self, error):
        return "broken", "no status"

    def close(self):
        pass


class BrokenEngine(_Sqlite):
    name = "broken"

    def __init__(self, mode):
        self.mode = mode

    def read(self, location, database_id, sample_rows):
        table = Table("singer", (Column("name", "TEXT"),))
        return None if self.mode == "read" else Schema(database_id, (table,), dialect="sqlite")

    def digest(self, location):
        return 5

    def product(self, location):
        return 5

    def values(self, location):
        return None

    def connect(self, location, limits):
        return None if self.mode == "connect" else Broken(self.mode)


"""
MODES = ("connect", "execute", "columns", "fetch", "row", "explain", "dies", "read", "digest")


@pytest.fixture
def broken(concert: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Database]:
    """Returns the database on an engine of a package that is broken in one of `MODES`."""
    objects = "".join(f"{mode} = BrokenEngine({mode!r})\n" for mode in MODES)
    offers = "".join(f"{mode} = broken:{mode}\n" for mode in MODES)
    install(tmp_path, "broken", BROKEN + objects, f"[crosscheck.engines]\n{offers}")
    monkeypatch.syspath_prepend(tmp_path)
    return lambda mode: replace(concert, location=replace(concert.location, engine=mode))


@pytest.mark.parametrize(("mode", "problem"), [
    ("connect", "BrokenEngine.connect returned a value of the type NoneType, not a Connection"),
    ("execute", "Broken.execute returned a value of the type NoneType, not a Cursor"),
    ("columns", "Odd.columns is a value of the type int, not a tuple | None"),
    ("fetch", "Odd.fetch returned a value of the type NoneType, not a list"),
    ("row", "Odd.fetch returned, as a row, a value of the type NoneType, not a tuple"),
    ("explain", "Broken.explain returned ('broken', 'no status'), not a status and a sentence"),
    ("dies", "The process of the engine BrokenEngine, from a package, ended even for SELECT 1: The query took"),
])  # fmt: skip
async def test_an_engine_of_a_package_that_is_broken_is_named_and_no_query_is_blamed(
    broken: Callable[[str], Database], mode: str, problem: str
) -> None:
    async with SqlWorkers(1) as pool:
        with pytest.raises(ExtensionError) as caught:
            await pool.execute(broken(mode), NAMES, timeout_s=5)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize("mode", ["read", "digest"])
async def test_what_an_engine_of_a_package_says_of_a_database_is_checked(
    broken: Callable[[str], Database], mode: str
) -> None:
    with pytest.raises(ExtensionError, match=rf"BrokenEngine\.{mode} returned a value of the type"):
        open_database(broken(mode).location, "concert")
    with pytest.raises(ExtensionError, match=r"BrokenEngine\.product returned a value of the type int"):
        product_of({"concert": broken(mode)})
    session = SqlSession(broken(mode).location, Limits(), lambda seconds: None)
    with pytest.raises(ExtensionError, match=r"BrokenEngine\.values returned a value of the type NoneType"):
        write(session, {}, Path("draft"))
