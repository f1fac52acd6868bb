"""Flow runs and task runs of Prefect: launched, cancelled, looked up and counted."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

from flows.prefect.settings import WITH_SERVER, WITHOUT_SERVER, apply
from flows.runtime.control import Control
from tasks.core.errors import ConfigurationError, CrosscheckError
from tasks.core.wording import counted
from tasks.results.run_record import RunRecord
from tasks.settings.evaluation import EvaluationSettings

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from tenacity import AsyncRetrying, Retrying


log = logging.getLogger(__name__)
T = TypeVar("T")

SHARDS = "answer-shard/shard"
"""The deployment that answers shards."""
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
"""Types of the states of flow runs and task runs that have ended."""

UNANSWERED = "Unanswered"
"""Name of the state of a flow run with unanswered questions."""
RECORDING_S = 60.0
"""Seconds without a new recorded task run after which the missing ones count as dropped."""
MAX_UNRECORDED = 2_000
MAX_BEGINNINGS = 5
"""How often a flow run is begun at most while Prefect's server dies."""
HEALTH_PAUSES_S = (0, 1, 2)
"""Seconds to wait before each look whether the server answers."""
HEALTH_S = 10.0
"""Time limit of each look, in seconds."""
_replaced: dict[str, str] = {}
"""Values of the variables that `give_up_server` has set."""


@dataclass(frozen=True, slots=True)
class FlowRunState:
    """Last known state of a flow run."""

    # type of its state: SCHEDULED, PENDING, RUNNING, COMPLETED, FAILED, CRASHED, CANCELLED, CANCELLING
    state: str
    message: str = ""  # of the state
    percent: float = 0.0  # progress, from its progress artifact; 0 if it has none

    @property
    def ended(self) -> bool:
        """Whether the flow run has ended."""
        return self.state in ENDED


def open_client() -> "PrefectClient":
    """Return a client of Prefect's server, to be entered."""
    from prefect.client.orchestration import get_client

    return get_client()


@contextmanager
def optional(consequence: str) -> Iterator[None]:
    """Log an error of a request to Prefect's server with its consequence, and no more: it must not lose a result."""
    try:
        yield
    except CrosscheckError:
        raise
    except Exception as error:
        log.warning("%s: %s", consequence, error)


def flow_run_id() -> str:
    """Return the id of the running flow run."""
    from prefect.runtime import flow_run

    return str(flow_run.id)


def final_state(result: RunRecord, message: str = "") -> Any:
    """Return the final state of the flow run of an evaluation or a re-run; its name says if answers are missing.

    A re-run of which every question failed again has failed. The state holds the result in a `quote`, so that Prefect
    does not search it for futures, which takes 0.5 s for a thousand questions. Without a message it says the result in
    words.
    """
    from prefect.states import Completed, Failed
    from prefect.utilities.annotations import quote

    failed, selected = result.still_failed
    has_unanswered = bool(failed or result.unanswered)
    name = UNANSWERED if has_unanswered else "Completed"
    create_state = Failed if failed and failed == selected else Completed
    return create_state(name=name, message=message or result.in_words, data=quote(result))


async def result_of(state: Any) -> RunRecord:
    """Return the result that a `final_state` holds, also of a failed flow run; raise what ended one without."""
    from prefect.utilities.annotations import quote

    result = await state.aresult(raise_on_failure=False)
    if isinstance(result, quote):
        record: RunRecord = result.unquote()
        return record
    raise result


def beginnings(control: Control, connect: Callable[[], None]) -> "Retrying":
    """Yield attempts at a flow: a further one if Prefect's server dies before the flow run begins.

    `connect` waits until the server answers again.
    """
    from tenacity import Retrying

    return Retrying(**_retry_options(control), before_sleep=lambda _: connect())


def async_beginnings(control: Control, connect: Callable[[], None]) -> "AsyncRetrying":
    """Yield attempts as `beginnings` does; the event loop goes on while `connect` waits."""
    from tenacity import AsyncRetrying

    async def wait(_: object) -> None:
        await asyncio.to_thread(connect)

    return AsyncRetrying(**_retry_options(control), before_sleep=wait)


