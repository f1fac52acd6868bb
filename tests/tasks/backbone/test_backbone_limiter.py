"""The number of requests in flight follows the endpoint."""

import asyncio
import time
from contextlib import suppress

import pytest

from tasks.backbone.endpoint.limiter import AdaptiveLimit, Queue
from tasks.core.deadline import HELD_UP_S


async def hold(limit: AdaptiveLimit, order: list[str], name: str, *, ahead: bool = False) -> None:
    async with limit.slot(ahead=ahead):
        order.append(name)
        await asyncio.sleep(0)


async def test_one_burst_of_refusals_halves_once_and_the_next_one_again() -> None:
    limit = AdaptiveLimit(16)
    async with limit.slot() as first, limit.slot() as second:
        limit.rate_limited(first)
        limit.rate_limited(second)
        assert limit.size == 8
    await asyncio.sleep(0.002)
    async with limit.slot() as later:
        limit.rate_limited(later)
    assert limit.size == 4


async def test_it_never_falls_below_one() -> None:
    limit = AdaptiveLimit(2)
    for _ in range(5):
        await asyncio.sleep(0.002)
        async with limit.slot() as granted_at:
            limit.rate_limited(granted_at)
    assert limit.size == 1


async def test_it_grows_by_about_one_per_round_and_not_beyond_its_start() -> None:
    limit = AdaptiveLimit(8)
    async with limit.slot() as granted_at:
        limit.rate_limited(granted_at)
    assert limit.size == 4
    for _ in range(5):
        limit.succeeded()
    assert limit.size == 5
    for _ in range(100):
        limit.succeeded()
    assert limit.size == 8


@pytest.mark.parametrize("granted", [False, True])
async def test_a_cancelled_wait_takes_no_place(granted: bool) -> None:
    limit, order = AdaptiveLimit(1), []
    async with limit.slot():
        waiting = asyncio.create_task(hold(limit, order, "a"))
        await asyncio.sleep(0)
        if not granted:
            waiting.cancel()
    waiting.cancel()  # has its place by now, but has not run since
    await asyncio.gather(waiting, return_exceptions=True)
    assert (order, limit._in_flight) == ([], 0)
    await asyncio.wait_for(hold(limit, order, "b"), 30)
    assert order == ["b"]


async def test_the_time_of_a_request_counts_from_the_last_answer_to_one_that_was_sent_before() -> None:
    queue, ended = Queue(1.0), []

    async def request(name: str, seconds: float) -> None:
        with suppress(TimeoutError):
            async with queue.turn():
                await asyncio.sleep(seconds)
                ended.append(name)

    await asyncio.gather(request("first", 0.7), request("second", 1.4), request("silent", 60.0))
    assert ended == ["first", "second"]


async def test_after_the_process_stood_still_the_time_counts_from_the_answer_that_had_come_meanwhile() -> (
    None
):
    queue, ended, answered = Queue(1.0), [], asyncio.Event()

    async def first() -> None:
        async with queue.turn():
            await asyncio.sleep(0.9)
        answered.set()

    async def second() -> None:
        async with queue.turn():
            await answered.wait()
            await asyncio.sleep(2.5 * HELD_UP_S)
            ended.append("second")

    asyncio.get_running_loop().call_later(0.1, time.sleep, 1.0 + 3 * HELD_UP_S)
    await asyncio.gather(first(), second())
    assert ended == ["second"]


async def test_an_answer_sets_no_timer_for_the_requests_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, timers = asyncio.get_running_loop(), []
    monkeypatch.setattr(
        loop, "call_at", lambda *timer: timers.append(timer) or type(loop).call_at(loop, *timer)
    )
    queue, answers = Queue(60.0), [asyncio.Event() for _ in range(100)]

    async def request(answer: asyncio.Event) -> None:
        async with queue.turn():
            await answer.wait()

    requests = [asyncio.create_task(request(answer)) for answer in answers]
    await asyncio.sleep(0)
    for answer in answers:
        answer.set()
    await asyncio.gather(*requests)
    assert len(timers) <= 2 * len(requests)
