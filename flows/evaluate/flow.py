"""The `evaluate` flow: one benchmark, one backbone, one pipeline."""

from collections.abc import Coroutine
from typing import Any

from prefect import Flow, flow

from flows.evaluate.evaluating import evaluation
from flows.evaluate.preparation import Preparation
from flows.runtime.control import Control
from tasks.settings.evaluation import EvaluationSettings


def evaluation_flow(
    control: Control, preparation: Preparation | None = None
) -> Flow[[EvaluationSettings], Coroutine[Any, Any, Any]]:
    """Return the flow `evaluate`, which takes the settings of an evaluation and ends with a `final_state`.

    The arguments are those of `evaluation`.
    """
    return flow(
        name="evaluate",
        flow_run_name="{settings.benchmark.name} | {settings.backbone.name} | {settings.pipeline.name}",
        validate_parameters=False,
        persist_result=False,
    )(evaluation(control, preparation))