def _retry_options(control: Control) -> dict[str, Any]:
    """Return tenacity's options for beginning a flow again while the server is unreachable, until its run has an id."""
    from tenacity import retry_if_exception, stop_after_attempt

    def give_up(_: object) -> None:
        raise CrosscheckError(
            "Prefect's server stops answering whenever a flow run begins. Every reply that came is kept: run the same "
            "command again to continue."
        )

    return {
        "retry": retry_if_exception(lambda error: not control.flow_run and _is_unreachable(error)),
        "stop": stop_after_attempt(MAX_BEGINNINGS),
        "retry_error_callback": give_up,
    }


def reason_in(error: BaseException) -> CrosscheckError | None:
    """Return why a flow ended, if `error` is that of a request to a server that does not answer; else None.

    It is our own error that was being handled when the request failed, else an error that says that the server is gone.
    """
    if not _is_unreachable(error):
        return None
    reason: BaseException | None = error
    while reason is not None and not isinstance(reason, CrosscheckError):
        reason = reason.__context__
    if reason or isinstance(error.__cause__ or error, AssertionError):
        return reason  # None: a failed assertion alone does not prove that the server is gone
    return CrosscheckError(
        f"Prefect's server does not answer any more ({str(error) or type(error).__name__}). Every reply that came is "
        "kept: run the same command again to continue."
    )


def _is_unreachable(error: BaseException) -> bool:
    import httpx

    # An assertion of Prefect's client fails if the server is given up between two of its attempts.
    kinds = (httpx.TransportError, AssertionError)
    return isinstance(error, kinds) or isinstance(error.__cause__, kinds)


def import_engines() -> None:
    """Import what Prefect needs to run a flow; it takes seconds, in which a server can start."""
    import prefect.flow_engine
    import prefect.task_engine  # noqa: F401


def check_shards(settings: EvaluationSettings) -> None:
    """Check, before a server starts, that the settings allow shards."""
    if settings.shards == 1:
        return
    if settings.record:
        raise ConfigurationError(
            "--record writes the replies that one process got, and --shards asks in several. Evaluate with --shards "
            "first; the same command with --record and without --shards then writes the recording from kept replies."
        )
    if not os.environ.get("PREFECT_API_URL"):
        raise ConfigurationError(
            "--shards gives the questions to the workers of a Prefect server, and PREFECT_API_URL names none. Start "
            '"crosscheck up" in another shell, do what it prints, and set PREFECT_API_URL.'
        )


async def launch(deployment: str, parameters: Mapping[str, Any], name: str) -> UUID:
    """Start a deployment as a child of the running flow; return the id of its flow run."""
    from prefect.deployments import arun_deployment

    run = await arun_deployment(
        deployment,
        parameters=dict(parameters),
        flow_run_name=name,
        timeout=0,
        idempotency_key=str(uuid4()),  # Prefect's client repeats a request whose response is lost
    )
    return run.id


async def states_of(flow_runs: Sequence[UUID]) -> dict[UUID, FlowRunState]:
    """Return states of flow runs, by id; a deleted one counts as crashed. Empty if Prefect cannot be reached."""
    import httpx
    from prefect.client.schemas.filters import (
        ArtifactFilter,
        ArtifactFilterType,
        FlowRunFilter,
        FlowRunFilterId,
    )
    from prefect.client.schemas.sorting import ArtifactSort, FlowRunSort

    if not flow_runs:
        return {}
    chosen = FlowRunFilter(id=FlowRunFilterId(any_=list(flow_runs)))
    kind = ArtifactFilter(type=ArtifactFilterType(any_=["progress"]))
    try:
        async with open_client() as client:
            runs = await _read_all(client.read_flow_runs, flow_run_filter=chosen, sort=FlowRunSort.ID_DESC)
            artifacts = await _read_all(
                client.read_artifacts, artifact_filter=kind, flow_run_filter=chosen, sort=ArtifactSort.ID_DESC
            )
    except httpx.HTTPError as error:
        log.warning("The states of %d flow runs cannot be read from Prefect: %s", len(flow_runs), error)
        return {}
    percents = {artifact.flow_run_id: float(str(artifact.data or 0)) for artifact in artifacts}
    result = dict.fromkeys(flow_runs, FlowRunState("CRASHED", "It was deleted."))
    for run in runs:
        if state := run.state:
            result[run.id] = FlowRunState(state.type.value, state.message or "", percents.get(run.id, 0.0))
    return result


