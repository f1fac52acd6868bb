"""Prefect's automation that marks deployed flow runs as crashed once their process is gone."""

from datetime import timedelta

from flows.orchestration.flow_runs import ENDED

TAG = "crosscheck"
"""Tag of every deployed flow run: the automation ignores flow runs of other projects."""
NAME = "crosscheck: crash flow runs that nobody runs any more"
SILENT_S = 90
"""Seconds without a heartbeat: three are missed (`flows.orchestration.settings.DEPLOYED`)."""


async def watch_over_flow_runs() -> None:
    """Create the automation that marks deployed flow runs as crashed once their heartbeats stop, if there is none."""
    from prefect.automations import Automation
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import EventTrigger, Posture
    from prefect.events.schemas.events import ResourceSpecification

    ended = {f"prefect.flow-run.{state.capitalize()}" for state in ENDED}
    trigger = EventTrigger(
        after={"prefect.flow-run.heartbeat"},
        expect={"prefect.flow-run.heartbeat", *ended},
        match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
        match_related=ResourceSpecification({"prefect.resource.id": [f"prefect.tag.{TAG}"]}),
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=timedelta(seconds=SILENT_S),
    )
    async with get_client() as client:
        if await client.read_automations_by_name(NAME):
            return
    crash = ChangeFlowRunState(
        state=StateType.CRASHED, message="Its process is gone: no heartbeat. Its answers are kept."
    )
    await Automation(name=NAME, trigger=trigger, actions=[crash]).acreate()
