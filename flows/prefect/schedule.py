"""The schedule of the nightly deployment: deploying it, its state, and the nightly runs that were missed."""

import asyncio
import datetime
import os
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect import Flow
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.schedules import CronSchedule
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.runtime import deployment, flow_run
from prefect.schedules import Cron
from prefect.server.schemas.schedules import SCHEDULE_TYPES
from pydantic import BaseModel, TypeAdapter, ValidationError

from flows.prefect.automations import TAG
from flows.prefect.flow_runs import SHARDS
from flows.prefect.up import POOL
from tasks.core.errors import ConfigurationError, CrosscheckError, similar_name
from tasks.results.night import Night

FLOWS = {
    "nightly": "flows/matrix/nightly.py:nightly",
    "evaluate": "flows/evaluate/deployment.py:evaluate_by_name",
    "rerun": "flows/evaluate/deployment.py:rerun_by_name",
    "shard": "flows/evaluate/shard_flow.py:answer_shard",
}
"""Deployed flows by deployment name. Only `nightly` has a schedule; evaluations with shards start `shard`."""
CODE = Path(__file__).parents[2]
"""The folder with the packages `flows` and `tasks`, from which a worker of this machine runs flows."""
MAX_MISSED = 100
"""How many missed nightly runs are listed."""
HEARTBEATS_S = 65
"""Seconds in which a worker that is online sends two heartbeats."""
MAX_REASON = 300
"""Characters of a server's reason that are shown at most."""
CORRECT_ADDRESS = "Correct PREFECT_API_URL (it usually ends in /api)."
_SCHEDULE: TypeAdapter[SCHEDULE_TYPES] = TypeAdapter(SCHEDULE_TYPES)


@dataclass(frozen=True, slots=True)
class Timetable:
    """Nightly runs of the schedule around the present one."""

    # those since the last one that ended here, without it and the present one; in UTC
    missed: tuple[datetime.datetime, ...] = ()
    expected: datetime.datetime | None = None  # the next one; None without a schedule


def name_of(scheduled: datetime.datetime) -> str:
    """Return the name of the nightly run of a scheduled time, with the second unless it is the first."""
    at = scheduled.astimezone(datetime.UTC)
    return f"{at:%Y-%m-%dT%H:%M:%SZ}" if at.second else f"{at:%Y-%m-%dT%H:%MZ}"


async def read_timetable(before: Sequence[Night], name: str) -> Timetable:
    """Return the missed nightly runs and the next one; none of either if no schedule can be read.

    Missed are those scheduled since the last one in `before` that did not run; `name` is that of the present one.
    """
    try:
        if deployment.id is None or flow_run.scheduled_start_time is None:
            return Timetable()
        async with get_client() as client:
            deployed = await client.read_deployment(deployment.id)
    except (ObjectNotFound, httpx.HTTPError):  # it was deleted meanwhile, or the server does not answer
        return Timetable()
    schedules = [schedule.schedule for schedule in deployed.schedules if schedule.active]
    start = flow_run.scheduled_start_time
    last = max((night.started for night in before if night.started <= start), default=start)
    names = {name, *(night.name for night in before)}
    moments = await dates_of(schedules, last, start, MAX_MISSED)
    missed = [moment for moment in moments if name_of(moment) not in names]
    later = await dates_of(schedules, max(start, datetime.datetime.now(datetime.UTC)), None, 1)
    return Timetable(tuple(missed), min(later, default=None))


async def dates_of(
    schedules: Iterable[BaseModel], start: datetime.datetime, end: datetime.datetime | None, most: int
) -> list[datetime.datetime]:
    """Return the times of schedules after `start` and before `end`, in UTC, at most `most` of each schedule."""
    planned = set()
    for schedule in schedules:
        timetable = _SCHEDULE.validate_python(schedule.model_dump(mode="json"))
        try:
            dates = await timetable.get_dates(n=most, start=start, end=end)  # type: ignore[arg-type]  # None is its default
        except ValueError:  # Prefect's error about a schedule that never occurs
            continue
        # Copies of the dates of Prefect's class have no time zone.
        planned |= {datetime.datetime.fromtimestamp(date.timestamp(), datetime.UTC) for date in dates}
    return sorted(date for date in planned if start < date and (end is None or date < end))


@dataclass(frozen=True)
class NightsStatus:
    """State of the nightly runs at Prefect's server."""

    deployed: bool  # whether there is a deployment
    schedule: str = ""  # as cron, with the time zone; "" for none
    expected: datetime.datetime | None = None  # when the next one starts; None if none is scheduled
    late: int = 0  # nightly runs that should have started
    running: int = 0  # nightly runs that have started and not ended
    workers: tuple[str, ...] = ()  # names of the workers that are online
    without_result: str = ""  # name of the last one, if it ended without a result; "" if it has one
    problem: str = ""  # its state, and why


