"""Flow runs that workers run: launch them, read their states, cancel them."""

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID, uuid4

from tasks.core.errors import ConfigurationError
from tasks.results.run_record import RunRecord
from tasks.settings.evaluation import EvaluationSettings

log = logging.getLogger(__name__)
T = TypeVar("T")

SHARDS = "answer-shard/shard"
"""The deployment that answers shards."""
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
"""Types of the states of flow runs and task runs that have ended."""


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


def flow_run_id() -> UUID:
    """Return the id of the running flow run."""
    from prefect.runtime import flow_run

    return UUID(str(flow_run.id))


UNANSWERED = "Unanswered"
"""Name of the state of a flow run with unanswered questions."""


def final_state(result: RunRecord, message: str = "") -> Any:
    """Return the final state of the flow run of an evaluation or a re-run; it says what is left.

    A re-run of which every question failed again has failed. The state holds the result in quotes: Prefect does not
    search it for futures, 0.5 s for a thousand questions.

    Args:
        result: what the flow has found.
        message: what the state says; "": the result in words.
    """
    from prefect.states import Completed, Failed
    from prefect.utilities.annotations import quote

    failed, selected = result.still_failed
    left = failed or result.unanswered
    name = UNANSWERED if left else "Completed"
    make = Failed if failed and failed == selected else Completed
    return make(name=name, message=message or result.in_words, data=quote(result))


async def result_of(state: Any) -> RunRecord:
    """Return the result that a `final_state` holds, also of a failed flow run.

    Raises:
        BaseException: what ended the flow without a result.
    """
    from prefect.utilities.annotations import quote

    result = await state.aresult(raise_on_failure=False)
    if isinstance(result, quote):
        evaluated: RunRecord = result.unquote()
        return evaluated
    raise result


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
    from prefect.client.orchestration import get_client
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
        async with get_client() as client:
            runs = await _read_all(client.read_flow_runs, flow_run_filter=chosen, sort=FlowRunSort.ID_DESC)
            artifacts = await _read_all(
                client.read_artifacts, artifact_filter=kind, flow_run_filter=chosen, sort=ArtifactSort.ID_DESC
            )
    except httpx.HTTPError as error:
        log.warning("The states of %d flow runs cannot be read from Prefect: %s", len(flow_runs), error)
        return {}
    states = {run.id: run.state for run in runs}
    percents = {each.flow_run_id: float(str(each.data or 0)) for each in artifacts}
    gone = FlowRunState("CRASHED", "It was deleted.")
    return {
        id_: FlowRunState(state.type.value, state.message or "", percents.get(id_, 0.0)) if state else gone
        for id_, state in ((each, states.get(each)) for each in flow_runs)
    }


async def cancel(flow_runs: Sequence[UUID]) -> None:
    """Cancel flow runs; workers end the processes of running ones."""
    from prefect.client.orchestration import get_client
    from prefect.states import Cancelled, Cancelling

    states = await states_of(flow_runs)
    async with get_client() as client:
        for id_, state in states.items():
            if state.ended:
                continue
            begun = state.state in ("RUNNING", "PENDING", "CANCELLING")
            await client.set_flow_run_state(id_, Cancelling() if begun else Cancelled())


async def abandon(flow_runs: Sequence[UUID], message: str) -> None:
    """Set flow runs to cancelled at once, so that none of them starts."""
    from prefect.client.orchestration import get_client
    from prefect.states import Cancelled

    async with get_client() as client:
        for id_ in flow_runs:
            await client.set_flow_run_state(id_, Cancelled(message=message), force=True)


async def cancel_launched_by(flow_run: UUID) -> None:
    """Cancel the deployed child runs of a flow run whose process has ended."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
    from prefect.client.schemas.sorting import FlowRunSort

    launched = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run]))
    async with get_client() as client:
        runs = await _read_all(client.read_flow_runs, flow_run_filter=launched, sort=FlowRunSort.ID_DESC)
    await cancel([run.id for run in runs if run.deployment_id])


async def has_crashed(flow_run_id: UUID) -> bool:
    """Return whether Prefect has marked a flow run as crashed."""
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    async with get_client() as client:
        try:
            run = await client.read_flow_run(flow_run_id)
        except ObjectNotFound:
            return False
        return run.state is not None and run.state.is_crashed()


async def crash_flow_run(flow_run_id: UUID, message: str) -> bool:
    """Mark a flow run as crashed; return whether it still had the state of a running one."""
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound
    from prefect.states import Crashed

    async with get_client() as client:
        try:
            run = await client.read_flow_run(flow_run_id)
        except ObjectNotFound:
            return False
        if run.state is None or run.state.is_final():
            return False
        await client.set_flow_run_state(flow_run_id, Crashed(message=message), force=True)
        return True


async def _read_all(read: Callable[..., Awaitable[Sequence[T]]], **filters: Any) -> list[T]:
    """Return all that a sorted query of Prefect's client finds; the server gives 200 at a time unless set otherwise."""
    items: list[T] = []
    while page := await read(**filters, offset=len(items)):
        items += page
    return items
