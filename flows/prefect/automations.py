"""Prefect's automations for deployed flow runs, and the notifications of nightly runs.

Two automations mark a flow run as crashed: one whose process is gone, and one whose process never started. A webhook is
called once for each nightly run that is red or amber, or fails: the nightly run calls it itself, with its verdict. If
it cannot (its process was killed, it ended with an error, or it never started), a third automation calls the same
webhook.

`python -m flows.prefect.automations [COMMAND ...]` creates the automations and then executes COMMAND. If a nightly run
created them, that would be too late for a first run that is late, or whose process ends at its start.
"""

import asyncio
import os
import sys
from contextlib import suppress
from datetime import timedelta
from typing import Any

from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_delay,
    wait_exponential,
)

from flows.prefect.flow_runs import ENDED, open_client
from tasks.core.errors import ConfigurationError, CrosscheckError

TAG = "crosscheck"
"""Tag of every deployed flow run: the automations ignore flow runs of other projects."""
GONE_NAME = "crosscheck: mark flow runs whose process is gone as crashed"
UNSTARTED_NAME = "crosscheck: mark flow runs whose process never started as crashed"
SILENT_S = 90
"""Seconds without a heartbeat: three are missed (`flows.prefect.settings.DEPLOYED`)."""
START_S = 600
"""Seconds in which the process of a flow run starts that a worker has taken, on a busy machine too."""
WEBHOOK = "CROSSCHECK_NOTIFY"
"""Environment variable with the address to call; it may hold a secret, so it is no parameter of a flow."""
NAME = "crosscheck: notify about failed, crashed and late nightly runs"
BLOCK = "crosscheck-notify"
STATES = ("Failed", "Crashed", "TimedOut", "Late")
"""States of a nightly run for which the server calls the webhook; "Failed" is an error, a red run is "Red"."""
ONCE_IN = timedelta(days=1)
"""Time in which the server calls the webhook at most once for a state of a nightly run."""
PATIENCE_S = 600.0
"""Seconds for which a webhook that cannot be reached is tried."""
PAUSE_S, MAX_PAUSE_S = 2.0, 60.0
TIMEOUT_S = 30.0
NOT_TAKEN = (429, 503)
"""Statuses with which a server says that it did not take a request, and will later."""
TEXT = (
    '{"text": {{ (flow_run.state.name ~ ": nightly run " ~ flow_run.name | replace("night ", "") ~ ". " '
    '~ (flow_run.state.message or "")) | tojson }}, '
    '"state": {{ flow_run.state.name | tojson }}, "page": {{ flow_run | ui_url | tojson }}}'
)
"""What is posted, as JSON: `text`, which Slack, Mattermost and Teams' workflows show, the state, and Prefect's page."""


async def watch_over_flow_runs() -> None:
    """Create the automations that mark deployed flow runs as crashed, unless there are any.

    A flow run that stays unended holds the one slot of its deployment, so no other nightly run would ever start.
    """
    ended = {state.capitalize() for state in ENDED}
    gone = "Its process is gone: no heartbeat. Its answers are kept."
    await _crash(GONE_NAME, gone, SILENT_S, after={"Running", "heartbeat"}, expect={"heartbeat", *ended})
    unstarted = "Its process did not start: the worker that took it is gone."
    await _crash(
        UNSTARTED_NAME, unstarted, START_S, after={"Pending", "Submitting"}, expect={"Running", *ended}
    )


async def _crash(name: str, message: str, seconds: float, *, after: set[str], expect: set[str]) -> None:
    """Create an automation: one event of a deployed flow run is not followed in time by one that it expects."""
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import Posture

    await _create(
        name,
        ChangeFlowRunState(state=StateType.CRASHED, message=message),
        after={f"prefect.flow-run.{event}" for event in after},
        expect={f"prefect.flow-run.{event}" for event in expect},
        match_related={"prefect.resource.id": [f"prefect.tag.{TAG}"]},
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        within=timedelta(seconds=seconds),
    )


