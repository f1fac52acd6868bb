"""The `evaluate` flow: one benchmark, one backbone, one pipeline."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flows.evaluate.estimate import measure, priced
from flows.evaluate.exchanges import record
from flows.evaluate.identical_run import inputs_of
from flows.evaluate.pool import Answers
from flows.evaluate.preparation import Preparation, check_record, is_free, prepare
from flows.evaluate.session import NO_SHARDS, Session
from flows.evaluate.shards import answer_in_shards
from flows.prefect.flow_runs import as_flow, async_beginnings, final_state, flow_run_id, result_of
from flows.prefect.settings import DEPLOYED_HOME
from flows.runtime.control import Control
from tasks.backbone.pricing import prices_for
from tasks.core.errors import CrosscheckError, first_problem
from tasks.core.wording import agreeing, counted, money
from tasks.results.run_record import RunRecord
from tasks.scoring.cost import Estimate
from tasks.settings.evaluation import EvaluationSettings

MAX_FORECAST_S = 20.0
"""Seconds after which an estimate is given up: the SQL of its sample is slow."""


def evaluation_flow(control: Control, preparation: Preparation | None = None) -> Any:
    """Return the flow `evaluate`, which takes the settings of an evaluation and ends with a `final_state`."""
    return _as_flow(evaluation(control, preparation))


def _as_flow(body: Callable[[EvaluationSettings], Coroutine[Any, Any, Any]]) -> Any:
    name = "{settings.benchmark.name} | {settings.backbone.name} | {settings.pipeline.name}"
    return as_flow(body, "evaluate", name)


async def evaluate_early(
    preparation: Preparation, control: Control, connect: Callable[[], None], *, similar: bool
) -> RunRecord:
    """Evaluate, and answer questions while `connect` waits for Prefect's server: the flow run continues from there.

    If Prefect fails, requests in flight are awaited, and their replies are kept. `similar` says that an earlier run had
    these settings: if every stage then has a persisted result, all questions are restored, without a flow run.
    """
    async with AsyncExitStack() as exit_stack:
        session = await exit_stack.enter_async_context(_session(preparation, control))
        forecast = await _forecast(session)
        if similar:
            control.progress.step("Restoring the results of earlier runs")
            if restored := await session.restore_everything():
                answers = await session.answer(preparation.answerable, restored=restored)
                return await _finish(session, answers, forecast)
        answering = asyncio.ensure_future(session.answer(preparation.answerable))

        async def evaluate(settings: EvaluationSettings) -> Any:
            """Take every question through the pipeline, score each stage, and log the run to MLflow."""
            control.begin_flow_run(flow_run_id())
            async with exit_stack.pop_all():  # from here on the flow run closes the session
                assert session.resources.task_runs is not None
                session.resources.task_runs.begin()
                return final_state(await _finish(session, await answering, forecast))

        try:
            connecting = asyncio.create_task(asyncio.to_thread(connect))
            # Progress names the server only where the answers are there before it.
            await asyncio.wait({connecting, answering}, return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                control.progress.step("Waiting for Prefect's server")
            await connecting
            async for beginning in async_beginnings(control, connect):
                with beginning:
                    state = await _as_flow(evaluate)(preparation.settings, return_state=True)
            return await result_of(state)
        finally:
            # A second request to stop would not wait for the requests in flight.
            if not (answering.done() or control.stop.is_set()):
                control.ask_to_stop()
            await asyncio.wait({answering})


def evaluation(
    control: Control, preparation: Preparation | None = None
) -> Callable[[EvaluationSettings], Coroutine[Any, Any, Any]]:
    """Return a function that takes the settings of an evaluation: the body of the flow.

    Prefect could not store these arguments as parameters. Without a preparation the function prepares the settings.
    """

    async def evaluate(settings: EvaluationSettings) -> Any:
        """Take every question through the pipeline, score each stage, and log the run to MLflow."""
        control.begin_flow_run(flow_run_id())
        prepared = preparation or prepare(settings, control.progress)
        if settings.shards > 1:
            from flows.prefect.schedule import require_workers  # imports Prefect

            await require_workers({DEPLOYED_HOME: settings.home})
        async with _session(prepared, control) as session:
            forecast = await _forecast(session)
            shards = NO_SHARDS
            if settings.shards > 1:
                results = session.resources.results
                assert results is not None
                shards = await answer_in_shards(session.preparation, session.run, results, control)
            answers = await session.answer(prepared.answerable, shards=shards)
            return final_state(await _finish(session, answers, forecast, shards))

    return evaluate


def _session(prepared: Preparation, control: Control) -> AbstractAsyncContextManager[Session]:
    return Session.open(prepared, control, control.tags, inputs=inputs_of(prepared, control.tags))


async def _finish(
    session: Session, answers: Answers, forecast: Estimate | None, shards: Answers = NO_SHARDS
) -> RunRecord:
    """Log the run, and return its record; `shards` are those answers that shards gave."""
    session.raise_if_nothing_was_answered(answers)
    answers.task_runs += shards.launches
    facts = {"forecast": forecast, **_note(session, answers)}
    return await session.finish(answers, facts=facts, shards=shards)


async def _forecast(session: Session) -> Estimate | None:
    """Estimate and show the cost; None for a model without a price, and if the estimate takes too long."""
    settings = session.preparation.settings
    progress = session.resources.control.progress
    if is_free(settings) or prices_for(settings.backbone) is None:
        return None
    progress.step("Estimating the cost")
    try:
        parts = await asyncio.wait_for(
            measure(session.preparation, session.resources.tools.workers), MAX_FORECAST_S
        )
    except TimeoutError:
        return None
    estimate = priced(session.preparation, parts)
    if estimate.calls is not None:
        progress.step(
            f"Forecast without cached replies: {counted(estimate.calls, 'call')}, {money(estimate.cost_usd)}"
        )
    return estimate


def _note(session: Session, answers: Answers) -> dict[str, Any]:
    """Write the recording, add notes on recorded replies, and return facts on both for the summary."""
    facts: dict[str, Any] = {}
    prepared, resources = session.preparation, session.resources
    progress = resources.control.progress
    served = resources.served
    if path := prepared.settings.record:

        def note(recorded: Mapping[str, Any]) -> None:
            # another process may have written it meanwhile
            check_record(prepared.settings, {question.id for question in prepared.questions})
            facts.update(recorded)
            session.note(recorded)

        assert resources.observed is not None
        try:
            recording = record(
                Path(path), prepared.answerable, answers.outcomes, resources.observed, resources.replies, note
            )
        except (CrosscheckError, OSError) as error:  # the score is kept
            recording = f"The recording was not written: {first_problem(error)}"
            facts["recorded"] = {"file": path, "refused": recording}
        progress.note(recording)
    if served:
        restored = counted(answers.restored, "question", "was")
        remark = f"; {restored} restored from an earlier replay" if answers.restored else ""
        progress.note(f"Replies served from the recording: {served}{remark}.")
        facts["replay"] = asdict(served)
    schema_only = [
        answers.outcomes[question.id]
        for question in prepared.answerable
        if question.database_id in prepared.schema_only and question.id in answers.outcomes
    ]
    if schema_only:
        failures = [outcome.failure for outcome in schema_only if outcome.failure]
        by_stage = Counter(failure.stage for failure in failures if failure.kind == "missing_database")
        stages = "; ".join(f"{stage} was not executable on {count:,}" for stage, count in by_stage.items())
        questions = counted(len(prepared.answerable), "question")
        progress.note(
            f"{len(schema_only):,} of {questions} {agreeing('was', len(schema_only))} run with only the schema, "
            "because the database is missing: linking counts them, execution accuracy does not"
            f"{f' ({stages})' if stages else ''}."
        )
    return facts
