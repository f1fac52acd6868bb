"""Task runs: work of a flow in one, and those that Prefect has recorded."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from flows.prefect.flow_runs import ENDED
from flows.prefect.settings import WITHOUT_SERVER, apply
from flows.runtime.control import Control

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

log = logging.getLogger(__name__)

RECORDING_S = 60.0
"""Seconds without a new recorded task run after which the missing ones count as dropped."""
MAX_UNRECORDED = 2_000
HEALTH_PAUSES_S = (0, 1, 2)
"""Seconds to wait before each look whether the server answers."""


async def in_task_run(name: str, label: str, work: Callable[[], Awaitable[None]]) -> None:
    """Do work of the running flow in a task run of a task; its result is not persisted.

    A function hides what it works on: Prefect inspects every object that it is given as an argument.
    """
    from prefect import task
    from prefect.cache_policies import NO_CACHE

    async def run(work: Callable[[], Awaitable[None]]) -> None:
        await work()

    run.__name__ = run.__qualname__ = name  # Prefect derives the task's key from it
    await task(name=name, task_run_name=label, cache_policy=NO_CACHE, persist_result=False)(run)(work)


async def server_answers(control: Control) -> bool:
    """Return whether Prefect's server answers; where it does not, no further call to it is repeated.

    A server that this command has started is not asked: it is started again where it has died.
    """
    if control.own_server:
        return True
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        for pause_s in HEALTH_PAUSES_S:
            await asyncio.sleep(pause_s)
            async with get_client() as client:
                if await client.api_healthcheck() is None:
                    return True
    os.environ.update(WITHOUT_SERVER)
    apply({})
    _try_events_once()
    return False


def _try_events_once() -> None:
    """Have every event tried once: the process would end only after ten seconds for each that no server takes."""
    from prefect.events.worker import EventsWorker

    workers: Any = EventsWorker  # Prefect has no public setting for this
    for worker in tuple(workers._instances.values()):
        worker._client._reconnection_attempts = 0


async def wait_until_recorded(flow_run_id: UUID, executed: int, control: Control) -> int:
    """Wait until Prefect has recorded the end of as many task runs as were executed; return how many it has.

    The server records events in batches, with a delay. Waiting ends early, with a lower count, if the count has not
    grown for RECORDING_S seconds (the server has dropped events), if the server does not answer, or if the user asks
    to stop.
    """
    from prefect.client.orchestration import get_client

    if not await server_answers(control):
        return 0
    recorded, since = 0, time.monotonic()
    async with get_client() as client:
        while recorded < executed and time.monotonic() - since < RECORDING_S and not control.stop.is_set():
            now = await _count(client, flow_run_id)
            if now is None:
                break
            if now > recorded:
                recorded, since = now, time.monotonic()
            control.progress.step(f"Prefect has recorded {recorded:,} of {executed:,} task runs")
            if recorded < executed:
                await asyncio.sleep(0.2)
    return recorded


class RecorderBackpressure:
    """Backpressure from Prefect's recorder of task runs.

    The server drops events once 10,000 of them are queued (a task run is three), which happens with a fast backbone on
    a busy machine. Dropped ones never arrive, and are waited for once. With a slow model this never waits.
    """

    def __init__(self, flow_run_id: UUID) -> None:
        self._flow_run_id = flow_run_id
        self._recorded = 0
        self._dropped = 0
        self._counting = asyncio.Lock()

    async def wait(self, executed: int) -> None:
        """Wait while more than MAX_UNRECORDED of the executed task runs may still be recorded.

        If none is for RECORDING_S seconds, those that are missing count as dropped.
        """
        if not self._too_many(executed):
            return
        async with self._counting:
            since = time.monotonic()
            while self._too_many(executed):
                recorded = await count_finished_task_runs(self._flow_run_id)
                if recorded is None:
                    self._dropped = executed - self._recorded
                elif recorded > self._recorded:
                    self._recorded, since = recorded, time.monotonic()
                    self._dropped = min(self._dropped, max(0, executed - recorded))
                elif time.monotonic() - since >= RECORDING_S:
                    self._dropped = executed - self._recorded
                if self._too_many(executed):
                    await asyncio.sleep(0.5)

    def _too_many(self, executed: int) -> bool:
        return executed - self._recorded - self._dropped > MAX_UNRECORDED


async def count_finished_task_runs(flow_run_id: UUID) -> int | None:
    """Return the number of a flow run's task runs that have ended; None if Prefect cannot be reached."""
    from prefect.client.orchestration import get_client

    async with get_client() as client:
        return await _count(client, flow_run_id)


async def _count(client: "PrefectClient", flow_run_id: UUID) -> int | None:
    import httpx

    query = {
        "flow_runs": {"id": {"any_": [str(flow_run_id)]}},
        "task_runs": {"state": {"type": {"any_": list(ENDED)}}},
    }
    try:
        response = await client.request("POST", "/task_runs/count", json=query)
        response.raise_for_status()
        return int(response.json())
    except httpx.HTTPError as error:
        log.warning("The number of recorded task runs cannot be read from Prefect: %s", error)
        return None
