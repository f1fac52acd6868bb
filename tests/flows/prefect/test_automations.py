"""Dates of schedules, events that wait for one from before the server started, and the webhook."""

import datetime
import json
from uuid import UUID

import pytest
from prefect._internal.uuid7 import uuid7
from prefect.client.schemas.schedules import CronSchedule
from prefect.server.events.ordering import EventArrivedEarly, get_triggers_causal_ordering
from prefect.server.events.schemas.events import ReceivedEvent
from prefect.settings import PREFECT_SERVER_EVENTS_CAUSAL_ORDERING, temporary_settings
from prefect.types._datetime import now

from flows.prefect import automations
from flows.prefect.schedule import dates_of
from tests.support.http_server import Handler, send, serving


async def test_a_schedule_that_never_occurs_has_no_dates() -> None:
    now = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
    never, daily = CronSchedule(cron="0 0 30 2 *"), CronSchedule(cron="0 1 * * *")
    assert await dates_of([never, daily], now, None, 1) == [now.replace(hour=1)]


async def test_an_event_that_follows_one_from_before_the_start_of_the_server_does_not_wait() -> None:
    def event(follows: UUID) -> ReceivedEvent:
        return ReceivedEvent(
            occurred=now("UTC"), event="prefect.flow-run.Crashed", id=uuid7(), follows=follows,
            resource={"prefect.resource.id": "prefect.flow-run.x"},
        )  # fmt: skip

    with temporary_settings({PREFECT_SERVER_EVENTS_CAUSAL_ORDERING: "flows.prefect.event_ordering"}):
        ordering = get_triggers_causal_ordering()
    minute_ago = UUID(int=(uuid7().int - (60_000 << 80)))
    await ordering.wait_for_leader(event(minute_ago))
    with pytest.raises(EventArrivedEarly):
        await ordering.wait_for_leader(event(uuid7()))


async def test_a_webhook_that_does_not_take_the_message_at_first_gets_it_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(automations, "PAUSE_S", 0.001)
    states: list[str] = []

    def answer(request: Handler, body: bytes) -> None:
        states.append(json.loads(body)["state"])
        send(
            request, status={"Red": [429, 503, 200], "Amber": [500]}[states[-1]][states.count(states[-1]) - 1]
        )

    with serving(answer) as url:
        monkeypatch.setenv(automations.WEBHOOK, url)
        assert await automations.notify("Red", "text", "page") == ""
        assert states == ["Red"] * 3
        assert "answered 500" in await automations.notify("Amber", "text", "page")
        assert states == ["Red"] * 3 + ["Amber"], "it may have been taken"
    monkeypatch.setattr(automations, "PATIENCE_S", 0.05)
    assert "it cannot be reached" in await automations.notify("Red", "text", "page")
