"""The deployed `rerun` flow: some questions of a run once more, chosen in Prefect's form."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from flows.evaluate.deployed import as_prefect_state, deployed_run, ended, open_home
from flows.evaluate.forms import RerunForm
from flows.evaluate.rerun import rerun_flow
from flows.evaluate.rerun_plan import plan_rerun
from flows.prefect.flow_runs import result_of
from flows.runtime.control import Control
from tasks.settings.evaluation import Labels, RerunSettings
from tasks.settings.home import find_data

ERRORS = RerunForm()


@flow(name="rerun-by-name", flow_run_name="rerun {choice.run}", persist_result=False)
async def rerun_by_name(choice: RerunForm = ERRORS) -> State[Any]:
    """Ask some questions of a run again, and log a new run with the answers to all of them.

    Args:
        choice: What is asked again.
    """
    return await as_prefect_state(_rerun(choice))


async def _rerun(choice: RerunForm) -> State[Any]:
    home = await open_home()
    named = choice.model_dump(exclude={"data", *Labels.model_fields})
    settings = RerunSettings(**named, data=str(find_data(choice.data)), home=str(home.path))
    plan = plan_rerun(settings)
    if not plan.again:
        return Completed(message=f"Run {plan.parent.run_id} has no question to repeat ({plan.selection}).")
    control = Control(tags=choice.as_tags)
    with deployed_run(home, control, parent=str(flow_run.id)):
        record = await result_of(await rerun_flow(plan, control)(settings, return_state=True))
    return await ended(record, home)
