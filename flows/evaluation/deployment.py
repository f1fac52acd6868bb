"""The deployed `evaluate` flow: one evaluation, chosen by names in Prefect's form."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Completed

from flows.deployed.forms import Evaluation
from flows.deployed.run import attended, in_words, open_home, settings_of, told
from flows.evaluation.flow import evaluate
from flows.report.result import Evaluated
from flows.runtime.control import Control

DEMO = Evaluation()


@flow(
    name="evaluate-by-name",
    flow_run_name="{evaluation.benchmark} | {evaluation.backbone} | {evaluation.pipeline}",
    persist_result=False,
)
async def evaluate_by_name(evaluation: Evaluation = DEMO) -> State[Any]:
    """Take every question of a benchmark through a pipeline, score each stage, and log the run to MLflow.

    Fails where the backbone stopped answering; what it answered until then is kept, and another run of the same
    parameters continues.

    Args:
        evaluation: What is evaluated.
    """
    return await in_words(_evaluate(evaluation))


async def _evaluate(evaluation: Evaluation) -> State[Any]:
    home = await open_home()
    with attended(home, Control(), night=str(flow_run.id)):
        found: Evaluated = await evaluate(settings_of(evaluation))
    for note in found.notes:
        get_run_logger().info(note)
    return Completed(message=told(found))
