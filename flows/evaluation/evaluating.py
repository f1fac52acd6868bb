"""The body of the flow `evaluate`, which runs without Prefect, too, where every stage can be restored."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict
from typing import Any

from flows.evaluation.forecast import forecast
from flows.evaluation.repeat import inputs_of
from flows.evaluation.session import ScoredSession
from flows.orchestration.flow_runs import final_state, flow_run_id, require_workers
from flows.questions import schema_only
from flows.questions.pool import Answers, restore_everything
from flows.questions.preparation import Preparation, prepare
from flows.questions.session import Session
from flows.runtime.control import Control
from flows.sharding.answers import ShardAnswers
from flows.sharding.launch import answer_in_shards
from tasks.core.outcome import Outcome
from tasks.settings.evaluation import EvaluationSettings


async def restored_outcomes(preparation: Preparation, control: Control) -> dict[str, Outcome] | None:
    """Return the outcomes of all questions if every stage has a persisted result; None if one would have to run.

    Raises:
        CrosscheckError: what cannot be opened or read.
    """
    async with Session.open(preparation.settings, control, in_prefect=False) as session:
        return await restore_everything(preparation.answerable, session.runner(preparation.inputs))


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
        """Take every question through the pipeline, score each stage, and log the run to MLflow.

        Raises:
            CrosscheckError: what is wrong and what to do about it.
            Interrupted: the user asked to stop; what was answered is persisted.
        """
        in_prefect = restored is None
        if in_prefect:
            control.begin_flow_run(str(flow_run_id()))
        prepared = preparation or prepare(settings, control.progress)
        if settings.shards > 1:
            await require_workers()
        inputs = inputs_of(prepared, control.tags)
        async with ScoredSession.open(
            prepared, control, control.tags, inputs=inputs, in_prefect=in_prefect
        ) as session:
            forecasted = await forecast(session)
            shards = ShardAnswers()
            if settings.shards > 1:
                results = session.session.results
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