async def deploy_nights(
    pool: str, schedule: str, timezone: str, parameters: Mapping[str, Any], environment: Mapping[str, str]
) -> None:
    """Deploy the nightly runs, with the flows that a user starts; a former schedule is replaced."""
    try:
        cron_schedule = CronSchedule(cron=schedule, timezone=timezone)
        if len(schedule.split()) > 5:  # a sixth field is of seconds: "0 0 3 * * *" are 60 nights in a minute
            raise ValueError(schedule)
    except ValueError:
        raise ConfigurationError(
            f'schedule: "{schedule}" is no cron expression such as "30 1 * * *" (minute, hour, day, month, '
            "weekday)."
        ) from None
    if not await dates_of([cron_schedule], datetime.datetime.now(datetime.UTC), None, 1):
        raise ConfigurationError(
            f'schedule: "{schedule}" never occurs. Correct its day and its month (minute, hour, day, month, weekday).'
        )
    async with _client(f'the work pool "{pool}"') as client:
        await _create_missing_pool(client, pool)
    cron = Cron(schedule, timezone=timezone, slug="nightly")
    await deploy(
        "nightly", pool, environment, schedules=[cron], parameters=dict(parameters), concurrency_limit=1
    )
    for name in ("evaluate", "rerun"):
        await deploy(name, pool, environment, schedules=[])


async def deploy(name: str, pool: str, environment: Mapping[str, str], **options: Any) -> None:
    """Deploy one of `FLOWS` for the workers of a pool; `options` are further ones of Prefect's."""
    async with _client(f'the deployment "{name}"'):
        flow = await Flow.afrom_source(str(CODE), entrypoint=FLOWS[name])
        variables = {"env": dict(environment)}
        deployment = await flow.ato_deployment(
            name, tags=[TAG], work_pool_name=pool, job_variables=variables, **options
        )
        await deployment.aapply()


async def deploy_shards(environment: Mapping[str, str]) -> None:
    """Deploy the flow that answers shards, which evaluations with shards start."""
    async with get_client() as client:
        await _create_missing_pool(client, POOL)
    await deploy("shard", POOL, environment)


async def require_workers(environment: Mapping[str, str]) -> None:
    """Check that a worker is online for shards, the parts of an evaluation; create their deployment if it is missing.

    In a deployed flow run, it waits for the next heartbeats: after the machine was suspended, the last ones are old,
    and the worker that runs the flow seems to be offline.
    """
    async with get_client() as client:
        try:
            deployment = await client.read_deployment_by_name(SHARDS)
        except ObjectNotFound:
            await deploy_shards(environment)
            deployment = await client.read_deployment_by_name(SHARDS)
        pool = await client.read_work_pool(deployment.work_pool_name or "")
        end = time.monotonic() + (HEARTBEATS_S if "PREFECT__FLOW_RUN_ID" in os.environ else 0)
        while True:
            workers = await client.read_workers_for_work_pool(pool.name)
            if pool.is_push_pool or any(worker.status == "ONLINE" for worker in workers):
                return
            if time.monotonic() >= end:
                break
            await asyncio.sleep(2)
    raise ConfigurationError(
        f'No worker of the pool "{pool.name}" is online. Start "crosscheck up", or on any machine that shares the '
        f'stores "prefect worker start --pool {pool.name}".'
    )


async def start_night(name: str | None) -> str:
    """Start a nightly run with what is deployed, a new one unless it is named; return the id of its flow run."""
    async with _client("a nightly run") as client:
        try:
            deployment = await client.read_deployment_by_name("nightly/nightly")
        except ObjectNotFound:
            raise ConfigurationError("No nightly run is deployed: crosscheck nights deploy") from None
        names = [_name(run) for run in await _begun(client, deployment.id)] if name else []
        if name and name not in names:  # it would be a new one, which pays for everything
            hint = (
                similar_name(name, names) or "`crosscheck nights status` names the last one without a result."
            )
            raise ConfigurationError(f'Prefect\'s server has no nightly run "{name}" to continue. {hint}')
        started = await client.create_flow_run_from_deployment(
            deployment.id, parameters={"night": name} if name else None
        )
    return str(started.id)


