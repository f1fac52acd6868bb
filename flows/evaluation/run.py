"""Runs an evaluation: what `crosscheck evaluate`, `crosscheck sweep` and the Python interface call."""

from flows.orchestration.server import LocalServer
from flows.questions.launch import launched
from flows.report.result import EvaluationResult
from flows.runtime.control import Control
from tasks.settings.evaluation import EvaluationSettings


def run_evaluation(
    settings: EvaluationSettings, control: Control, server: LocalServer | None = None
) -> EvaluationResult:
    """Evaluate, in the present thread; `server` is as in `launched`.

    Raises:
        CrosscheckError: what is wrong and what to do about it.
        Interrupted: the user stopped it (a subclass).
    """
    with launched(settings, control, server, flow="flows.evaluation.flow") as prefect:
        from flows.evaluation.flow import evaluation_flow

        return prefect.loop.run(evaluation_flow(control, prefect.preparation)(settings)).unquote()