async def cancel(flow_runs: Sequence[UUID]) -> None:
    """Cancel flow runs; workers end the processes of running ones."""
    from prefect.states import Cancelled, Cancelling

    states = await states_of(flow_runs)
    async with open_client() as client:
        for id_, state in states.items():
            if state.ended:
                continue
            may_have_process = state.state in ("RUNNING", "PENDING", "CANCELLING")
            await client.set_flow_run_state(id_, Cancelling() if may_have_process else Cancelled())


async def abandon(flow_runs: Sequence[UUID], message: str) -> None:
    """Set flow runs to cancelled at once, so that none of them starts."""
    from prefect.states import Cancelled

    async with open_client() as client:
        for id_ in flow_runs:
            await client.set_flow_run_state(id_, Cancelled(message=message), force=True)


async def cancel_launched_by(flow_run: UUID) -> None:
    """Cancel the deployed child runs of a flow run whose process has ended."""
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
    from prefect.client.schemas.sorting import FlowRunSort

    children = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run]))
    async with open_client() as client:
        runs = await _read_all(client.read_flow_runs, flow_run_filter=children, sort=FlowRunSort.ID_DESC)
    await cancel([run.id for run in runs if run.deployment_id])


async def has_crashed(flow_run_id: UUID) -> bool:
    """Return whether Prefect has marked a flow run as crashed."""
    from prefect.exceptions import ObjectNotFound

    async with open_client() as client:
        with suppress(ObjectNotFound):
            state = (await client.read_flow_run(flow_run_id)).state
            return state is not None and state.is_crashed()
    return False


async def crash_flow_run(flow_run_id: UUID, message: str) -> None:
    """Mark a flow run as crashed, unless it has ended."""
    from prefect.exceptions import ObjectNotFound
    from prefect.states import Crashed

    async with open_client() as client:
        with suppress(ObjectNotFound):
            state = (await client.read_flow_run(flow_run_id)).state
            if state is not None and not state.is_final():
                await client.set_flow_run_state(flow_run_id, Crashed(message=message), force=True)


async def _read_all(read: Callable[..., Awaitable[Sequence[T]]], **filters: Any) -> list[T]:
    """Return all that a sorted query of Prefect's client finds; the server gives 200 at a time unless set otherwise."""
    items: list[T] = []
    while page := await read(**filters, offset=len(items)):
        items += page
    return items


def as_flow(body: Callable[..., Awaitable[Any]], name: str, run_name: str) -> Any:
    """Return a flow whose parameters are its settings, as they are, and whose result stays in memory."""
    from prefect import flow

    return flow(name=name, flow_run_name=run_name, validate_parameters=False, persist_result=False)(body)


async def in_task_run(name: str, label: str, work: Callable[[], Awaitable[None]]) -> None:
    """Do work of the running flow in a task run of a task; its result is not persisted.

    `work` hides its objects in a function, because Prefect inspects every object that a task gets as an argument.
    """
    from prefect import task
    from prefect.cache_policies import NO_CACHE

    async def run(work: Callable[[], Awaitable[None]]) -> None:
        await work()

    run.__name__ = run.__qualname__ = name  # Prefect derives the task's key from it
    await task(name=name, task_run_name=label, cache_policy=NO_CACHE, persist_result=False)(run)(work)


