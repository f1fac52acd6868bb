"""Notifications of nightly runs: an automation of Prefect's server that calls a webhook.

`python -m flows.orchestration.notifications [COMMAND ...]` creates the automation and then executes COMMAND: one that a
nightly run creates comes too late for a first run that is late, or whose process ends at its start.
"""

import asyncio
import os
import sys

from flows.orchestration.crashed_runs import TAG
from tasks.errors import ConfigurationError, CrosscheckError

WEBHOOK = "CROSSCHECK_NOTIFY"
"""Environment variable with the address to call; it may hold a secret, so it is no parameter of a flow."""
NAME = "crosscheck: say how a nightly run went wrong"
BLOCK = "crosscheck-notify"
FLOW = "nightly"
"""Name of the flow of nightly runs."""
STATES = ("Failed", "Crashed", "TimedOut", "Amber", "Late")
"""States of a nightly run that call the webhook: failed (red, or an error), crashed, timed out, amber, late."""
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


async def notify_of_nights() -> None:
    """Have Prefect's server call the webhook in CROSSCHECK_NOTIFY when a nightly run goes wrong.

    The server calls it, so it is also called when the process was killed. Without the variable nothing is changed.

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
        for_each={"prefect.resource.id"},
        posture=Posture.Reactive,
        threshold=1,
    )
    call = CallWebhook(block_document_id=block, payload=TEXT)
    await Automation(name=NAME, trigger=trigger, actions=[call]).acreate()


if __name__ == "__main__":
    try:
        asyncio.run(notify_of_nights())
    except CrosscheckError as error:
        sys.exit(f"crosscheck: {error}")
    if command := sys.argv[1:]:
        os.execvp(command[0], command)  # noqa: S606 - the caller's own command
