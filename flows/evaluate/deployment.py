"""The deployed flows `evaluate` and `rerun`, which a user starts in Prefect's form."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from flows.evaluate.deployed import as_prefect_state, deployed_run, ended, names_of, open_home, settings_of
from flows.evaluate.evaluating import evaluation
from flows.evaluate.forms import EvaluationForm, RerunForm
from flows.evaluate.rerun import rerun
from flows.evaluate.rerun_plan import plan_rerun
from flows.prefect.flow_runs import result_of
from flows.runtime.control import Control
from tasks.settings.evaluation import Labels, RerunSettings
from tasks.settings.home import find_data

DEMO, ERRORS = EvaluationForm(), RerunForm()


def _flow_run_name() -> str:
    return " | ".join(names_of(flow_run.parameters.get("evaluation", DEMO)))


@flow(name="evaluate-by-name", flow_run_name=_flow_run_name, persist_result=False)
async def evaluate_by_name(evaluation: EvaluationForm = DEMO) -> State[Any]:
    """Take every question of a benchmark through a pipeline, score each stage, and log the run to MLflow.

    Fails if the backbone stops answering; answers so far are kept, and another run with the same parameters
    continues.

    Args:
        evaluation: What is evaluated.
    """
    return await as_prefect_state(_evaluate(evaluation))


async def _evaluate(form: EvaluationForm) -> State[Any]:
    home = await open_home()
    control = Control(tags=form.as_tags)
    with deployed_run(home, control):
        record = await result_of(await evaluation(control)(settings_of(form)))
    return ended(record, home)


@flow(name="rerun-by-name", flow_run_name="rerun {choice.run}", persist_result=False)
async def rerun_by_name(choice: RerunForm = ERRORS) -> State[Any]:
    """Ask some questions of a run again, and log a new run with the answers to all of them.

    Args:
        choice: The run and the questions to repeat.
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
    with deployed_run(home, control):
        record = await result_of(await rerun(plan, control)(settings))
    return ended(record, home)
