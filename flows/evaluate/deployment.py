"""The deployed `evaluate` flow: one evaluation, chosen by names in Prefect's form."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from flows.evaluate.deployed import as_prefect_state, deployed_run, ended, names_of, open_home, settings_of
from flows.evaluate.flow import evaluation_flow
from flows.evaluate.forms import EvaluationForm
from flows.prefect.flow_runs import result_of
from flows.runtime.control import Control

DEMO = EvaluationForm()


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


async def _evaluate(evaluation: EvaluationForm) -> State[Any]:
    home = await open_home()
    control = Control(tags=evaluation.as_tags)
    with deployed_run(home, control, parent=str(flow_run.id)):
        record = await result_of(await evaluation_flow(control)(settings_of(evaluation), return_state=True))
    return await ended(record, home)
