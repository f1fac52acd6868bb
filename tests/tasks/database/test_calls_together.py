"""Calls that wait for a worker go there in one message, and none loses its result to another."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import sql_worker_functions as functions

from tasks.core.errors import DatabaseUnavailableError
from tasks.database.database import Database
from tasks.database.limits import Limits
from tasks.database.sandbox.workers import MAX_CALLS, MAX_MESSAGE_S, SqlWorkers, WorkerLost, call_each

TIMEOUT_S = 5.0

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Messages(SqlWorkers):
    """Workers that note the arguments of the calls that each of their messages held."""

    def __init__(self, size: int) -> None:
        super().__init__(size, limits=Limits(timeout_s=5.0, grace_s=1.0, memory_mb=512))
        self.sent: list[list[Any]] = []

    async def call(
        self, function: Callable[..., Any], database: Database, *args: Any, timeout_s: float
    ) -> Any:
        """Note the message and send it."""
        self.sent.append([argument for argument, _ in args[1]] if function is call_each else list(args))
        return await super().call(function, database, *args, timeout_s=timeout_s)

    @property
    def held(self) -> list[int]:
        """How many calls each message held; what a busy machine did not begin in time was sent once more."""
        return [len(each) for each in self.sent]


@pytest_asyncio.fixture(loop_scope="module")
async def pool() -> AsyncIterator[Messages]:
    """Two workers."""
    async with Messages(2) as workers:
        yield workers


async def together(
    pool: SqlWorkers, function: Callable[..., Any], database: Database, *arguments: Any
) -> list[Any]:
    """Call a function with each argument at once; return values and exceptions."""
    calls = (pool.together.call(function, database, argument, timeout_s=TIMEOUT_S) for argument in arguments)
    return await asyncio.gather(*calls, return_exceptions=True)


def calling(pool: SqlWorkers, database: Database) -> list[asyncio.Task[Any]]:
    """Six calls under way."""
    call = partial(pool.together.call, functions.noisy, database, timeout_s=TIMEOUT_S)
    return [asyncio.create_task(call(name)) for name in "abcdef"]


async def senders(
    before: set[asyncio.Task[Any]], callers: list[asyncio.Task[Any]], steps: int
) -> set[asyncio.Task[Any]]:
    """The tasks that send the calls, after some steps of the event loop."""
    for _ in range(steps):
        await asyncio.sleep(0)
    found = asyncio.all_tasks() - before - {*callers}
    assert found
    return found


STEPS = pytest.mark.parametrize("steps", [1, 3], ids=["before the first message", "while it is under way"])


async def test_each_call_gets_its_own_result(pool: Messages, concert: Database) -> None:
    assert await together(pool, functions.noisy, concert, *map(str, range(100))) == [*map(str, range(100))]
    assert max(pool.held) == MAX_CALLS
    assert len(pool.held) < 50


async def test_a_call_that_finds_a_free_worker_goes_at_once_alone(pool: Messages, concert: Database) -> None:
    for number in range(5):
        assert await together(pool, functions.noisy, concert, f"{number}") == [f"{number}"]
    assert pool.held == [1] * 5


async def test_what_waits_is_shared_among_the_workers(pool: Messages, concert: Database) -> None:
    await together(pool, functions.noisy, concert, *"abcdefgh")
    assert pool.held[0] == 4


async def test_calls_on_another_database_go_in_another_message(
    pool: Messages, concert: Database, build_database: Callable[[Path, str], Database], tmp_path: Path
) -> None:
    other = build_database(tmp_path / "other.sqlite", "CREATE TABLE other (id)")
    names = "SELECT count(*) FROM sqlite_master WHERE name IN ('singer', 'other')"
    databases = [concert, concert, other, concert, other, other]
    call = partial(pool.together.call, timeout_s=TIMEOUT_S)
    counting = [call(functions.whole_result, each, f"{names} -- {n}") for n, each in enumerate(databases)]
    assert [each.rows for each in await asyncio.gather(*counting)] == [[(1,)]] * 6
    paths = await asyncio.gather(*(call(functions.where, each, None) for each in databases))
    assert paths == [each.location.address for each in databases]


async def test_what_is_behind_a_slow_call_goes_in_the_next_message(pool: Messages, concert: Database) -> None:
    slow = 4 * MAX_MESSAGE_S
    assert await together(pool, functions.slept, concert, slow, *[0.0] * 7) == [slow, *[0.0] * 7]
    first, *others = pool.held
    assert first == 4
    assert sum(others) >= 7, "the three behind the slow one went once more"


async def test_what_one_call_raises_is_raised_to_it_alone(pool: Messages, concert: Database) -> None:
    found = await together(pool, functions.fail_at, concert, "a", "wrong", "b", "c")
    assert [each for each in found if isinstance(each, str)] == ["a", "b", "c"]
    assert str(found[1]) == "wrong"
    assert isinstance(found[1], LookupError)


async def test_a_call_that_kills_its_worker_costs_no_other_call(pool: Messages, concert: Database) -> None:
    found = await together(pool, functions.die_at, concert, *"abc", "die", *"defgh")
    assert isinstance(found.pop(3), DatabaseUnavailableError)
    assert found == [*"abcdefgh"]


@pytest.mark.slow
async def test_a_call_that_never_ends_costs_no_other_call(concert: Database) -> None:
    async with SqlWorkers(1, limits=Limits(timeout_s=1.0, grace_s=0.5, memory_mb=512)) as workers:
        # a worker has a minute more for its first call of a function, which it imports
        await together(workers, functions.slept, concert, *[0.0] * 4)
        await workers.call(functions.slept, concert, 0.0, timeout_s=TIMEOUT_S)
        call = partial(workers.together.call, functions.slept, concert, timeout_s=0.5)
        found = await asyncio.gather(*map(call, (0.0, 300.0, 0.01)), return_exceptions=True)
    assert isinstance(found[1], WorkerLost)
    assert found[1].status == "timeout"
    assert (found[0], found[2]) == (0.0, 0.01)


async def test_who_is_cancelled_while_waiting_is_not_executed(pool: Messages, concert: Database) -> None:
    tasks = calling(pool, concert)
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[4].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [each for each in found if isinstance(each, str)] == ["b", "c", "d", "f"]
    assert {argument for message in pool.sent for argument in message} == {*"bcdf"}


async def test_closed_workers_end_what_waits(concert: Database) -> None:
    async with SqlWorkers(1) as workers:
        call = partial(workers.together.call, functions.slept, concert, timeout_s=400.0)
        waiting = [asyncio.create_task(call(300.0)) for _ in range(3)]
        await asyncio.sleep(0.3)
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(each) for each in found] == ["the SqlWorkers were closed before the query was done"] * 3


@STEPS
async def test_who_asks_again_while_cancelled_is_answered(
    pool: Messages, concert: Database, steps: int
) -> None:
    async def stubborn(name: str) -> str:
        for _ in range(2):
            with contextlib.suppress(asyncio.CancelledError):
                return await pool.together.call(functions.noisy, concert, name, timeout_s=TIMEOUT_S)
        raise AssertionError("cancelled twice")

    before = asyncio.all_tasks()
    callers = [asyncio.create_task(stubborn(name)) for name in "abcdef"]
    for task in (*callers, *await senders(before, callers, steps)):  # as `asyncio.run` does at its end
        task.cancel()
    assert await asyncio.wait_for(asyncio.gather(*callers), 60) == [*"abcdef"]


@STEPS
async def test_a_cancelled_sender_leaves_its_calls_to_others(
    pool: Messages, concert: Database, steps: int
) -> None:
    before = asyncio.all_tasks()
    callers = calling(pool, concert)
    for sender in await senders(before, callers, steps):
        sender.cancel()
    assert await asyncio.wait_for(asyncio.gather(*callers), 60) == [*"abcdef"]


async def test_a_call_that_follows_a_result_at_once_is_sent(concert: Database) -> None:
    async with SqlWorkers(1) as workers:
        for number in range(50):
            asked = workers.together.call(functions.noisy, concert, f"{number}", timeout_s=TIMEOUT_S)
            assert await asyncio.wait_for(asked, 10) == f"{number}"