async def read_status(pool: str) -> NightsStatus:
    """Return the state of the nightly runs, and the workers of a work pool."""
    async with _client() as client:
        try:
            deployment = await client.read_deployment_by_name("nightly/nightly")
        except ObjectNotFound:
            return NightsStatus(deployed=False, workers=await _online_workers(client, pool))
        schedules = [schedule.schedule for schedule in deployment.schedules if schedule.active]
        crons = [schedule for schedule in schedules if isinstance(schedule, CronSchedule)]
        unended = [StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING]
        runs = await client.read_flow_runs(**_filters(deployment.id, unended))
        waiting = [run for run in runs if run.state_type == StateType.SCHEDULED]
        without_result, problem = await _without_result(client, deployment.id)
        next_dates = await dates_of(schedules, datetime.datetime.now(datetime.UTC), None, 1)
        return NightsStatus(
            deployed=True,
            schedule=", ".join(f"{cron.cron} ({cron.timezone or 'UTC'})" for cron in crons),
            expected=next_dates[0] if next_dates else None,
            late=sum(run.state_name == "Late" for run in waiting),
            running=len(runs) - len(waiting),
            workers=await _online_workers(client, pool),
            without_result=without_result,
            problem=problem,
        )


async def _without_result(client: PrefectClient, deployment_id: UUID) -> tuple[str, str]:
    """Return the name and the problem of the last nightly run, if it ended without a result."""
    runs = await _begun(client, deployment_id, limit=1)
    if not runs or (state := runs[0].state) is None or not state.is_final():
        return "", ""
    if state.is_completed() or state.name == "Red":  # a red one has failed, and has a result
        return "", ""
    return _name(runs[0]), f"{state.name}. {state.message or ''}".strip()


async def _begun(client: PrefectClient, deployment_id: UUID, limit: int | None = None) -> list[FlowRun]:
    """Return the last nightly runs that have begun, the latest first; without a limit as many as Prefect returns."""
    begun = [state for state in StateType if state not in (StateType.SCHEDULED, StateType.PENDING)]
    latest = FlowRunSort.EXPECTED_START_TIME_DESC
    return await client.read_flow_runs(**_filters(deployment_id, begun), sort=latest, limit=limit)


def _name(run: FlowRun) -> str:
    scheduled = run.expected_start_time or run.created or datetime.datetime.now(datetime.UTC)
    return run.parameters.get("night") or name_of(scheduled)


def _filters(deployment_id: UUID, states: Sequence[StateType]) -> dict[str, Any]:
    state = FlowRunFilterState(type=FlowRunFilterStateType(any_=list(states)))
    of_deployment = DeploymentFilter(id=DeploymentFilterId(any_=[deployment_id]))
    return {"deployment_filter": of_deployment, "flow_run_filter": FlowRunFilter(state=state)}


async def _create_missing_pool(client: PrefectClient, pool: str) -> None:
    try:
        await client.read_work_pool(pool)
    except ObjectNotFound:
        await client.create_work_pool(WorkPoolCreate(name=pool, type="process"))


async def _online_workers(client: PrefectClient, pool: str) -> tuple[str, ...]:
    try:
        workers = await client.read_workers_for_work_pool(pool)
    except ObjectNotFound:
        return ()
    return tuple(sorted(worker.name for worker in workers if worker.status == "ONLINE"))


@asynccontextmanager
async def _client(request: str = "to show its deployments") -> AsyncIterator[PrefectClient]:
    """Open Prefect's client; raise an error for users if the server does not answer, or refuses the named `request`."""
    try:
        async with get_client() as client:
            yield client
    except (httpx.HTTPError, RuntimeError, PrefectHTTPStatusError) as error:
        # Prefect's client wraps a refusal of a deployment into an error that repeats the whole request.
        refusal = error if isinstance(error, httpx.HTTPStatusError) else error.__cause__
        if isinstance(refusal, httpx.HTTPStatusError):
            raise CrosscheckError(_refusal(request, refusal.response)) from None
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CrosscheckError(
            f"Prefect's server does not answer ({reason}). `crosscheck up` runs one; PREFECT_API_URL names another."
        ) from None
    except (JSONDecodeError, ValidationError):  # HTML, nothing, or JSON of another service
        raise CrosscheckError(f"What answers is not the API of Prefect's server. {CORRECT_ADDRESS}") from None


def _refusal(request: str, response: httpx.Response) -> str:
    try:
        body = response.json()
    except ValueError:
        body = {}
    detail = (body.get("exception_detail") or body.get("detail")) if isinstance(body, dict) else None
    items = detail if isinstance(detail, list) else [detail]
    reasons = [str(item.get("msg") if isinstance(item, dict) else item) for item in items if item]
    joined = "; ".join(reason.removeprefix("Value error, ").rstrip(".") for reason in reasons)
    message = " ".join((joined or response.reason_phrase).split())
    message = message if len(message) <= MAX_REASON else f"{message[:MAX_REASON]} ..."
    server = f"{response.url.scheme}://{response.url.netloc.decode()}"
    credentials = " Set PREFECT_API_AUTH_STRING (user:password) or PREFECT_API_KEY to what it accepts."
    remedies = {401: credentials, 403: credentials, 404: f" {CORRECT_ADDRESS}"}
    remedy = remedies.get(response.status_code, "")
    return f"Prefect's server at {server} refused {request} (HTTP {response.status_code}): {message}.{remedy}"
