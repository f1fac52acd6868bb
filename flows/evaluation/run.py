"""Runs an evaluation: what `crosscheck evaluate`, `crosscheck sweep` and the Python interface call."""

from pathlib import Path
from typing import TYPE_CHECKING

from flows.orchestration.server import LocalServer
from flows.questions.launch import launched
from flows.report.result import EvaluationResult
from flows.runtime.control import Control
from flows.runtime.logs import logging_to
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tasks.tracking.run_record import RunRecord

if TYPE_CHECKING:
    from flows.questions.preparation import Preparation


def run_evaluation(
    settings: EvaluationSettings,
    control: Control,
    server: LocalServer | None = None,
    preparation: "Preparation | None" = None,
) -> EvaluationResult:
    """Evaluate, in the present thread; `server` and `preparation` are as in `launched`.

    Raises:
        CrosscheckError: what is wrong and what to do about it.
        Interrupted: the user stopped it (a subclass).
    """
    with launched(
        settings, control, server, flow="flows.evaluation.flow", preparation=preparation
    ) as prefect:
        from flows.evaluation.flow import evaluation_flow

        return prefect.loop.run(evaluation_flow(control, prefect.preparation)(settings)).unquote()


def evaluate_unless_known(settings: EvaluationSettings, control: Control) -> EvaluationResult | RunRecord:
    """Evaluate; or, where a finished run is exactly that evaluation, return its record, without any server.

    Raises:
        CrosscheckError: as `run_evaluation`.
    """
    from flows.evaluation.repeat import find_repeated, may_be_known

    if not may_be_known(settings):
        return run_evaluation(settings, control)
    from flows.questions.preparation import prepare

    with logging_to(Home(Path(settings.home))):
        preparation = prepare(settings, control.progress)
        control.progress.step("Looking for a finished run of the same settings, questions and code")
        known = find_repeated(preparation, control.tags)
    return known or run_evaluation(settings, control, preparation=preparation)
