"""Notifications of nightly runs: a webhook is called once for each nightly run that is red or amber, or fails.

A nightly run that is red or amber calls it itself, with its verdict. If it cannot (its process was killed, it ended
with an error, or it never started), an automation of Prefect's server calls the same webhook.

`python -m flows.orchestration.notifications [COMMAND ...]` creates the automation and then executes COMMAND: one that a
nightly run creates comes too late for a first run that is late, or whose process ends at its start.
"""

import asyncio
import os
import sys
from contextlib import suppress
from datetime import timedelta

from flows.orchestration.crashed_runs import TAG
from tasks.core.errors import ConfigurationError, CrosscheckError

WEBHOOK = "CROSSCHECK_NOTIFY"
"""Environment variable with the address to call; it may hold a secret, so it is no parameter of a flow."""
NAME = "crosscheck: notify about failed, crashed and late nightly runs"
BLOCK = "crosscheck-notify"
FLOW = "nightly"
"""Name of the flow of nightly runs."""
STATES = ("Failed", "Crashed", "TimedOut", "Late")
"""States of a nightly run for which the server calls the webhook; "Failed" is an error, a red run is "Red"."""
ONCE_IN = timedelta(days=1)
"""Time in which the server calls the webhook at most once for a state of a nightly run."""
TRIES, PAUSE_S, TIMEOUT_S = 3, 2.0, 30.0
TEXT = (
    '{"text": {{ (flow_run.name ~ ": " ~ flow_run.state.name ~ ". " ~ (flow_run.state.message or "")) | tojson }}, '
    '"state": {{ flow_run.state.name | tojson }}, "page": {{ flow_run | ui_url | tojson }}}'
)
"""What is posted, as JSON: `text`, which Slack, Mattermost and Teams' workflows show, the state, and Prefect's page."""


def find_webhook() -> str:
    """Return the address in CROSSCHECK_NOTIFY; "" without the variable.

    Raises:
        ConfigurationError: the variable has no address.
    """
    url = os.environ.get(WEBHOOK, "").strip()
    if url and not url.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{WEBHOOK} has to be an address that begins with http:// or https://; unset it to send no notifications."
        )
    return url


async def notify(state: str, text: str, page: str) -> str:
    """Call the webhook in CROSSCHECK_NOTIFY; return why it could not be called, "" if it was or there is none.

    A connection that fails is tried again. A request that may have arrived is not repeated.

    Args:
        state: of the nightly run.
        text: what to say.
        page: address of the nightly run.
    """
    import httpx

    url = find_webhook()
    if not url:
        return ""
    problem = ""
    async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
        for number in range(TRIES):
            await asyncio.sleep(PAUSE_S * number)
            try:
                answer = await client.post(url, json={"text": text, "state": state, "page": page})
            except httpx.ConnectError:
                problem = "it cannot be reached"
            except httpx.HTTPError as error:  # its text may have the address, which may hold a secret
                return f"The webhook in {WEBHOOK} did not answer ({type(error).__name__})."
            else:
                return "" if answer.is_success else f"The webhook in {WEBHOOK} answered {answer.status_code}."
    return f"The webhook in {WEBHOOK} was not called: {problem}."


async def notify_of_nights() -> None:
    """Have Prefect's server call the webhook in CROSSCHECK_NOTIFY for nightly runs that cannot do so themselves.

    Without the variable nothing is changed.

    Raises:
        ConfigurationError: the variable has no address.
    """
    url = find_webhook()
    if not url:
        return
    from prefect.automations import Automation
    from prefect.blocks.webhook import Webhook
    from prefect.client.orchestration import get_client
    from prefect.events.actions import CallWebhook
    from prefect.events.schemas.automations import EventTrigger, Posture
    from prefect.events.schemas.events import ResourceSpecification
    from prefect.exceptions import ObjectNotFound
    from pydantic import SecretStr

    block = await Webhook(method="POST", url=SecretStr(url)).save(BLOCK, overwrite=True)
    async with get_client() as client:
        if await client.read_automations_by_name(NAME):
            return
    trigger = EventTrigger(
        expect={f"prefect.flow-run.{state}" for state in STATES},
        match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
        match_related=[
            ResourceSpecification({"prefect.resource.id": [f"prefect.tag.{TAG}"]}),
            ResourceSpecification({"prefect.resource.role": ["flow"], "prefect.resource.name": [FLOW]}),
        ],
        for_each={"prefect.resource.id", "prefect.state-name"},
        posture=Posture.Reactive,
        threshold=1,
        within=ONCE_IN,
    )
    call = CallWebhook(block_document_id=block, payload=TEXT)
    await Automation(name=NAME, trigger=trigger, actions=[call]).acreate()
    async with get_client() as client:  # another process may have created one at the same time
        _, *others = sorted(await client.read_automations_by_name(NAME), key=lambda each: each.id)
        for other in others:
            with suppress(ObjectNotFound):
                await client.delete_automation(other.id)


if __name__ == "__main__":
    try:
        asyncio.run(notify_of_nights())
    except CrosscheckError as error:
        sys.exit(f"crosscheck: {error}")
    if command := sys.argv[1:]:
        os.execvp(command[0], command)  # noqa: S606 - the caller's own command
