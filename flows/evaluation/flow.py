"""The `evaluate` flow: one benchmark, one backbone, one pipeline."""

from collections.abc import Coroutine
from dataclasses import asdict
from typing import Any

from prefect import Flow, flow
from prefect.runtime import flow_run
from prefect.utilities.annotations import quote

from flows.evaluation.forecast import forecast
from flows.evaluation.repeat import inputs_of
from flows.evaluation.session import ScoredSession
from flows.orchestration.flow_runs import require_workers
from flows.questions import schema_only
from flows.questions.pool import Answers
from flows.questions.preparation import Preparation, prepare
from flows.runtime.control import Control
from flows.sharding.answers import ShardAnswers
from flows.sharding.launch import answer_in_shards
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
        inputs = inputs_of(prepared, control.tags)
        async with ScoredSession.open(prepared, control, control.tags, inputs) as session:
            forecasted = await forecast(session)
            shards = ShardAnswers()
            if settings.shards > 1:
                results = session.session.results
                assert results is not None
                shards = await answer_in_shards(
                    session.preparation.settings, session.tracking.run, results, control
                )
            answers = await session.answer(prepared.answerable, given=shards.as_answers)
            session.raise_if_nothing_was_answered(answers)
            facts = {"forecast": forecasted, **_note(session, answers)}
            answers.task_runs += shards.launches
            return quote(  # Prefect does not search it for futures: 0.5 s for a thousand questions
                await session.finish(
                    answers, facts=facts, elsewhere=shards.task_runs, recorded=shards.recorded
                )
            )

    return evaluate


def _note(session: ScoredSession, answers: Answers) -> dict[str, Any]:
    """Write the recording, add notes on recorded replies, and return facts on both for the summary."""
    facts: dict[str, Any] = {}
    prepared, progress, served = session.preparation, session.session.control.progress, session.session.served
    if recorder := session.session.recorder:
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
