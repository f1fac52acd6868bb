"""When the schedule of the nightly deployment has nightly runs: those that were missed, and the next one."""

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.runtime import deployment, flow_run
from prefect.server.schemas.schedules import SCHEDULE_TYPES
from pydantic import BaseModel, TypeAdapter

from tasks.tracking.night.night import Night

MOST = 100
"""How many missed nightly runs are listed."""
_SCHEDULE: TypeAdapter[SCHEDULE_TYPES] = TypeAdapter(SCHEDULE_TYPES)


@dataclass(frozen=True, slots=True)
class Timetable:
    """Nightly runs of the schedule around the present one."""

    # those since the last one that ended here, without it and the present one; in UTC
    missed: tuple[datetime.datetime, ...] = ()
    expected: datetime.datetime | None = None  # the next one; None without a schedule


def name_of(scheduled: datetime.datetime) -> str:
    """Return the name of the nightly run of a scheduled time."""
    return f"{scheduled.astimezone(datetime.UTC):%Y-%m-%dT%H:%MZ}"


async def read_timetable(before: Sequence[Night], name: str) -> Timetable:
    """Return the timetable around the present flow run; an empty one if it is not of a deployment with a schedule."""
    if deployment.id is None or flow_run.scheduled_start_time is None:
        return Timetable()
    async with get_client() as client:
        try:
            found = await client.read_deployment(deployment.id)
        except ObjectNotFound:  # it was deleted while the run waited
            return Timetable()
    schedules = [each.schedule for each in found.schedules if each.active]
    now = flow_run.scheduled_start_time
    last = max((night.started for night in before if night.started <= now), default=now)
    known = {name, *(night.name for night in before)}
    missed = [moment for moment in await _dates(schedules, last, now, MOST) if name_of(moment) not in known]
    later = await _dates(schedules, max(now, datetime.datetime.now(datetime.UTC)), None, 1)
    return Timetable(tuple(missed), min(later, default=None))


async def _dates(
    schedules: Iterable[BaseModel], start: datetime.datetime, end: datetime.datetime | None, most: int
) -> list[datetime.datetime]:
    """Return the times of schedules after one moment and before another, in UTC."""
    found = set()
    for schedule in schedules:
        made = _SCHEDULE.validate_python(schedule.model_dump(mode="json"))
        dates = await made.get_dates(n=most, start=start, end=end)  # type: ignore[arg-type]  # None is its default
        found |= {date.astimezone(datetime.UTC) for date in dates}
    return sorted(date for date in found if start < date and (end is None or date < end))
