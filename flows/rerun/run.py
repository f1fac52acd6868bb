"""Runs a re-run: what `crosscheck rerun` and the Python interface call."""

from flows.orchestration.flow_runs import run_flow
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

        return prefect.loop.run(run_flow(rerun_flow(plan, control, prefect.preparation), plan.asked_for))
