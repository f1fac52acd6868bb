"""What Prefect's UI shows of a run: its address, and artifacts with the result and the progress."""

import asyncio
import json
import logging
import os
import shlex
import urllib.parse
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from uuid import UUID

from flows.prefect.flow_runs import open_client, optional
from flows.runtime.control import Control, Ui
from flows.runtime.summary import next_steps
from tasks.documents.markdown import markdown
from tasks.pages.first_screen import cost_sentence, run_document
from tasks.results.run_record import RunRecord
from tasks.settings.home import Home

log = logging.getLogger(__name__)

OWN_UI = "http://127.0.0.1:4200"
"""Address at which `crosscheck up` shows Prefect's pages by default."""
UPDATE_INTERVAL_S = 5.0
UNANSWERED_TAG = "unanswered"
"""Tag of flow runs that left questions without an answer."""


@asynccontextmanager
async def progress_artifact(label: str, total: int) -> AsyncIterator[Callable[[], None]]:
    """Show the percentage of done questions on the page of the running flow; the flow that launched it reads it, too.

    Yield the function that counts a question.
    """
    from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

    done = 0
    ended = asyncio.Event()

    def count() -> None:
        nonlocal done
        done += 1

    async def show() -> None:
        with optional(f"the progress of {label} cannot be shown"):
            artifact = await acreate_progress_artifact(
                0.0, key="questions", description=f"Questions of {label}"
            )
            while not ended.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), UPDATE_INTERVAL_S)
                await aupdate_progress_artifact(artifact, progress=100.0 * done / max(1, total))

    showing = asyncio.create_task(show())
    try:
        yield count
    finally:
        ended.set()
        await showing


async def show_markdown(key: str, text: str, description: str) -> None:
    """Create a Markdown artifact of the running flow; one that cannot be written is logged and no more."""
    from prefect.artifacts import acreate_markdown_artifact

    with optional(f"Prefect does not show the artifact {key} ({description})"):
        await acreate_markdown_artifact(text, key=key, description=description)


async def show_result(record: RunRecord) -> None:
    """Show the result of an evaluation on the page of the running flow: as an artifact, in its log, and by a tag."""
    from prefect.logging import get_run_logger
    from prefect.runtime import flow_run

    if record.unanswered:
        with optional(f"Prefect does not show the tag {UNANSWERED_TAG}"):
            async with open_client() as client:
                await client.update_flow_run(UUID(flow_run.id), tags=[*flow_run.tags, UNANSWERED_TAG])
    steps = next_steps(record)
    form = await _rerun_form(record) if record.retryable else ""
    link = f"[Ask the questions without an answer again]({form})\n\n" if form else ""
    commands = "\n".join(("```", *steps, "```"))
    text = f"# {record.in_words}\n\n{commands}\n\n{link}{markdown(run_document(record))}"
    headline = f"{record.in_words}, run {record.run_id}"
    await show_markdown("evaluation", text, headline)
    for line in filter(None, (headline, cost_sentence(record), *record.notes, *steps, form)):
        get_run_logger().info(line)


async def _rerun_form(record: RunRecord) -> str:
    """Return the address of the form that re-runs a run, with its id filled in; "" where no form is deployed."""
    try:
        async with open_client() as client:
            deployment = await client.read_deployment_by_name("rerun-by-name/rerun")
        fields = deployment.parameter_openapi_schema["properties"]  # type: ignore[index]  # it has one
        choice = {**fields["choice"]["default"], "run": record.run_id}
    except Exception as error:  # a link that cannot be made must not lose a result
        log.info("Prefect shows no form for a re-run: %s", error)
        return ""
    parameters = urllib.parse.quote(json.dumps({"choice": choice}))
    return f"{_external_ui() or OWN_UI}/deployments/deployment/{deployment.id}/run?parameters={parameters}"


def prefect_ui(home: Home, control: Control) -> Ui:
    """Return where Prefect shows the flow run of a command: on our server, which may end with it, or the user's."""
    if not control.own_server and (external := _external_ui()):
        return Ui(f"Prefect's server answers at {external}", prefect_page(control.flow_run))
    command = f"crosscheck up --home {shlex.quote(str(home.path))}"
    return Ui(command, f"{OWN_UI}/runs/flow-run/{control.flow_run}")


def prefect_page(flow_run_id: str) -> str:
    """Return the address of a flow run in the UI."""
    return f"{_external_ui() or OWN_UI}/runs/flow-run/{flow_run_id}"


def _external_ui() -> str:
    """Return the UI's address where the user's own server is used, "" where it is ours.

    Prefect's own setting PREFECT_UI_URL takes precedence: browsers may need another address than clients.
    """
    url = os.environ.get("PREFECT_API_URL", "")
    if not url:
        return ""
    return os.environ.get("PREFECT_UI_URL", "").rstrip("/") or url.removesuffix("/").removesuffix("/api")
