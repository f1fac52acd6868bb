"""The body of the flow `evaluate`, which runs without Prefect, too, where every stage can be restored."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict
from typing import Any

from flows.evaluate import runner as schema_only
from flows.evaluate.estimate import estimate, is_free
from flows.evaluate.pool import Answers, restore_everything
from flows.evaluate.preparation import Preparation, prepare
from flows.evaluate.repeat import inputs_of
from flows.evaluate.resources import Resources
from flows.evaluate.session import Session
from flows.evaluate.shards import ShardAnswers, answer_in_shards
from flows.prefect.flow_runs import final_state, flow_run_id
from flows.runtime.control import Control
from tasks.backbone.pricing import prices_for
from tasks.core.outcome import Outcome
from tasks.core.wording import money, number
from tasks.scoring.cost import Estimate
from tasks.settings.evaluation import EvaluationSettings

MAX_FORECAST_S = 20.0
"""Seconds after which an estimate is given up: the SQL of its sample is slow."""


async def forecast(session: Session) -> Estimate | None:
    """Return the estimated cost of a session's questions, and show it.

    Returns:
        None for a model without a price, and if the estimate takes too long.
    """
    settings, progress = session.preparation.settings, session.resources.control.progress
    if is_free(settings) or prices_for(settings.backbone) is None:
        return None
    progress.step("Estimating the cost")
    try:
        estimated = await asyncio.wait_for(
            estimate(session.preparation, session.resources.tools.workers), MAX_FORECAST_S
        )
    except TimeoutError:
        return None
    if estimated.calls is not None:
        progress.step(
            f"Forecast without cached replies: {number(estimated.calls)} calls, {money(estimated.cost_usd)}"
        )
    return estimated


async def restored_outcomes(preparation: Preparation, control: Control) -> dict[str, Outcome] | None:
    """Return the outcomes of all questions if every stage has a persisted result; None if one would have to run."""
    async with Resources.open(preparation.settings, control, in_prefect=False) as resources:
        return await restore_everything(preparation.answerable, resources.runner(preparation.inputs))


def evaluation(
    control: Control,
    preparation: Preparation | None = None,
    restored: Mapping[str, Outcome] | None = None,
) -> Callable[[EvaluationSettings], Coroutine[Any, Any, Any]]:
    """Return a function that takes the settings of an evaluation: the body of the flow.

    Args:
        control: progress, stop requests, tags and budget, which Prefect could not store as parameters.
        preparation: what the settings' preparation found; None: the function prepares itself.
        restored: outcomes of all questions, with which no flow has to be running; None: it runs as a flow.
    """

    async def evaluate(settings: EvaluationSettings) -> Any:
        """Take every question through the pipeline, score each stage, and log the run to MLflow."""
        in_prefect = restored is None
        if in_prefect:
            control.begin_flow_run(str(flow_run_id()))
        prepared = preparation or prepare(settings, control.progress)
        if settings.shards > 1:
            from flows.evaluate.deployed import DEPLOYED_HOME  # imports Prefect
            from flows.prefect.schedule import require_workers

            await require_workers({DEPLOYED_HOME: settings.home})
        inputs = inputs_of(prepared, control.tags)
        async with Session.open(
            prepared, control, control.tags, inputs=inputs, in_prefect=in_prefect
        ) as session:
            forecasted = await forecast(session)
            shards = ShardAnswers()
            if settings.shards > 1:
                results = session.resources.results
                assert results is not None
                shards = await answer_in_shards(
                    session.preparation.settings, session.tracking.run, results, control
                )
            answers = await session.answer(prepared.answerable, given=shards.as_answers, restored=restored)
            session.raise_if_nothing_was_answered(answers)
            facts = {"forecast": forecasted, **_note(session, answers)}
            answers.task_runs += shards.launches
            result = await session.finish(
                answers, facts=facts, elsewhere=shards.task_runs, recorded=shards.recorded
            )
            return final_state(result) if in_prefect else result

    return evaluate


def _note(session: Session, answers: Answers) -> dict[str, Any]:
    """Write the recording, add notes on recorded replies, and return facts on both for the summary."""
    facts: dict[str, Any] = {}
    prepared, progress, served = (
        session.preparation,
        session.resources.control.progress,
        session.resources.served,
    )
    if recorder := session.resources.recorder:
        recorded = recorder.write(prepared.answerable, answers.outcomes, session.tracking.note)
        progress.note(recorded.message)
        facts |= recorded.facts
    if served:
        restored = (
            f"; {answers.restored:,} questions were restored from an earlier replay"
            if answers.restored
            else ""
        )
        progress.note(f"Replies served from the recording: {served}{restored}.")
    by_schema = {
        question.id: answers.outcomes[question.id]
        for question in prepared.answerable
        if question.database_id in prepared.schema_only and question.id in answers.outcomes
    }
    if by_schema:
        progress.note(schema_only.summary(by_schema, len(prepared.answerable)))
    return facts | ({"replay": asdict(served)} if served else {})
