"""The `evaluate` flow: one benchmark, one backbone, one pipeline."""

from collections.abc import Coroutine
from typing import Any

from prefect import Flow, flow
from prefect.runtime import flow_run
from prefect.utilities.annotations import quote

from flows.evaluation.evaluating import evaluate_prepared
from flows.orchestration.flow_runs import require_workers
from flows.questions.preparation import Preparation, prepare
from flows.runtime.control import Control
from tasks.settings.evaluation import EvaluationSettings


def evaluation_flow(
    control: Control, preparation: Preparation | None = None
) -> Flow[[EvaluationSettings], Coroutine[Any, Any, quote]]:
    """Return the flow `evaluate`, which takes the settings of an evaluation.

    Args:
        control: progress, stop requests, tags and budget, which Prefect could not store as parameters.
        preparation: what the settings' preparation found; None: the flow prepares itself.
    """

    @flow(
        name="evaluate",
        flow_run_name="{settings.benchmark.name} | {settings.backbone.name} | {settings.pipeline.name}",
        validate_parameters=False,
        persist_result=False,
    )
    async def evaluate(settings: EvaluationSettings) -> quote:
        """Take every question through the pipeline, score each stage, and log the run to MLflow.

        Raises:
            CrosscheckError: what is wrong and what to do about it.
            Interrupted: the user asked to stop; what was answered is persisted.
        """
        control.begin_flow_run(str(flow_run.id))
        prepared = preparation or prepare(settings, control.progress)
        if settings.shards > 1:
            await require_workers()
        # quoted: Prefect does not search it for futures, which takes 0.5 s for a thousand questions
        return quote(await evaluate_prepared(prepared, control))

    return evaluate