async def server_answers(control: Control) -> bool:
    """Return whether Prefect's server answers; if not, call `give_up_server`.

    A server that this command has started is not checked: `LocalServer` starts it again if it has died.
    """
    if control.own_server:
        return True
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        for pause_s in HEALTH_PAUSES_S:
            await asyncio.sleep(pause_s)
            # A client of its own: that of the flow run waits a minute for each request.
            async with get_client(httpx_settings={"timeout": HEALTH_S}) as client:
                if await client.api_healthcheck() is None:
                    return True
    async with open_client() as client:  # the flow run's, whose remaining requests are not to take minutes
        client._client.timeout = HEALTH_S
    give_up_server()
    return False


def give_up_server() -> None:
    """Set Prefect's client to repeat no further request, and to send every event once.

    Otherwise the process would wait ten seconds at its end for each event that no server takes.
    """
    from prefect.events.worker import EventsWorker

    for name in WITHOUT_SERVER.keys() - _replaced.keys():
        _replaced[name] = os.environ.get(name, WITH_SERVER[name])
    os.environ.update(WITHOUT_SERVER)
    apply({})
    workers: Any = EventsWorker  # Prefect has no public setting for this
    for worker in tuple(workers._instances.values()):
        worker._client._reconnection_attempts = 0


def use_server_again() -> None:
    """Undo `give_up_server` for the next evaluation of this process, for which a server answers.

    Variables get their former values but are not removed: a thread that reads the environment meanwhile would fail.
    """
    if _replaced:
        os.environ.update(_replaced)
        _replaced.clear()
        apply({})


async def wait_until_recorded(executed: int, control: Control) -> int:
    """Wait until Prefect has recorded as many ended task runs of the flow run as were executed; return how many it has.

    Waiting ends early, with a lower count, if the server does not answer, or if the user asks to stop.
    """
    if not executed or not await server_answers(control):
        return 0
    return await RecorderBackpressure(control).wait(executed, ending=True)


class RecorderBackpressure:
    """Backpressure from Prefect's recorder of task runs.

    The server drops events once 10,000 of them are queued (a task run is three). Dropped ones never arrive, and are
    waited for once.
    """

    def __init__(self, control: Control) -> None:
        self._control = control
        self._recorded = 0
        self._dropped = 0
        self._counting = asyncio.Lock()

    async def wait(self, executed: int, *, ending: bool = False) -> int:
        """Wait while Prefect has yet to record more than MAX_UNRECORDED executed task runs; return how many it has.

        At the end of a flow run (`ending`), wait for all. If no further one is recorded for RECORDING_S seconds, or the
        number cannot be read, those that are missing count as dropped. Waiting ends early if the user asks to stop.
        """
        control = self._control
        max_missing, pause_s = (0, 0.2) if ending else (MAX_UNRECORDED, 0.5)

        def too_many() -> bool:
            return executed - self._recorded - self._dropped > max_missing and not control.stop.is_set()

        if not too_many():
            return self._recorded
        async with self._counting, open_client() as client:
            last_recorded_at = time.monotonic()
            while too_many():
                recorded = await _count(client, UUID(control.flow_run))
                if recorded is None:
                    self._dropped = executed - self._recorded
                elif recorded > self._recorded:
                    self._recorded = recorded
                    last_recorded_at = time.monotonic()
                    self._dropped = min(self._dropped, max(0, executed - recorded))
                elif time.monotonic() - last_recorded_at >= RECORDING_S:
                    self._dropped = executed - self._recorded
                if ending:
                    count = f"{self._recorded:,} of {counted(executed, 'task run')}"
                    control.progress.step(f"Prefect has recorded {count}")
                if too_many():
                    await asyncio.sleep(pause_s)
        return self._recorded


async def _count(client: "PrefectClient", flow_run_id: UUID) -> int | None:
    """Return how many ended task runs of a flow run Prefect has recorded; None if this cannot be read."""
    query = {
        "flow_runs": {"id": {"any_": [str(flow_run_id)]}},
        "task_runs": {"state": {"type": {"any_": list(ENDED)}}},
    }
    try:
        response = await client.request("POST", "/task_runs/count", json=query)
        response.raise_for_status()
        return int(response.json())
    except Exception as error:  # a count that cannot be read must not lose a result
        log.warning("The number of recorded task runs cannot be read from Prefect: %s", error)
        return None
