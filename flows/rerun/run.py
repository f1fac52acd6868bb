"""Runs a re-run: what `crosscheck rerun` and the Python interface call."""

from typing import Any

from flows.orchestration.flow_runs import result_of
from flows.questions.launch import launched
from flows.report.result import EvaluationResult
from flows.rerun.plan import RerunPlan
from flows.runtime.control import Control


def run_rerun(plan: RerunPlan, control: Control) -> EvaluationResult:
    """Send the questions of a plan again, in the present thread.

    Raises:
        CrosscheckError: what is wrong and what to do about it.
        Interrupted: the user stopped it (a subclass).
    """
    with launched(plan.settings, control, flow="flows.rerun.flow") as prefect:
        from flows.rerun.flow import rerun_flow

        rerun: Any = rerun_flow(plan, control, prefect.preparation)
        state = prefect.loop.run(rerun(plan.asked_for, return_state=True))
        return prefect.loop.run(result_of(state))
