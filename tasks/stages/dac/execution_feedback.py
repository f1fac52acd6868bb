"""Execution errors as feedback (DAC, section 3.4). No model call."""

from tasks.core.dac_records import Feedback
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.stage_runs.stage import stage
from tasks.stages.shown_results import show_result


@stage()
async def execution_feedback(sql: str | None, runner: DatabaseRunner) -> Feedback | None:
    """Return why a SQL fails, None where it executes; an empty result is no failure here."""
    result = await runner.run(sql, 1) if sql else None
    if result is not None and result.ok:
        return None
    return Feedback("execution", error=show_result(result, 1))
