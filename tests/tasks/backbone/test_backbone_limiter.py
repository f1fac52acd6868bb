"""The number of requests in flight follows the endpoint."""

import asyncio

import pytest

from tasks.backbone.endpoint.limiter import AdaptiveLimit


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