async def _create(name: str, action: Any, **trigger: Any) -> None:
    """Create an automation of flow runs, unless there is one of this name."""
    from prefect.automations import Automation
    from prefect.events.schemas.automations import EventTrigger
    from prefect.exceptions import ObjectNotFound

    async with open_client() as client:
        if await client.read_automations_by_name(name):
            return
    event = EventTrigger(match={"prefect.resource.id": ["prefect.flow-run.*"]}, threshold=1, **trigger)
    await Automation(name=name, trigger=event, actions=[action]).acreate()
    async with open_client() as client:  # another process may have created one at the same time
        automations = await client.read_automations_by_name(name)
        for duplicate in sorted(automations, key=lambda automation: automation.id)[1:]:
            with suppress(ObjectNotFound):
                await client.delete_automation(duplicate.id)


def find_webhook() -> str:
    """Return the address in CROSSCHECK_NOTIFY; "" without the variable."""
    url = os.environ.get(WEBHOOK, "").strip()
    if url and not url.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{WEBHOOK} has to be an address that begins with http:// or https://; unset it to send no notifications."
        )
    return url


async def notify(state: str, text: str, page: str) -> str:
    """Call the webhook in CROSSCHECK_NOTIFY; return why it could not be called, "" if it was or there is none.

    A connection that fails is tried again for ten minutes, as is what the server did not take. A request that may have
    arrived is not repeated.
    """
    import httpx

    url = find_webhook()
    if not url:
        return ""
    not_connected = (httpx.ConnectError, httpx.ConnectTimeout)
    attempts = AsyncRetrying(
        retry=retry_if_exception_type(not_connected)
        | retry_if_result(lambda answer: answer.status_code in NOT_TAKEN),
        stop=stop_after_delay(PATIENCE_S),
        wait=wait_exponential(PAUSE_S, max=MAX_PAUSE_S),
        # the last answer, or what the last attempt raised
        retry_error_callback=lambda last: last.outcome.result(),  # type: ignore[union-attr]  # it has one
    )
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
            answer: httpx.Response = await attempts(
                client.post, url, json={"text": text, "state": state, "page": page}
            )
    except not_connected:
        return f"The webhook in {WEBHOOK} was not called: it cannot be reached."
    except httpx.HTTPError as error:  # its text may have the address, which may hold a secret
        return f"The webhook in {WEBHOOK} did not answer ({type(error).__name__})."
    return "" if answer.is_success else f"The webhook in {WEBHOOK} answered {answer.status_code}."


async def notify_of_nights() -> None:
    """Have Prefect's server call the webhook in CROSSCHECK_NOTIFY for nightly runs that cannot do so themselves."""
    url = find_webhook()
    if not url:
        return
    from prefect.blocks.webhook import Webhook
    from prefect.events.actions import CallWebhook
    from prefect.events.schemas.automations import Posture
    from prefect.types import SecretDict
    from pydantic import SecretStr

    headers = SecretDict({"Content-Type": "application/json"})  # Prefect sends a text without one
    block = await Webhook(method="POST", url=SecretStr(url), headers=headers).save(BLOCK, overwrite=True)
    await _create(
        NAME,
        CallWebhook(block_document_id=block, payload=TEXT),
        expect={f"prefect.flow-run.{state}" for state in STATES},
        match_related=[
            {"prefect.resource.id": [f"prefect.tag.{TAG}"]},
            {"prefect.resource.role": ["flow"], "prefect.resource.name": ["nightly"]},
        ],
        for_each={"prefect.resource.id", "prefect.state-name"},
        posture=Posture.Reactive,
        within=ONCE_IN,
    )


async def _create_all() -> None:
    await watch_over_flow_runs()
    await notify_of_nights()


if __name__ == "__main__":
    try:
        asyncio.run(_create_all())
    except CrosscheckError as error:
        sys.exit(f"crosscheck: {error}")
    if command := sys.argv[1:]:
        os.execvp(command[0], command)  # noqa: S606 - the caller's own command
